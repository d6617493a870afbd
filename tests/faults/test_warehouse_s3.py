"""The warehouse in S3-compatible storage, on a real server on this machine."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from schemas.errors import AssayError, ConfigError
from tests.data.warehouse.make import HERE
from tests.e2e.command import ROOT, Done, assay, environment
from tests.faults.processes import wait_for
from warehouse.bucket import connected, place
from warehouse.bucket_files import BucketFiles
from warehouse.cookbook import COOKBOOK
from warehouse.parquet import compact_run, list_parts, remove_superseded, write_rows
from warehouse.parts import run_ids, stored_tables
from warehouse.push import push, push_run
from warehouse.query import query
from warehouse.remote import remote_home
from warehouse.schema import SCHEMA_VERSION
from warehouse.schema.changes import METADATA_KEY
from warehouse.views import definitions

RUN = "20261127T220355-3f9a2c"
KEYS = {"AWS_ACCESS_KEY_ID": "assay", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
TABLES_THERE = (*stored_tables(), "request_attempts")
SOON_S = 15.0
"""`assay` itself takes one or two of them on a busy machine."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server of its own for this module; gives its address."""
    port = _free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with subprocess.Popen(command, env=clean | KEYS, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(lambda: _answers(port), timeout_s=60, what="the S3 server")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


@pytest.fixture
def url(server: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """An empty prefix in a bucket of its own, with what the environment must say."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": server}.items():
        monkeypatch.setenv(name, value)
    bucket = f"b{abs(hash(request.node.name)) % 10**12}-{random.randrange(10**6)}"
    host = server.partition("://")[2]
    fs.S3FileSystem(endpoint_override=host, scheme="http", allow_bucket_creation=True).create_dir(bucket)
    return f"s3://{bucket}/team=a/year.1"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Two real runs, one of them compacted, and a part that was written again with the same revision."""
    shutil.copytree(HERE / "v1", tmp_path / "home")
    for status in ("first", "second"):
        rows = [{"request_id": "again", "attempt": 0, "status": status}]
        part = {"first": "z", "second": "a"}[status]
        write_rows(home=tmp_path / "home", table="requests", run_id=RUN, rows=rows, part=part)
    return tmp_path / "home"


def _same(home: Path, remote: Path, sql: str) -> None:
    here, there = query(home=home, sql=sql), query(home=remote, sql=sql)
    assert there.columns == here.columns
    assert there.types == here.types
    assert sorted(map(repr, there.rows)) == sorted(map(repr, here.rows)), sql


def test_every_table_and_view_tells_the_same_there(home: Path, url: str) -> None:
    done = push(home=home, url=url)
    assert (done.unchanged, done.removed) == (0, 0)
    remote = remote_home(home=home, url=url)
    sums = [f"SELECT '{name}' AS name, count(*) AS n, sum(hash(t)) AS sum FROM {name} AS t" for name in TABLES_THERE]
    _same(home, remote, " UNION ALL ".join(sums))
    for each in definitions():
        _same(home, remote, each.example)
    _same(home, remote, "SELECT table_name, column_name, data_type, comment FROM duckdb_columns() WHERE NOT internal")
    _same(home, remote, "SELECT view_name, comment FROM duckdb_views() WHERE NOT internal")
    rows = query(home=remote, sql="SELECT status FROM requests WHERE request_id = 'again'").rows
    assert rows == [("second",)], "the order of the parts decides between equal revisions, there as here"


@pytest.mark.slow
def test_the_cookbook_tells_the_same_there(home: Path, url: str) -> None:
    push(home=home, url=url)
    remote = remote_home(home=home, url=url)
    for entry in COOKBOOK:
        _same(home, remote, entry.sql)


def test_only_what_changed_is_sent(home: Path, url: str) -> None:
    first = push(home=home, url=url)
    again = push(home=home, url=url)
    assert (again.uploaded, again.uploaded_bytes, again.unchanged) == (0, 0, first.uploaded)
    write_rows(home=home, table="requests", run_id=RUN, rows=[{"request_id": "new", "attempt": 0}], part="new")
    assert push_run(home=home, run_id=RUN, url=url).uploaded == 1
    assert push_run(home=home, run_id="20990101T000000-000000", url=url).uploaded == 0
    compact_run(home=home, run_id=RUN)
    compacted = push(home=home, url=url)
    made = len(list_parts(home=home, table="requests", run_id=RUN))
    assert compacted.uploaded == made
    assert compacted.removed == 0
    remote = remote_home(home=home, url=url)
    _same(home, remote, "FROM request_attempts")
    assert len(_names(url, f"tables/requests/run={RUN}")) == 3 + made + 1, "what was replaced stays for a while"
    remove_superseded(home, 0)
    assert push(home=home, url=url).removed == 0
    assert push(home=home, url=url, grace_s=0).removed == 3
    assert len(_names(url, f"tables/requests/run={RUN}")) == made + 1
    settled = push(home=home, url=url, grace_s=0)
    assert (settled.uploaded, settled.removed) == (0, 0)
    _same(home, remote, "FROM request_attempts")


def test_what_was_replaced_and_cleaned_up_between_two_pushes_is_not_there_twice(home: Path, url: str) -> None:
    push(home=home, url=url)
    compact_run(home=home, run_id=RUN)
    remove_superseded(home, 0)
    push(home=home, url=url)
    remote = remote_home(home=home, url=url)
    for table in ("requests", "request_attempts"):
        _same(home, remote, f"FROM {table}")


def test_what_was_built_here_is_kept_until_something_changes_there(home: Path, url: str) -> None:
    push(home=home, url=url)
    remote = remote_home(home=home, url=url)

    def database() -> list[tuple[str, int]]:
        query(home=remote, sql="SELECT 1")
        return [(path.name, path.stat().st_ino) for path in remote.glob("remote-*.duckdb")]

    first = database()
    assert len(first) == 1
    assert database() == first
    write_rows(home=home, table="requests", run_id=RUN, rows=[{"request_id": "new", "attempt": 0}], part="new")
    assert database() == first, "not pushed yet"
    push_run(home=home, run_id=RUN, url=url)
    assert database() != first
    assert len(database()) == 1
    _same(home, remote, "FROM requests")
    shutil.rmtree(remote)
    _same(home, remote_home(home=home, url=url), "FROM requests")


def test_a_database_made_where_httpfs_was_installed_is_read_without_it(small: tuple[Path, str]) -> None:
    remote, _ = small
    assert query(home=remote, sql="SELECT count(*) FROM requests").rows == [(1,)]
    (made,) = remote.glob("remote-*-arrow.duckdb")
    made.rename(made.with_name(made.name.replace("-arrow", "-httpfs")))
    assert query(home=remote, sql="SELECT count(*) FROM requests").rows == [(1,)]
    assert not list(remote.glob("remote-*-arrow.duckdb"))


def test_large_files_are_not_fetched(home: Path, url: str) -> None:
    text = "".join(chr(random.randrange(33, 126)) for _ in range(400_000))
    write_rows(
        home=home, table="requests", run_id=RUN, rows=[{"request_id": "big", "attempt": 0, "output": text}], part="big"
    )
    push(home=home, url=url)
    remote = remote_home(home=home, url=url)
    rows = query(home=remote, sql="SELECT length(output) FROM requests WHERE request_id = 'big'").rows
    assert rows == [(400_000,)]
    (copy,) = remote.rglob("big.parquet")
    assert copy.stat().st_size > 300_000
    assert copy.stat().st_blocks * 512 < 150_000


def _names(url: str, folder: str) -> list[str]:
    where = place(url)
    infos = connected(where).get_file_info(fs.FileSelector(f"{where.path}/{folder}"))
    return [info.base_name for info in infos]


_PUSHER = """
import os, signal, sys
from pathlib import Path
from warehouse.push import push
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        os.write(1, f"{os.getpid()}\\n".encode())
        push(home=Path(sys.argv[1]), url=sys.argv[2], grace_s=3)
        os.write(1, b"done\\n")
        signal.pause()
    os.waitpid(child, 0)
    os.write(1, b"gone\\n")
"""


@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=pytest.mark.slow)])
def test_readers_there_see_every_row_once_while_pushes_are_killed(
    kills: int, home: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    choose, killed = random.Random(20261128), 0
    sql = "SELECT count(*), count(DISTINCT (request_id, attempt)) FROM request_attempts WHERE run_id = 'r'"
    remote = remote_home(home=home, url=url)
    push(home=home, url=url)
    seen = pushed = 0
    with subprocess.Popen(
        [sys.executable, "-c", _PUSHER, str(home), url],
        env=environment(home),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as pusher:
        assert pusher.stdin is not None
        assert pusher.stdout is not None
        for number in range(10 * kills):
            last = number >= kills - 1 and killed >= kills / 2
            for part in range(2):
                rows = [{"request_id": f"{number}-{part}", "attempt": attempt} for attempt in range(2)]
                write_rows(home=home, table="requests", run_id="r", rows=rows, part=f"{number:03}-{part}")
            if number % 2:
                compact_run(home=home, run_id="r")
            if number % 4 == 3:
                remove_superseded(home, 0)
            committed = query(home=home, sql=sql).rows[0][0]
            pusher.stdin.write("push\n")
            child = int(pusher.stdout.readline())
            time.sleep(choose.uniform(0, 0.5))
            lines = [pusher.stdout.readline()] if last else []
            os.kill(child, signal.SIGKILL)
            while not lines or lines[-1] != "gone\n":
                lines.append(pusher.stdout.readline())
            done = "done\n" in lines
            killed += not done
            pushed = committed if done else pushed
            n, keys = query(home=remote, sql=sql).rows[0]
            assert n == keys, "a row is there twice"
            assert n >= max(seen, pushed), "a row was lost"
            assert n <= committed
            seen = n
            if last:
                break
        pusher.stdin.close()
    with capsys.disabled() if kills > 5 else nullcontext():
        print(f"\n| push to S3 | {number + 1} | killed inside {killed} | {seen} committed rows | 0 lost | 0 twice |")
    assert killed >= kills / 2
    assert seen == committed
    _same(home, remote, "FROM request_attempts")
    push(home=home, url=url, grace_s=0)
    push(home=home, url=url, grace_s=0)
    _same(home, remote, "FROM request_attempts")
    named = [name for name in _names(url, "tables/requests/run=r") if name.startswith("_compacted")]
    assert len(named) == sum(each.name in named for each in list_parts(home=home, table="requests", run_id="r"))
    assert named, "what killed pushes left is gone"


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("COPY runs TO '/tmp/x.csv'", "does more than read"),
        ("COPY runs TO '{url}/x.parquet'", "does more than read"),
        ("ATTACH '{url}/x.duckdb'", "does more than read"),
        ("INSTALL httpfs", "does more than read"),
        ("LOAD httpfs", "does more than read"),
        ("SET s3_endpoint = 'x'", "does more than read"),
        ("SET enable_external_access = true", "does more than read"),
        ("CREATE SECRET s (TYPE s3)", "does more than read"),
        ("FROM read_csv('/etc/passwd')", "not allowed"),
        ("FROM read_text('{url}/tables/runs/x')", "not allowed"),
        ("FROM duckdb_secrets()", "not allowed"),
        ("FROM read_parquet('{bucket}/other.parquet')", "file system operations are disabled"),
        ("FROM read_parquet('{url}/tables/../../../other.parquet')", "file system operations are disabled"),
        ("FROM read_parquet('{url}/tables2/other.parquet')", "file system operations are disabled"),
        ("FROM read_parquet('s3://another/other.parquet')", "file system operations are disabled"),
        ("FROM read_parquet('/etc/other.parquet')", "file system operations are disabled"),
        ("FROM '{bucket}/other.parquet'", "file system operations are disabled"),
        ("FROM read_parquet('https://example.org/other.parquet')", "file system operations are disabled"),
    ],
)
def test_nothing_else_can_be_read_and_nothing_written(sql: str, words: str, small: tuple[Path, str]) -> None:
    remote, url = small
    bucket = "s3://" + url.removeprefix("s3://").partition("/")[0]
    with pytest.raises(ConfigError, match=words):
        query(home=remote, sql=sql.format(url=url, bucket=bucket))
    assert query(
        home=remote, sql=f"SELECT count(*) FROM read_parquet('{url}/tables/requests/run={RUN}/p.parquet')"
    ).rows


@pytest.fixture
def small(tmp_path: Path, url: str) -> tuple[Path, str]:
    """One row there, and a file beside the warehouse."""
    write_rows(home=tmp_path, table="requests", run_id=RUN, rows=[{"request_id": "a", "attempt": 0}], part="p")
    push(home=tmp_path, url=url)
    where = place(url)
    client = connected(where)
    for path in (f"{where.bucket}/other.parquet", f"{where.path}/tables2/other.parquet"):
        client.copy_file(f"{where.path}/tables/requests/run={RUN}/p.parquet", path)
    return remote_home(home=tmp_path, url=url), url


def test_the_file_system_only_reads(small: tuple[Path, str]) -> None:
    """Whatever statement got through: DuckDB has no way to write there."""
    _, url = small
    before = _names(url, "")
    with duckdb.connect() as connection:
        connection.register_filesystem(BucketFiles(client=connected(place(url)), sizes={}))
        assert connection.execute(f"SELECT count(*) FROM '{url}/tables/requests/*/p.parquet'").fetchall() == [(1,)]
        with pytest.raises(duckdb.Error):
            connection.execute(f"COPY (SELECT 1 AS a) TO '{url}/written.parquet'").fetchall()
    assert _names(url, "") == before


def _ask(url: str, home: Path, **variables: str) -> tuple[Done, float]:
    started = time.monotonic()
    done = assay("sql", "--at", url, "FROM runs", home=home, timeout_s=60, **variables)
    return done, time.monotonic() - started


def test_assay_push_and_assay_sql_at(home: Path, url: str) -> None:
    done = assay("push", home=home, timeout_s=60, ASSAY_PUSH=url)
    assert done.code == 0, done.stderr
    assert "files copied" in done.stdout
    done = assay("push", url, "--run", RUN, "--json", home=home, timeout_s=60)
    assert done.json == {"url": url, "uploaded": 0, "uploaded_bytes": 0, "unchanged": 2, "removed": 0}
    elsewhere = home.parent / "another host"
    done = assay(
        "sql", "--at", url, "SELECT count(*) AS n FROM requests", "--format", "json", home=elsewhere, timeout_s=60
    )
    assert done.code == 0, done.stderr
    assert done.json["rows"] == [{"n": query(home=home, sql="SELECT count(*) FROM requests").rows[0][0]}]
    assert assay("push", home=home, timeout_s=60).code == 2
    assert assay("push", url, "--run", "nobody", home=home, timeout_s=60).code == 2


@pytest.mark.parametrize(
    "address", ["s3:/b/x", "https://b/x", "s3://", "s3://b/x y", "s3://B/x", "s3://b/[x]", "/tmp/x"]
)
def test_a_wrong_address_is_refused(address: str, url: str, tmp_path: Path) -> None:
    for act in (lambda: push(home=tmp_path, url=address), lambda: remote_home(home=tmp_path, url=address)):
        with pytest.raises(ConfigError, match="write s3://BUCKET"):
            act()


def test_what_is_wrong_with_the_storage_is_said_soon(url: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    write_rows(home=home, table="runs", run_id=RUN, rows=[{"name": "n"}], part="p")
    down = f"http://127.0.0.1:{_free_port()}"
    cases: list[tuple[str, dict[str, str], int, str]] = [
        ("s3://no-such-bucket-here/x", {}, 2, "no such bucket"),
        (url, {}, 2, "there is no warehouse at"),
        (url, {"AWS_ENDPOINT_URL": down}, 1, "no connection to the server"),
        (url, {"AWS_ENDPOINT_URL": "http://nowhere.invalid:1"}, 1, "check"),
        (url, {"AWS_ENDPOINT_URL": "nowhere"}, 2, "AWS_ENDPOINT_URL: 'nowhere' is no server's address"),
        (url, {"AWS_ACCESS_KEY_ID": "", "HOME": str(tmp_path)}, 2, "no credentials"),
        ("s3:/b", {}, 2, "is no address of a folder in S3"),
    ]
    for address, variables, code, words in cases:
        done, seconds = _ask(address, home, **variables)
        assert (done.code, done.stdout) == (code, ""), done.stderr
        assert words in done.stderr
        assert "Traceback" not in done.stderr
        assert seconds < SOON_S, f"{words}: {seconds:.1f} s"
    done = assay("push", url, home=home, timeout_s=60, AWS_ENDPOINT_URL=down)
    assert done.code == 1
    assert "no connection to the server" in done.stderr


def test_a_file_of_a_newer_assay_is_named_by_where_it_is(home: Path, url: str) -> None:
    (path,) = (home / "tables" / "requests" / f"run={RUN}").glob("a.parquet")
    newer = {METADATA_KEY: str(SCHEMA_VERSION + 1).encode()}
    pq.write_table(pq.ParquetFile(path).read().replace_schema_metadata(newer), path)
    push(home=home, url=url)
    with pytest.raises(AssayError, match=f"{url}/tables/requests/run={RUN}/a.parquet: written with schema version"):
        query(home=remote_home(home=home, url=url), sql="FROM runs")


@pytest.mark.parametrize(
    "manifest",
    [
        {"compacted": 1},
        {"compacted": [{"name": "../../../../x.parquet", "holds": "rows"}], "superseded": {}},
        {"compacted": [], "superseded": {"p.parquet": "yesterday"}},
    ],
    ids=["no list", "a way out", "no time"],
)
def test_a_manifest_there_that_is_none_is_named(manifest: dict[str, object], home: Path, url: str) -> None:
    push(home=home, url=url)
    where, (_, run_id) = place(url), run_ids(home=home, table="runs")[:2]
    inside = f"tables/requests/run={run_id}/_manifest.json"
    with connected(where).open_output_stream(f"{where.path}/{inside}") as stream:
        stream.write(json.dumps(manifest).encode())
    for act in (lambda: push(home=home, url=url), lambda: query(home=remote_home(home=home, url=url), sql="FROM runs")):
        with pytest.raises(AssayError, match=f"{url}/{inside}: not a manifest"):
            act()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
