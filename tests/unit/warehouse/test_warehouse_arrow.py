"""Rows that are in Arrow already, and how files are laid out."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from warehouse.parquet import compact_run, list_parts, read_rows, write_rows, write_table
from warehouse.query import query
from warehouse.schema import SCHEMA_VERSION
from warehouse.schema.changes import METADATA_KEY

RUN = "20261127T220355-3f9a2c"
NAN = float("nan")


def _write(home: Path, columns: dict[str, object], *, revision: int = 0) -> Path:
    arrow = pa.table(columns)
    return write_table(home=home, table="requests", run_id=RUN, arrow=arrow, part="p", revision=revision)


def test_arrow_and_dicts_leave_the_same_rows(home: Path) -> None:
    gaps = [[1.5, NAN], None, []]
    columns = {"request_id": ["a", "b", "c"], "attempt": [0, 0, 1], "gaps_ms": gaps, "ttft_ms": [NAN, None, 3.0]}
    _write(home, columns, revision=2)
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    write_rows(home=home, table="requests", run_id="dicts", rows=rows, part="p", revision=2)
    ours, theirs = ([row | {"run_id": None} for row in read_rows(home, "requests", run)] for run in (RUN, "dicts"))
    assert ours == theirs
    assert [row["gaps_ms"] for row in ours] == [[1.5, None], None, []]
    assert [row["ttft_ms"] for row in ours] == [None, None, 3.0]


def test_a_slice_or_a_batch_is_written_as_it_is(home: Path) -> None:
    whole = pa.table({"request_id": ["a", "b", "c"], "attempt": [0, 0, 0], "gaps_ms": [[NAN], [2.0], [3.0, NAN]]})
    batch = whole.slice(1).to_batches()[0]
    write_table(home=home, table="requests", run_id=RUN, arrow=batch, part="p")
    rows = read_rows(home, "requests", columns=["request_id", "gaps_ms", "run_id"])
    assert [(row["request_id"], row["gaps_ms"]) for row in rows] == [("b", [2.0]), ("c", [3.0, None])]
    assert {row["run_id"] for row in rows} == {RUN}


@pytest.mark.parametrize(
    ("columns", "error", "words"),
    [
        ({"request": ["a"]}, ValueError, "no column request"),
        ({"run_id": ["another"]}, ValueError, "a row of run another"),
        ({"attempt": ["first"]}, TypeError, r"requests\.attempt"),
        ({"attempt": [0.5]}, TypeError, r"requests\.attempt"),
        ({"output": pa.array([b"\xff"]).view(pa.string())}, ValueError, r"requests\.output"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_file_is_there(
    home: Path, columns: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        _write(home, columns)
    assert not home.exists()


def test_long_values_make_small_row_groups(home: Path) -> None:
    prompts = [f"{number:06d}" * 30_000 for number in range(1_200)]
    for half in (prompts[:600], prompts[600:]):
        arrow = pa.table({"dataset": ["d"] * 600, "sample_id": [each[:6] for each in half], "prompt": half})
        write_table(home=home, table="samples", run_id=RUN, arrow=arrow, part="p")
    compact_run(home=home, run_id=RUN)
    [path] = list_parts(home=home, table="samples")
    metadata = pq.ParquetFile(path).metadata
    assert metadata.num_rows == 1_200
    assert metadata.num_row_groups > 1
    assert metadata.metadata[METADATA_KEY] == str(SCHEMA_VERSION).encode()


def test_many_rows_keep_their_values_through_compaction(home: Path) -> None:
    """More rows than one batch holds, revisions and attempts across files and far into them."""
    rows = 40_000
    ids = [str(number) for number in range(rows)]
    lists = pa.array([[number, -number] for number in range(rows)], pa.list_(pa.int32()))
    gaps = pa.array([[number / 7] for number in range(rows)], pa.list_(pa.float32()))
    _write(home, {"request_id": ids, "attempt": [0] * rows, "output_token_ids": lists, "gaps_ms": gaps})
    _write(home, {"request_id": ["39999", "20000"], "attempt": [0, 0], "output": ["new", "new"]}, revision=1)
    _write(home, {"request_id": ["30000"], "attempt": [1], "output": ["again"]})
    sql = (
        "SELECT count(*), count(DISTINCT request_id), sum(output_token_ids[1]), sum(output_token_ids[2]),"
        " bit_xor(hash(request_id, attempt, revision, output, output_token_ids, gaps_ms)) FROM "
    )
    before = [query(home=home, sql=sql + table).rows for table in ("requests", "request_attempts")]
    assert before[0][0][:3] == (rows, rows, sum(range(rows)) - 39_999 - 20_000 - 30_000)
    assert compact_run(home=home, run_id=RUN) == ["requests"]
    assert [query(home=home, sql=sql + table).rows for table in ("requests", "request_attempts")] == before


def test_rows_of_one_cell_alone_are_read(home: Path) -> None:
    for revision, cells in enumerate((["a", "b", None], ["b"])):
        rows = [
            {"request_id": f"r{cell}", "attempt": 0, "cell_id": cell, "tries": revision, "gaps_ms": [1.0]}
            for cell in cells
        ]
        write_rows(home=home, table="requests", run_id=RUN, rows=rows, part="p", revision=revision)
    found = read_rows(home, "requests", RUN, columns=["request_id", "tries"], where=("cell_id", "b"))
    assert found == [{"request_id": "rb", "tries": 1}]
    assert read_rows(home, "requests", RUN, where=("cell_id", "c")) == []
    with pytest.raises(ValueError, match="no column nothing"):
        read_rows(home, "requests", RUN, where=("nothing", "b"))
