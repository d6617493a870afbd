"""A corpus of schemas with a model, from the command line: every backend's engine answers what its matcher takes, and
what a matcher does not take never reaches an engine."""

import contextlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Done, assay, rows, start
from tests.faults.processes import wait_for, wait_until_gone
from tests.stores import used_before
from warehouse.parquet import read_rows

pytestmark = pytest.mark.engine
MODEL = ("--model", "smollm2-135m-instruct", "--max-tokens", "24")
HANGS = {"type": "array", "items": {"type": "object", "properties": {
    f"k{number}": {"type": "string", "maxLength": 40} for number in range(12)}}, "maxItems": 40}  # fmt: skip
SCHEMAS: dict[str, Any] = {
    "easy---one": {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"],
                   "additionalProperties": False},
    "easy---endless": {"type": "array", "items": {"type": "integer"}, "minItems": 400},
    "hard---unique": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
    "hard---long": {"type": "boolean", "description": "very long " * 20_000},
}  # fmt: skip


def project(folder: Path, model_dir: Path, **more: Any) -> Path:
    """A home with the model, and a corpus beside it. Gives the home."""
    lines = [json.dumps({"name": name, "schema": schema}) for name, schema in {**SCHEMAS, **more}.items()]
    (folder / "mine.jsonl").write_text("\n".join(lines))
    return used_before(folder / "home", model_dir)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> Path:
    return project(tmp_path_factory.mktemp("answers"), model_dir)


@pytest.fixture(scope="module")
def done(home: Path) -> Done:
    corpus = str(home.parent / "mine.jsonl")
    asked = ("--backends", "xgrammar,lm-format-enforcer", "--jobs", "1", "--json")
    found = assay("grammars", corpus, *MODEL, *asked, home=home)
    assert found.code == 0, found.stderr
    return found


def test_every_schema_has_an_answer_or_the_reason_for_none(done: Done, home: Path) -> None:
    answers = rows(home, "FROM corpus_answers INNER JOIN corpus_schemas USING (run_id, case_id, backend)")
    found = {(row["backend"], row["name"]): row for row in answers}
    assert len(found) == len(answers) == 8
    mine = {name: found["xgrammar", name] for name in SCHEMAS}
    assert {name: (row["grammar_status"], row["request_status"]) for name, row in mine.items()} == {
        "easy---one": ("accepted", "ok"),
        "easy---endless": ("accepted", "truncated"),
        "hard---unique": ("refused", "not_asked"),
        "hard---long": ("accepted", "skipped"),
    }
    assert mine["easy---one"]["valid"] is True and mine["easy---one"]["e2e_ms"] > 0
    assert (mine["easy---endless"]["finish_reason"], mine["easy---endless"]["output_tokens"]) == ("length", 24)
    assert "vLLM cannot load" in found["lm-format-enforcer", "easy---one"]["error"]
    assert found["lm-format-enforcer", "easy---one"]["request_status"] is None
    assert "lm-format-enforcer: no engine can use it" in done.stderr.split("run 1 of 1")[0]


def test_each_backend_is_a_run_of_its_own_with_its_engine(done: Done, home: Path) -> None:
    (child,) = rows(home, "SELECT run_id, status, parent_run_id FROM runs WHERE flow = 'experiment'")
    assert (child["status"], child["parent_run_id"]) == ("finished", done.json["run_id"])
    assert {row["child_run_id"] for row in rows(home, "FROM corpus_answers")} == {child["run_id"], None}
    requests = rows(home, "SELECT sample_id, output, valid, request_id FROM requests ORDER BY sample_id")
    assert len(requests) == 2 and json.loads(requests[0]["output"])["a"] in ("x", "y")
    (row,) = rows(home, f"FROM corpus_answers WHERE request_id = '{requests[0]['request_id']}'")
    assert requests[0]["sample_id"] == f"schemas:{row['case_id']}"
    (grammar,) = rows(home, "SELECT DISTINCT backend FROM grammars")
    assert grammar == {"backend": "xgrammar"}


def test_coverage_is_counted_and_shown(done: Done, home: Path) -> None:
    whole = {each["backend"]: each for each in done.json["figures"] if each["split"] is None}
    mine, none = whole["xgrammar"], whole["lm-format-enforcer"]
    assert (mine["asked"], mine["valid"], mine["ended"], mine["cut"], mine["skipped"]) == (3, 1, 1, 1, 1)
    assert (none["asked"], none["no_answer"]) == (0, 3)
    names = "'grammars.xgrammar.empirical_coverage', 'grammars.xgrammar.easy.compliance'"
    metrics = rows(home, f"SELECT name, value, n FROM metrics WHERE name IN ({names}) ORDER BY name")
    assert [(row["value"], row["n"]) for row in metrics] == [(1.0, 1), (pytest.approx(1 / 3), 3)]
    page = Path(done.json["report"]).read_text()
    assert "A model's answers" in page or "A model&#39;s answers" in page


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("faults", "--max-tokens", "8"), "--max-tokens: says something of a model's answers"),
        (("faults", "--mask-only"), "--mask-only: says something of a model's answers"),
        (("faults", "--model", "smollm2-135m-instruct", "--mask-only", "--max-prompt", "8"), "no answers with"),
    ],
)
def test_options_without_effect_are_refused(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    refused = assay("grammars", *arguments, home=tmp_path / "home")
    assert refused.code == 2 and words in refused.stderr, refused.stderr


@pytest.mark.slow
def test_what_hangs_reaches_no_engine_and_a_kill_loses_no_answer(tmp_path: Path, model_dir: Path) -> None:
    home = project(tmp_path, model_dir, hangs=HANGS)
    asked = ("--backends", "xgrammar,outlines", "--limit-s", "3", "--jobs", "1")
    flow = start("grammars", str(tmp_path / "mine.jsonl"), *MODEL, *asked, home=home)

    def second_began() -> bool:
        if flow.poll() is not None:
            raise AssertionError(f"it ended too early: {flow.communicate()[1]}")
        return _states(home).get(1) == "running"

    wait_for(second_began, timeout_s=200, what="the second backend's run")
    with contextlib.suppress(ProcessLookupError):
        os.kill(flow.pid, signal.SIGKILL)
    flow.communicate(timeout=60)
    assert wait_until_gone(str(home), timeout_s=60) == []
    before = _answers(home)
    assert {backend for backend, _ in before} == {"xgrammar"} and len(before) == 5
    again = assay("grammars", "--resume", "last", "--json", home=home)
    assert again.code == 0, again.stderr
    after = _answers(home)
    assert len(after) == 10 and {key: after[key]["request_id"] for key in before} == {
        key: row["request_id"] for key, row in before.items()
    }
    assert {key: after[key]["e2e_ms"] for key in before} == {key: row["e2e_ms"] for key, row in before.items()}
    hung = next(row for (backend, case), row in after.items() if backend == "outlines" and case.startswith("00004"))
    assert (hung["grammar_status"], hung["request_status"], hung["request_id"]) == ("timeout", "not_asked", None)
    runs = rows(home, "SELECT status FROM runs WHERE flow = 'experiment'")
    assert [run["status"] for run in runs] == ["finished", "finished"]


def _states(home: Path) -> dict[int, str]:
    return {row["cell_index"]: row["state"] for row in read_rows(home, "sweep_cells")}


def _answers(home: Path) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["backend"], row["case_id"]): row for row in read_rows(home, "corpus_answers")}
