"""Rows written and read back."""

import json
import multiprocessing
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from warehouse.ids import new_run_id
from warehouse.parquet import list_parts, read_rows, write_rows
from warehouse.query import query
from warehouse.schema import SCHEMA_VERSION, TABLES

RUN = "20261127T220355-3f9a2c"


def test_run_ids_sort_by_time_and_differ() -> None:
    ids = [new_run_id() for _ in range(50)]
    assert len(set(ids)) == 50
    assert all(re.fullmatch(r"\d{8}T\d{6}-[0-9a-f]{6}", each) for each in ids)
    assert [each[:15] for each in ids] == sorted(each[:15] for each in ids)


def test_every_table_has_run_and_revision() -> None:
    assert all({"run_id", "revision"} <= set(table.names) for table in TABLES.values())


def test_a_part_lies_where_it_is_said_to_with_the_schema_version(home: Path) -> None:
    path = write_rows(home=home, table="cells", run_id=RUN, rows=[{"cell_id": "c"}], part="p-1")
    assert path == home / "tables" / "cells" / f"run={RUN}" / "p-1.parquet"
    metadata = pq.read_metadata(path)
    assert metadata.metadata[b"assay_schema_version"] == str(SCHEMA_VERSION).encode()
    assert metadata.row_group(0).column(0).compression == "ZSTD"
    assert [each.name for each in path.parent.iterdir()] == ["p-1.parquet"]


def test_what_is_missing_is_null_and_never_zero(home: Path) -> None:
    stored = [table for table in TABLES.values() if table.stored]
    for table in stored:
        write_rows(home=home, table=table.name, run_id=RUN, rows=[{}], part="p")
    for table in stored:
        empty = dict.fromkeys(table.names) | {"run_id": RUN, "revision": 0}
        assert read_rows(home, table.name) == [empty]
        result = query(home=home, sql=f"SELECT * FROM {table.name}")
        assert dict(zip(result.columns, result.rows[0], strict=True)) == empty


def test_hostile_text_and_raw_bytes_come_back_from_sql(home: Path) -> None:
    raw = bytes(range(256)) * 400 + b"\xed\xa0\x80" + "🦜 \u202eعربي".encode()
    text = "NUL \0 parrot 🦜 rtl \u202eعربي line\r\n quote ' \" " + "x" * 100_000
    row = {"dataset": "d", "sample_id": "\ud800lone", "raw": raw, "prompt": text, "input": {"text": text + "\udfff"}}
    write_rows(home=home, table="samples", run_id=RUN, rows=[row], part="p")
    result = query(home=home, sql="SELECT sample_id, raw, prompt, input, input ->> '$.text' FROM samples")
    sample_id, back, prompt, document, inner = result.rows[0]
    assert back == raw
    assert prompt == text
    assert sample_id == "\ufffdlone"
    assert json.loads(document) == {"text": text + "\ufffd"}
    assert inner == text + "\ufffd"
    assert "🦜" in document
    assert read_rows(home, "samples")[0]["raw"] == raw


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({"a": [1, None, float("nan"), float("inf")]}, '{"a": [1, null, null, null]}'),
        ("plain words", '"plain words"'),
        ('{"already": "json"}', '{"already": "json"}'),
        ("NaN", '"NaN"'),
        (True, "true"),
        (29, "29"),
        ([datetime(2026, 1, 2, tzinfo=UTC), Path("a/b")], '["2026-01-02T00:00:00+00:00", "a/b"]'),
        (None, None),
    ],
)
def test_json_columns_hold_json(home: Path, given: object, stored: str | None) -> None:
    write_rows(home=home, table="plans", run_id=RUN, rows=[{"engine_id": "e", "option": "o", "value": given}], part="p")
    assert read_rows(home, "plans")[0]["value"] == stored
    parsed = read_rows(home, "plans", parse_json=True)[0]["value"]
    assert parsed == (None if stored is None else json.loads(stored))


def test_nested_values_and_times_keep_their_meaning(home: Path) -> None:
    there = datetime(2026, 11, 27, 23, 0, 0, 5, tzinfo=timezone(timedelta(hours=1)))
    row = {
        "request_id": "r",
        "attempt": 0,
        "sent_at": there,
        "gaps_ms": [1.5, 2.0],
        "gap_tokens": [1, 3],
        "output_token_ids": [7, 8],
        "violations": [{"path": "$.\udc00", "message": "no"}, {"path": "$"}],
        "logprob_sum": float("nan"),
        "tpot_ms": 3,
    }
    write_rows(home=home, table="requests", run_id=RUN, rows=[row], part="p")
    back = read_rows(home, "requests")[0]
    assert back["sent_at"] == there
    assert back["sent_at"].utcoffset() == timedelta(0)
    assert back["gaps_ms"] == [1.5, 2.0]
    assert back["gap_tokens"] == [1, 3]
    assert back["violations"] == [{"path": "$.\ufffd", "message": "no"}, {"path": "$", "message": None}]
    assert back["logprob_sum"] is None
    assert back["tpot_ms"] == 3.0
    write_rows(home=home, table="runs", run_id=RUN, rows=[{"tags": {"a": "b", "n": 3, "yes": True}}], part="p")
    assert read_rows(home, "runs")[0]["tags"] == {"a": "b", "n": "3", "yes": "true"}
    assert query(home=home, sql="SELECT tags['n'] FROM runs").rows == [("3",)]


@pytest.mark.parametrize(
    ("table", "row", "words"),
    [
        ("runs", {"nmae": "x"}, "no column nmae"),
        ("runs", {"run_id": "another"}, "run another"),
        ("runs", {"name": 3}, r"runs\.name"),
        ("runs", {"started_at": datetime(2026, 1, 1)}, "time zone"),
        ("runs", {"started_at": 1_700_000_000}, "time zone"),
        ("runs", {"git_dirty": 1}, "True or False"),
        ("samples", {"row_index": 1.5}, r"samples\.row_index"),
        ("samples", {"row_index": True}, r"samples\.row_index"),
        ("scores", {"value": "0.5"}, r"scores\.value"),
        ("requests", {"gap_tokens": [100_000]}, r"requests\.gap_tokens"),
        ("requests", {"violations": [{"where": "$"}]}, "no part where"),
        ("plans", {"value": object()}, r"plans\.value"),
        ("no_such", {}, "no stored table"),
        ("schema_version", {}, "no stored table"),
    ],
)
def test_what_does_not_fit_is_refused_and_leaves_nothing(
    home: Path, table: str, row: dict[str, object], words: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        write_rows(home=home, table=table, run_id=RUN, rows=[row], part="p")
    assert not list(home.rglob("*.parquet"))


@pytest.mark.parametrize("name", ["", "..", "a/b", "_compacted-x", ".hidden", "a\0b", "a" * 300, "a\n"])
def test_names_that_become_paths_are_checked(home: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is no name"):
        write_rows(home=home, table="runs", run_id=RUN, rows=[{}], part=name)
    with pytest.raises(ValueError, match="is no name"):
        write_rows(home=home, table="runs", run_id=name, rows=[{}], part="p")


def test_a_part_is_never_replaced_and_the_highest_revision_counts(home: Path) -> None:
    paths = [
        write_rows(home=home, table="runs", run_id=RUN, rows=[{"status": status}], part="run", revision=revision)
        for revision, status in ((0, "running"), (2, "finished"), (1, "crashed"))
    ]
    assert len(set(paths)) == 3
    assert sorted(list_parts(home=home, table="runs")) == sorted(paths)
    assert [row["status"] for row in read_rows(home, "runs", RUN)] == ["finished"]
    assert query(home=home, sql="SELECT status, revision FROM runs").rows == [("finished", 2)]


def test_of_equal_revisions_the_later_part_counts_everywhere(home: Path) -> None:
    for status in ("a", "c", "b"):
        write_rows(home=home, table="runs", run_id=RUN, rows=[{"status": status}], part="run")
    assert [row["status"] for row in read_rows(home, "runs")] == ["b"]
    assert query(home=home, sql="SELECT status FROM runs").rows == [("b",)]


def test_reading_some_columns_still_tells_revisions_apart(home: Path) -> None:
    for revision in (1, 0):
        rows = [{"request_id": "r", "attempt": 0, "status": f"s{revision}", "output": "long"}]
        write_rows(home=home, table="requests", run_id=RUN, rows=rows, part="p", revision=revision)
    assert read_rows(home, "requests", columns=["status"]) == [{"status": "s1"}]
    with pytest.raises(ValueError, match="no column nmae"):
        read_rows(home, "requests", columns=["nmae"])
    assert read_rows(home, "scores") == []
    with pytest.raises(ValueError, match="no stored table"):
        read_rows(home, "no_such")


def _write_many(home: Path, who: int) -> None:
    for number in range(10):
        rows = [{"engine_id": f"e{who}", "step": number}]
        write_rows(home=home, table="steps", run_id=RUN, rows=rows, part="same-name")


def test_writers_with_one_part_name_lose_nothing(home: Path) -> None:
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=_write_many, args=(home, who)) for who in range(2)]
    for other in others:
        other.start()
    for other in others:
        other.join(60)
    assert len(read_rows(home, "steps")) == 20
    assert not list(home.rglob("*.tmp"))
