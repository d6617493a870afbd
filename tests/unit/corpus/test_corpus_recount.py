"""The second program that counts a run's verdicts finds nothing in rows that are right, and each way to be wrong."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warehouse.parquet import write_rows

ROOT = Path(__file__).resolve().parents[3]
RUN = "20260101T000000-aaaaaa"
SCHEMA = {"type": "string", "maxLength": 3}
CORPUS = {
    "name": "lengths",
    "schema": SCHEMA,
    "tests": [{"data": "abc", "valid": True}, {"data": "abcd", "valid": False}],
}
Rows = dict[str, list[dict[str, Any]]]


def right() -> Rows:
    """One backend that takes what is too long: under-constrained."""
    named = {"case_id": "00000-x", "backend": "xgrammar"}
    tests = [
        {
            **named,
            "test_index": index,
            "expected": test["valid"],
            "validated": test["valid"],
            "accepted": True,
            "status": "answered",
            "instance": json.dumps(test["data"]),
        }
        for index, test in enumerate(CORPUS["tests"])  # type: ignore[arg-type]
    ]
    schema = {**named, "name": "lengths", "schema": json.dumps(SCHEMA), "status": "accepted", "verdict": "under"}
    return {"corpus_schemas": [schema], "corpus_tests": tests}


def recounted(tmp_path: Path, rows: Rows, *, corpus: Any = CORPUS) -> tuple[int, str]:
    for table, own in rows.items():
        write_rows(home=tmp_path, table=table, run_id=RUN, rows=own, part="0", revision=0)
    (tmp_path / "c.jsonl").write_text(json.dumps(corpus) + "\n")
    asked = ["-m", "tests.bench.corpus_recount", str(tmp_path / "tables"), RUN, str(tmp_path / "c.jsonl")]
    done = subprocess.run([sys.executable, *asked], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("corpus", [CORPUS, CORPUS | {"schema": json.dumps(SCHEMA)}])
def test_right_rows_have_no_differences(tmp_path: Path, corpus: Any) -> None:
    code, said = recounted(tmp_path, right(), corpus=corpus)
    assert code == 0 and "xgrammar            under 1" in said and "0 differences" in said, said


def _verdict(rows: Rows) -> None:
    rows["corpus_schemas"][0]["verdict"] = "right"


def _answer(rows: Rows) -> None:
    rows["corpus_tests"][0]["accepted"] = False


def _let_off(rows: Rows) -> None:
    rows["corpus_tests"][1]["validated"] = True
    rows["corpus_schemas"][0]["verdict"] = "right"


def _word(rows: Rows) -> None:
    rows["corpus_tests"][1]["expected"] = rows["corpus_tests"][1]["validated"] = True
    rows["corpus_schemas"][0]["verdict"] = "right"


def _lost(rows: Rows) -> None:
    del rows["corpus_tests"][0]


def _schema(rows: Rows) -> None:
    rows["corpus_schemas"][0]["schema"] = "{}"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_verdict, "right is stored, the answers say under"),
        (_answer, "under is stored, the answers say both"),
        (_let_off, "it is let off"),
        (_word, "another instance or verdict was stored"),
        (_lost, "1 of 2 instances are stored"),
        (_schema, "another schema was stored"),
    ],
)
def test_each_way_to_be_wrong_is_found(tmp_path: Path, change: Callable[[Rows], None], words: str) -> None:
    rows = right()
    change(rows)
    code, said = recounted(tmp_path, rows)
    assert code == 1 and words in said, said
