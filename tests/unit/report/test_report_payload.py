"""The samples packed into the page: nothing is lost, changed or able to leave its place, whatever a text holds."""

import base64
import json
import re
import zlib
from typing import Any

import pytest
import report_rows

from tasks.report import payload
from tasks.report.data import ReportData, from_tables
from tasks.report.payload import Packed, pack


def run_of(tables: dict[str, list[dict[str, Any]]]) -> ReportData:
    return from_tables(tables=tables, run_id=report_rows.RUN_ID)


def unpacked(text: str) -> Any:
    assert re.fullmatch("[A-Za-z0-9+/]*={0,2}", text)
    return json.loads(zlib.decompress(base64.b64decode(text)))


def texts(packed: Packed) -> list[Any]:
    return [sample for chunk in packed.chunks for sample in unpacked(chunk)]


def test_every_sample_answer_and_score_is_in_the_page() -> None:
    data = run_of(report_rows.tables(sizes={"extract": 260, "choice": 5}))
    packed = pack(data)
    index, samples = unpacked(packed.index), texts(packed)
    assert index["samples"][1] == [row["sample_id"] for row in data.samples]
    assert [len(unpacked(chunk)) for chunk in packed.chunks] == [250, 15]
    generated = [row for row in data.requests if row["kind"] == "generate"]
    assert sum(row == 0 for row in index["answers"][-1]) == len(generated)
    assert sorted(index["answers"][6], key=str) == sorted(
        [row["output_tokens"] for row in generated] + [None] * 5, key=str
    )
    assert len(index["values"][0]) == len(data.scores)
    outputs = {answer[0] for sample in samples for answer in sample[2]}
    assert outputs == {row["output"] for row in generated}
    assert [len(sample[3]) for sample in samples if sample[3]] == [4] * 5


def test_answers_stand_with_their_sample_in_the_order_of_their_texts() -> None:
    data = run_of(report_rows.tables())
    packed = pack(data)
    index, samples = unpacked(packed.index), texts(packed)
    owners, arms, choices = index["answers"][0], index["answers"][1], index["answers"][-1]
    assert owners == sorted(owners)
    by_key = {(row["dataset"], row["sample_id"], row["arm"]): row for row in data.requests if row["kind"] == "generate"}
    for position, (dataset, sample_id) in enumerate(zip(index["samples"][0], index["samples"][1], strict=True)):
        own = [at for at, owner in enumerate(owners) if owner == position and not choices[at]]
        for at, text in zip(own, samples[position][2], strict=True):
            key = (index["datasets"][dataset], sample_id, index["arms"][arms[at]])
            assert text[0] == by_key[key]["output"]


def test_hostile_texts_come_back_character_by_character() -> None:
    tables = report_rows.tables(sizes={"extract": 8}, hostile=True)
    found = json.dumps(texts(pack(run_of(tables))))
    for text in report_rows.HOSTILE:
        assert json.dumps(text)[1:-1] in found


def test_a_prompt_s_shared_start_is_stored_once_and_nothing_of_it_is_lost() -> None:
    tables = report_rows.tables(sizes={"extract": 40})
    start = "You read invoices. " * 60
    for row in tables["samples"]:
        row["prompt"] = start + row["prompt"]
    data = run_of(tables)
    packed = pack(data)
    prefix = unpacked(packed.index)["prefixes"][0]
    assert prefix.startswith(start)
    assert [prefix + sample[0] for sample in texts(packed)] == [row["prompt"] for row in data.samples]


def test_a_text_of_a_megabyte_keeps_head_and_tail_and_says_what_is_missing() -> None:
    tables = report_rows.tables(sizes={"extract": 2})
    tables["requests"][0]["output"] = "a" * 900_000 + "z" * 100_000
    packed = pack(run_of(tables))
    head, left_out, tail = texts(packed)[0][2][0][0]
    assert (head[0], tail[-1]) == ("a", "z")
    assert len(head) + left_out + len(tail) == 1_000_000
    assert len(head) + len(tail) == packed.limit == payload.MOST_CHARACTERS
    assert packed.shortened == 1


def test_more_text_than_a_page_bears_is_cut_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = report_rows.tables(sizes={"extract": 50})
    for row in tables["requests"]:
        row["output"] = "word " * 1_000
    monkeypatch.setattr(payload, "TEXT_BUDGET", 150_000)
    packed = pack(run_of(tables))
    assert packed.limit < 1_500
    kept = [answer[0] for sample in texts(packed) for answer in sample[2]]
    assert all(isinstance(text, list) and text[1] > 3_000 for text in kept)
    assert sum(len(text[0]) + len(text[2]) for text in kept) < 150_000


def test_what_is_missing_stays_missing() -> None:
    tables = report_rows.tables(sizes={"extract": 1})
    for row in tables["requests"]:
        row.update(output=None, output_tokens=None, ttft_ms=None, e2e_ms=float("nan"), valid=None, finish_reason=None)
    for row in tables["scores"]:
        row.update(value=None, reason="no answer came")
    packed = pack(run_of(tables))
    index = unpacked(packed.index)
    assert all(column == [None] * 2 for column in (index["answers"][column] for column in (5, 6, 8, 10)))
    assert set(index["values"][4]) == {None}
    assert texts(packed)[0][2][0][0] is None
    assert texts(packed)[0][4][0][1] == "no answer came"
