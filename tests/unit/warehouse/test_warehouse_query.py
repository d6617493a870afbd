"""Users' SQL: what it answers, what it refuses and in which words."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from schemas.errors import ConfigError
from warehouse.parquet import write_rows
from warehouse.query import query

RUN = "20261127T220355-3f9a2c"


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A warehouse with two runs, beside a file that no query may see."""
    home = tmp_path_factory.mktemp("it's [a] {home}*")
    for number in range(2):
        rows = [{"name": f"n{number}", "status": "finished"}]
        write_rows(home=home, table="runs", run_id=f"{RUN}{number}", rows=rows, part="p")
    write_rows(home=home, table="samples", run_id=RUN, rows=[{"sample_id": str(i)} for i in range(10)], part="p")
    (home / "tables_beside").mkdir()
    (home / "tables_beside" / "secret.csv").write_text("secret\n1\n")
    (home / "secret.csv").write_text("secret\n1\n")
    sql = "SELECT name, status FROM runs ORDER BY name"
    before = query(home=home, sql=sql).rows
    yield home
    assert query(home=home, sql=sql).rows == before == [("n0", "finished"), ("n1", "finished")]


def _files(home: Path) -> set[str]:
    return {str(path) for path in home.rglob("*") if ".build" not in path.name}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT status FROM runs",
        "FROM runs",
        "WITH r AS (SELECT * FROM runs) SELECT count(*) FROM r",
        "VALUES (1), (2)",
        "TABLE runs",
        "DESCRIBE runs",
        "SHOW TABLES",
        "SUMMARIZE runs",
        "EXPLAIN SELECT * FROM runs",
        "EXPLAIN ANALYZE SELECT * FROM samples",
        "explain (format json) select 1",
        "SELECT 1; -- done",
        "/* why */ SELECT 1",
        "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT * FROM n",
        "SELECT 1 UNION ALL (SELECT 2 ORDER BY 1) EXCEPT SELECT 3",
        "PIVOT runs ON status IN ('finished') USING count(*)",
        "SELECT list_transform([1, 2], lambda x: x + 1)",
        "SELECT * FROM range(3), unnest([1, 2])",
        "SELECT s.sample_id FROM samples AS s WHERE EXISTS (SELECT 1 FROM runs)",
        "SELECT 'INSERT_QUERY_NODE', 'COPY' AS type, '; DROP TABLE runs'",
        "FROM flips('a', 'b')",
        "SELECT * FROM query_table('runs')",
    ],
)
def test_reading_statements_run(ready: Path, sql: str) -> None:
    query(home=ready, sql=sql)


def test_a_result_has_columns_types_and_rows(ready: Path) -> None:
    result = query(home=ready, sql="SELECT name, 0.5::DOUBLE AS x, NULL AS missing FROM runs ORDER BY name")
    assert result.columns == ["name", "x", "missing"]
    assert result.types[:2] == ["VARCHAR", "DOUBLE"]
    assert result.rows == [("n0", 0.5, None), ("n1", 0.5, None)]
    assert not result.truncated


@pytest.mark.parametrize(("limit", "rows", "truncated"), [(0, 0, True), (3, 3, True), (10, 10, False), (11, 10, False)])
def test_rows_are_limited_and_it_is_said(ready: Path, limit: int, rows: int, truncated: bool) -> None:
    result = query(home=ready, sql="SELECT sample_id FROM samples", limit_rows=limit)
    assert (len(result.rows), result.truncated) == (rows, truncated)


ATTACKS = [
    "COPY runs TO '{home}/tables/out.csv'",
    "COPY runs FROM '/etc/passwd'",
    "WITH x AS (COPY (SELECT 1) TO '{home}/tables/out.parquet') FROM x",
    "WITH x AS MATERIALIZED (COPY runs TO '{home}/tables/out.csv') SELECT 1",
    "EXPLAIN ANALYZE COPY runs TO '{home}/tables/out.csv'",
    "EXPLAIN ANALYZE WITH x AS (COPY (SELECT 1) TO '{home}/tables/out.csv') FROM x",
    "EXPLAIN EXPLAIN ANALYZE COPY runs TO '{home}/tables/out.csv'",
    "/* */ EXPLAIN ANALYZE COPY runs TO '{home}/tables/out.csv'",
    "FROM query('WITH x AS (COPY (SELECT 1) TO ''{home}/tables/out.csv'') FROM x')",
    "FROM \"query\"('SELECT 1')",
    "FROM Query('SELECT 1')",
    "FROM main.query('SELECT 1')",
    "FROM system.main.query('SELECT 1')",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql("
    "'WITH x AS (COPY (SELECT 1) TO ''{home}/tables/out.csv'') FROM x'))",
    "PRAGMA json_execute_serialized_sql('x')",
    "ATTACH '{home}/other.duckdb'",
    "ATTACH ':memory:' AS m",
    "DETACH warehouse",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SET threads = 1",
    "RESET lock_configuration",
    "PRAGMA version",
    "PRAGMA enable_external_access=true",
    "CALL pragma_version()",
    "FROM read_csv('/etc/passwd')",
    "FROM read_text('/etc/passwd')",
    "FROM read_blob('/etc/passwd')",
    "FROM read_json('/etc/passwd')",
    "FROM sniff_csv('/etc/passwd')",
    "FROM glob('/*')",
    "FROM '/etc/passwd'",
    "FROM '{home}/secret.csv'",
    "FROM '{home}/tables_beside/secret.csv'",
    "FROM '{home}/tables/../secret.csv'",
    "FROM read_parquet('{home}/tables/../secret.csv')",
    "FROM read_parquet('/etc/passwd')",
    "FROM read_parquet('http://127.0.0.1:9/x.parquet')",
    "FROM read_parquet('s3://bucket/x.parquet')",
    "FROM parquet_metadata('/etc/passwd')",
    "SELECT getenv('HOME')",
    "FROM read_ndjson_auto('/etc/passwd')",
    "FROM duckdb_secrets()",
    "FROM which_secret('s3://x', 's3')",
    "FROM duckdb_logs()",
    "FROM arrow_scan(1, 2, 3)",
    "FROM test_all_types()",
    "FROM pragma_user_agent()",
    "FROM force_checkpoint()",
    "FROM add_parquet_key('k', 'v')",
    "FROM summary((FROM glob('/*')))",
    "FROM query_table('/etc/passwd.parquet')",
    "SELECT (SELECT count(*) FROM read_csv('/etc/passwd'))",
    "WITH x AS (SELECT * FROM read_text('/etc/passwd')) FROM x",
    "SET VARIABLE x = 1",
    "COPY (SELECT 1) TO '{home}/tables/out.parquet'",
    "EXPORT DATABASE '{home}/out' (FORMAT parquet)",
    "LOAD '{home}/tables/evil.duckdb_extension'",
    "FROM python_object_of_the_caller",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP TABLE runs",
    "CREATE TABLE t (i INTEGER)",
    "CREATE TEMP TABLE t AS SELECT 1",
    "CREATE TABLE memory.main.t (i INTEGER)",
    "CREATE MACRO f() AS 1",
    "INSERT INTO runs (run_id) VALUES ('x')",
    "UPDATE runs SET status = 'x'",
    "DELETE FROM runs",
    "TRUNCATE runs",
    "DROP TABLE runs",
    "ALTER TABLE runs ADD COLUMN x INTEGER",
    "WITH x AS (INSERT INTO runs (run_id) VALUES ('x') RETURNING *) FROM x",
    "WITH x AS (UPDATE runs SET status = 'x' RETURNING *) FROM x",
    "SELECT * FROM (WITH x AS (DELETE FROM runs RETURNING *) FROM x)",
    "PIVOT runs ON status USING count(*)",
    "EXPORT DATABASE '{home}/tables/out'",
    "IMPORT DATABASE '{home}'",
    "CHECKPOINT",
    "FROM checkpoint()",
    "FROM enable_logging()",
    "VACUUM",
    "BEGIN",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "USE memory",
    "SELECT ?",
    "SELECT $name",
    "",
    " ; ",
    "-- nothing",
]


@pytest.mark.parametrize("sql", ATTACKS)
def test_everything_else_is_refused_with_a_reason(ready: Path, sql: str) -> None:
    before = _files(ready)
    python_object_of_the_caller = duckdb.connect().sql("SELECT 1 AS secret")
    with pytest.raises(ConfigError) as refused:
        query(home=ready, sql=sql.replace("{home}", str(ready).replace("'", "''")))
    assert len(str(refused.value)) > len("sql: ")
    assert _files(ready) == before
    assert python_object_of_the_caller is not None


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELEC 1", 'syntax error at or near "SELEC"'),
        ("FROM rns", "line 1, column 6: Table with name rns does not exist (did you mean `runs`?)"),
        (
            "SELECT nme FROM runs",
            'line 1, column 8: Referenced column "nme" not found in FROM clause (did you mean `name`?)',
        ),
        (
            "SELECT status,\n  r.nme\nFROM runs AS r",
            'line 2, column 3: Table "r" does not have a column named "nme" (did you',
        ),
        ("SELECT ttft FROM requests", "did you mean `ttft_ms`?"),
        ("FROM leaderbord", "did you mean `leaderboard`?"),
        ("FROM trnd('a')", "did you mean `trend`?"),
        ("SELECT " + "1 + " * 60 + "naem, 2 FROM runs", "line 1, column 248: "),
        ("SELECT sum(name) FROM runs", "No function matches the given name and argument types 'sum(VARCHAR)'"),
        ("SELECT 1; SELECT 2", "2 statements"),
        ("DROP TABLE runs", "kind DROP does more than read (give one SELECT"),
        ("WITH x AS (COPY runs TO 'y') FROM x", "COPY inside a SELECT"),
        ("FROM read_csv('x')", "table function read_csv is not allowed here (allowed are"),
        ("PIVOT runs ON status USING count(*)", "ON column IN"),
        ("FROM '/etc/passwd.parquet'", "only the warehouse's own tables can be read"),
        ("SELECT error('boom')", "boom"),
        ("", "nothing to run"),
    ],
)
def test_refusals_say_what_to_do(ready: Path, sql: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        query(home=ready, sql=sql)
    assert words in str(refused.value)


def test_what_nests_too_deep_is_refused_not_crashed(ready: Path) -> None:
    for sql in ("SELECT " + "+".join(["1"] * 20_000), "SELECT " + "(" * 20_000 + "1" + ")" * 20_000):
        with pytest.raises(ConfigError):
            query(home=ready, sql=sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM range(10_000_000_000) AS a, range(10_000_000) AS b WHERE a.range + b.range = -1",
        "SELECT a.range FROM range(10_000_000_000) AS a WHERE hash(a.range) = 1",
    ],
)
def test_a_query_that_takes_too_long_is_stopped(ready: Path, sql: str) -> None:
    started = time.monotonic()
    with pytest.raises(ConfigError, match=r"stopped after 0\.3 s"):
        query(home=ready, sql=sql, timeout_s=0.3)
    assert time.monotonic() - started < 10


def test_rows_and_memory_are_bounded(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warehouse.query.MAX_ROWS", 1_000)
    with pytest.raises(ConfigError, match="more than 1,000 rows"):
        query(home=ready, sql="FROM range(1_001)")
    monkeypatch.setattr("warehouse.query.MEMORY_LIMIT", "10MB")
    with pytest.raises(ConfigError, match="Out of Memory"):
        query(home=ready, sql="SELECT length(string_agg(repeat('x', 1000), '')) FROM range(100_000)")


def test_queries_of_several_threads_do_not_meet(ready: Path) -> None:
    answers: list[object] = []

    def ask() -> None:
        answers.append(query(home=ready, sql="SELECT count(*) FROM samples").rows)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [[(10,)]] * 6


def test_an_open_reader_keeps_no_query_from_new_rows(home: Path) -> None:
    write_rows(home=home, table="runs", run_id=RUN, rows=[{"status": "running"}], part="p")
    assert query(home=home, sql="SELECT status FROM runs").rows == [("running",)]
    with duckdb.connect(str(home / "assay.duckdb"), read_only=True) as reader:
        write_rows(home=home, table="runs", run_id=RUN, rows=[{"status": "finished"}], part="p", revision=1)
        assert query(home=home, sql="SELECT status FROM runs").rows == [("finished",)]
        assert reader.execute("SELECT status FROM runs").fetchall() == [("running",)]
