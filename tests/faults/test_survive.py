"""Data that breaks things: grammars that cannot be followed, text that is hardly text. One run; every test looks at
another side of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Done, assay, rows
from tests.faults.processes import wait_until_gone
from tests.stores import used_before
from warehouse.query import query

pytestmark = pytest.mark.engine

EXPERIMENT = """\
name: survive
model: smollm2-135m-instruct
engine: {extends: vllm, max_num_seqs: 8, max_model_len: 512}
datasets: [mixed.yaml, plain.yaml, odd.yaml]
arms: [free, guided]
sampling: {temperature: 0, max_tokens: 24}
max_failed: 0.01
"""

SCHEMAS_DATASET = """\
source: {{kind: jsonl, path: {name}.jsonl}}
id_field: id
prompt: {{messages: [{{role: user, content: "{{{{ question }}}}"}}]}}
guide: {{kind: json_schema, schema_field: schema}}
metrics: [json_valid]
"""

ODD_DATASET = """\
source: {kind: jsonl, path: odd.jsonl}
id_field: id
prompt: {text: "{{ question }}"}
target: "{{ answer }}"
metrics: [exact_match]
max_tokens: 8
on_overflow: cut_middle
"""


def schema(number: int) -> dict[str, Any]:
    values = [f"colour{number}", f"number{number}"]
    return {"type": "object", "properties": {"kind": {"enum": values}}, "required": ["kind"]}


GOOD = [
    {"id": f"good-{number}", "question": f"Is {number} a colour or a number?", "schema": schema(number)}
    for number in range(10)
]
REFUSED_BY_BACKEND = {
    "id": "unique",
    "question": "Name three colours.",
    "schema": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
}
INVALID = {"id": "invalid", "question": "Name a colour.", "schema": {"type": "objet"}}
MIXED = [*GOOD[:4], REFUSED_BY_BACKEND, *GOOD[4:7], INVALID, *GOOD[7:]]

ODD_LINES: list[bytes] = [
    '{"id": "emoji", "question": "What is 👩‍👩‍👧 + 🏳️‍🌈 = ", "answer": "🎉"}'.encode(),
    rb'{"id": "lone", "question": "one \ud800 two \udc00\ud83d three", "answer": "\udfff", "\ud800key": ["\udbff"]}',
    rb'{"id": "pair", "question": "a whole pair \ud83d\ude00", "answer": "\ud83d\ude00"}',
    rb'{"id": "nul", "question": "zero \u0000 byte", "answer": "\u0000"}',
    '{"id": "rtl", "question": "\u202eשלום\u202c مرحبا ١٢٣", "answer": "שלום"}'.encode(),
    b'{"id": "long", "question": "short", "answer": 1, "notes": "' + b"0123456789" * 10_240 + b'"}',
    b'  {"answer":2.50,"id" : "spaces",   "question":"odd spaces"}\t ',
    b'{"id": "overflow", "question": "' + b"How many are one and one? " * 200 + b'", "answer": 2}',
    rb'{"id": "id \ud800", "question": "an id that is no text", "answer": 1}',
]


def jsonl(items: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(item) + "\n" for item in items)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> Path:
    folder = tmp_path_factory.mktemp("survive")
    (folder / "experiment.yaml").write_text(EXPERIMENT)
    for name, items in (("mixed", MIXED), ("plain", GOOD)):
        (folder / f"{name}.yaml").write_text(SCHEMAS_DATASET.format(name=name))
        (folder / f"{name}.jsonl").write_text(jsonl(items))
    (folder / "odd.yaml").write_text(ODD_DATASET)
    (folder / "odd.jsonl").write_bytes(b"\r\n".join(ODD_LINES) + b"\n\n")
    return used_before(folder / "home", model_dir)


@pytest.fixture(scope="module")
def done(home: Path) -> Iterator[Done]:
    yield assay("run", "experiment.yaml", "--set", "model.dtype=float32", "--json", home=home, cwd=home.parent)
    assert wait_until_gone(f"ASSAY_HOME={home}", timeout_s=10) == []


def test_a_refused_schema_costs_its_sample_only(home: Path, done: Done) -> None:
    assert done.stdout, done.stderr
    bad = rows(
        home,
        "SELECT sample_id, arm, status, error, output FROM requests "
        "WHERE dataset = 'mixed' AND status NOT IN ('ok', 'truncated', 'invalid') ORDER BY sample_id",
    )
    assert [(row["sample_id"], row["arm"], row["status"], row["output"]) for row in bad] == [
        ("mixed:invalid", "guided", "refused", None),
        ("mixed:unique", "guided", "refused", None),
    ]
    assert "not a valid JSON schema at type" in bad[0]["error"] and "objet" in bad[0]["error"]
    assert "xgrammar" in bad[1]["error"]
    guided = rows(
        home, "SELECT sample_id, status, valid FROM requests WHERE arm = 'guided' AND sample_id LIKE 'mixed:good-%'"
    )
    assert len(guided) == 10
    assert all(row["status"] == "ok" and row["valid"] for row in guided)
    free = rows(home, "SELECT status FROM requests WHERE arm = 'free' AND dataset = 'mixed'")
    assert len(free) == 12  # the free arm of both samples is asked all the same


def test_the_other_samples_answer_as_they_do_without_it(home: Path, done: Done) -> None:
    answers: dict[str, list[dict[str, Any]]] = {}
    for dataset in ("mixed", "plain"):
        answers[dataset] = rows(
            home,
            f"SELECT split_part(sample_id, ':', 2) AS id, arm, status, output, output_token_ids, valid FROM requests "
            f"WHERE dataset = '{dataset}' AND sample_id LIKE '%:good-%' ORDER BY id, arm",
        )
    assert len(answers["plain"]) == 20
    assert answers["mixed"] == answers["plain"]


def test_the_grammars_say_which_was_refused_and_why(home: Path, done: Done) -> None:
    found = rows(home, "SELECT status, message FROM grammars ORDER BY status")
    assert [row["status"] for row in found] == ["accepted"] * 10 + ["refused"]
    assert "xgrammar" in found[-1]["message"]


def test_raw_bytes_come_back_identical(home: Path, done: Done) -> None:
    found = query(home=home, sql="SELECT raw FROM samples WHERE dataset = 'odd' ORDER BY row_index")
    assert [row[0] for row in found.rows] == ODD_LINES


def test_odd_text_goes_through_whole_and_what_changed_is_counted(home: Path, done: Done) -> None:
    samples = {
        row["sample_id"].removeprefix("odd:"): row
        for row in rows(
            home,
            "SELECT sample_id, prompt, replaced_characters, cut_tokens, prompt_tokens, input, target "
            "FROM samples WHERE dataset = 'odd'",
        )
    }
    assert len(samples) == len(ODD_LINES)
    assert samples["lone"]["prompt"] == "one \ufffd two \ufffd\ufffd three"
    assert samples["lone"]["replaced_characters"] == 3
    assert samples["pair"]["prompt"] == "a whole pair 😀"
    assert samples["emoji"]["prompt"] == "What is 👩‍👩‍👧 + 🏳️‍🌈 = "
    assert samples["nul"]["prompt"] == "zero \0 byte"
    assert samples["rtl"]["prompt"] == "\u202eשלום\u202c مرحبا ١٢٣"
    assert "id \ufffd" in samples
    assert sum(row["replaced_characters"] for row in samples.values()) == 3
    assert len(json.loads(samples["long"]["input"])["notes"]) == 102_400
    assert json.loads(samples["lone"]["input"])["\ufffdkey"] == ["\ufffd"]
    assert samples["overflow"]["cut_tokens"] > 500
    assert samples["overflow"]["prompt_tokens"] == 512 - 8
    asked = rows(home, "SELECT status FROM requests WHERE dataset = 'odd'")
    assert len(asked) == len(ODD_LINES)
    assert {row["status"] for row in asked} <= {"ok", "truncated"}
    assert "3 characters of 1 prompts replaced" in done.stderr


def test_too_many_failures_fail_the_run_with_everything_recorded(home: Path, done: Done) -> None:
    assert done.code == 1
    assert done.json["status"] == "failed" and done.json["exit_code"] == 1
    total = 12 * 2 + 10 * 2 + len(ODD_LINES)
    says = f"2 of {total} requests failed: {2 / total:.1%}, of at most 1.0%"
    assert says in done.json["error"] and says in done.stderr
    assert "Traceback" not in done.stderr
    run = rows(home, "SELECT status, error FROM runs")
    assert len(run) == 1 and run[0]["status"] == "failed" and says in run[0]["error"]
    counts = {
        table: rows(home, f"SELECT count(*) AS n FROM {table}")[0]["n"] for table in ("requests", "samples", "metrics")
    }
    assert counts["requests"] == total and counts["samples"] == 12 + 10 + len(ODD_LINES) and counts["metrics"] > 0
    failures = rows(home, "SELECT * FROM failures")
    assert {row["sample_id"] for row in failures} >= {"mixed:invalid", "mixed:unique"}


def test_the_report_is_written_and_names_what_failed(home: Path, done: Done) -> None:
    page = Path(done.json["report"]).read_text(encoding="utf-8")
    for word in ("mixed:invalid", "mixed:unique", "not a valid JSON schema at type"):
        assert word in page
    assert "\0" not in page
