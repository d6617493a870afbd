"""From a corpus to the experiment of each backend, and from its requests to rows: what is asked, skipped, not asked."""

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.corpus import BackendFigures, Case
from schemas.errors import AssayError, ConfigError
from tasks.config.resolve import load_experiment
from tasks.corpus.answers import answers_by_split, answers_table, with_answers
from tasks.corpus.ask_for import Asked, check_answers
from tasks.corpus.figures import figures, metric_rows
from tasks.corpus.generate import Outcome, answer_rows, backend_cell, prompts_that_fit, write_experiment, write_rows
from tasks.corpus.read import Corpus
from tasks.dataset.stage import check_datasets, render_datasets
from tasks.model.facts import read_model_facts

MODEL = "smollm2-135m-instruct"
LONG = {"type": "string", "description": "very long " * 20_000}


def corpus(*contents: Any, name: str = "mine") -> Corpus:
    cases = tuple(
        Case(case_id=f"{number:05d}-x", split="ab"[number % 2], name=f"n{number}", content=content)
        for number, content in enumerate(contents)
    )
    return Corpus(
        name=name, path=Path("x"), fingerprint="0", description=None, license=None, cases=cases, of=len(cases)
    )


def asked(**more: Any) -> Asked:
    return Asked(corpus="x", tokenizer=MODEL, max_tokens=32, **more)


@pytest.fixture
def facts_cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_a_schema_becomes_a_prompt_and_its_own_guide(tmp_path: Path, model_dir: Path, facts_cache: Path) -> None:
    keys = {"type": "object", "properties": {"b": {"const": "é"}, "a": {"type": "null"}}}
    found = corpus(keys, {"type": "integer"}, LONG, name="My corpus/1")
    file = write_experiment(tmp_path / "answers", asked=asked(seed=3), corpus=found)
    experiment = load_experiment(file)
    check_datasets(experiment)
    assert (experiment.name, experiment.arms, experiment.max_failed) == ("My-corpus-1", ["guided"], 1.0)
    (dataset,) = experiment.datasets
    assert (dataset.sampling.max_tokens, dataset.sampling.temperature, dataset.sampling.seed) == (32, 0.0, 3)
    samples, (summary,) = render_datasets(
        experiment, model=read_model_facts(model_dir, cache=facts_cache), folder=model_dir
    )
    assert (summary.over_limit, [sample.sample_id for sample in samples]) == (1, ["schemas:00000-x", "schemas:00001-x"])
    assert json.dumps(keys, ensure_ascii=False) in samples[0].prompt  # as JSON, the keys in their order
    assert samples[0].grammar is not None and json.loads(samples[0].grammar.content) == keys


def test_what_is_skipped_is_the_same_for_every_backend(tmp_path: Path, model_dir: Path, facts_cache: Path) -> None:
    middling = {"type": "string", "description": "middling " * 100}
    found = corpus({"type": "integer"}, middling, LONG)
    experiment = load_experiment(write_experiment(tmp_path, asked=asked(), corpus=found))
    fits = {
        most: prompts_that_fit(experiment, most=most, folder=model_dir, cache=facts_cache) for most in (None, 100, 1)
    }
    assert fits == {None: {"00000-x", "00001-x"}, 100: {"00000-x"}, 1: set()}


def test_a_backends_run_is_asked_its_own_schemas(tmp_path: Path) -> None:
    found = corpus({"type": "integer"}, {"type": "null"})
    file = write_experiment(tmp_path, asked=asked(), corpus=found)
    rows = write_rows(tmp_path / "guidance", found.cases[1:])
    cell = backend_cell(file, rows=rows, backend="guidance", index=1)
    assert (cell.index, cell.name, cell.settings) == (1, "guidance", {"engine.grammar.backend": "guidance"})
    experiment = load_experiment(file, overrides=cell.overrides)
    assert (experiment.engine.grammar.backend, experiment.datasets[0].name) == ("guidance", "schemas")
    (line,) = rows.read_text().splitlines()
    assert json.loads(line) == {"case_id": "00001-x", "split": "b", "name": "n1", "json_schema": '{"type": "null"}'}
    assert str(rows) == getattr(experiment.datasets[0].config.source, "path", None)


def test_what_an_earlier_session_wrote_stays(tmp_path: Path) -> None:
    first = write_experiment(tmp_path, asked=asked(), corpus=corpus({"type": "integer"}))
    before = first.read_text(), (tmp_path / "schemas.jsonl").read_text()
    again = write_experiment(tmp_path, asked=asked(seed=9), corpus=corpus({"type": "null"}))
    assert (again.read_text(), (tmp_path / "schemas.jsonl").read_text()) == before


def test_schemas_that_json_alone_can_write_are_kept(tmp_path: Path) -> None:
    rows = write_rows(tmp_path, corpus(True, {"const": "\ud800"}, {"const": "é\u2028"}).cases)
    read = [json.loads(json.loads(line)["json_schema"]) for line in rows.read_text().split("\n")[:-1]]
    assert read == [True, {"const": "\ud800"}, {"const": "é\u2028"}]


def test_no_room_for_a_prompt_is_said(model_dir: Path, facts_cache: Path) -> None:
    with pytest.raises(ConfigError, match="leave no room for a prompt"):
        check_answers(Asked(corpus="x", tokenizer=MODEL, max_tokens=8192), folder=model_dir, cache=facts_cache)
    check_answers(Asked(corpus="x", tokenizer=MODEL), folder=model_dir, cache=facts_cache)


def request(case: str, status: str, **more: Any) -> tuple[str, dict[str, Any]]:
    none = dict.fromkeys(("finish_reason", "valid", "prompt_tokens", "output_tokens", "e2e_ms", "tpot_ms", "error"))
    return case, none | {"request_id": f"r-{case}", "status": status} | more


STATUSES = {
    "00000-x": "accepted",
    "00001-x": "accepted",
    "00002-x": "accepted",
    "00003-x": "refused",
    "00004-x": "timeout",
    "00005-x": "accepted",
    "00006-x": "crashed",
}
FITS = set(STATUSES) - {"00005-x", "00006-x"}
ANSWERS = dict(
    [
        request("00000-x", "ok", finish_reason="stop", valid=True, output_tokens=4),
        request("00001-x", "truncated", finish_reason="length", valid=False, output_tokens=32),
        request("00002-x", "refused", error="the engine does not take it"),
    ]
)


def rows_of(found: Outcome, backend: str = "xgrammar") -> list[dict[str, Any]]:
    cases = corpus(*([{}] * 7)).cases
    return answer_rows(cases, backend=backend, statuses=STATUSES, fits=FITS, found=found)


def test_every_schema_has_a_row_that_says_what_became_of_it() -> None:
    rows = rows_of(Outcome(run_id="r", answers=ANSWERS))
    assert [row["request_status"] for row in rows] == [
        "ok", "truncated", "refused", "not_asked", "not_asked", "skipped", "skipped",
    ]  # fmt: skip
    assert [row["grammar_status"] for row in rows] == list(STATUSES.values())
    assert (rows[0]["request_id"], rows[0]["valid"], rows[0]["output_tokens"]) == ("r-00000-x", True, 4)
    assert rows[2]["error"] == "the engine does not take it" and rows[3]["request_id"] is None
    cut = rows_of(Outcome(run_id="r", answers=dict(list(ANSWERS.items())[:1]), lost="the engine died"))
    assert [row["request_status"] for row in cut[:4]] == ["ok", None, None, "not_asked"]
    assert [row["error"] for row in cut[:4]] == [None, "the engine died", "the engine died", None]
    unusable = rows_of(Outcome(unusable="cannot be loaded"))
    assert {row["error"] for row in unusable[:5]} == {"cannot be loaded"}
    assert [row["request_status"] for row in unusable] == [None] * 5 + ["skipped"] * 2
    with pytest.raises(AssayError, match="no request for the schema 00001-x"):
        rows_of(Outcome(run_id="r", answers=dict(list(ANSWERS.items())[:1])))


def corpus_row(case: str, status: str, backend: str) -> dict[str, Any]:
    numbers = dict.fromkeys(("check_s", "compile_s", "peak_bytes"))
    counts = dict.fromkeys(("tests", "over", "under", "reordered", "unjudged", "disputed"), 0)
    own = {"case_id": case, "backend": backend, "split": "ab"[int(case[:5]) % 2], "status": status}
    return numbers | counts | own | {"verdict": "untested" if status == "accepted" else status}


def test_coverage_and_compliance_by_hand() -> None:
    found: list[BackendFigures] = []
    rows = []
    for backend, each in (("xgrammar", Outcome(run_id="r", answers=ANSWERS)), ("outlines", Outcome(unusable="no"))):
        found += figures([corpus_row(*item, backend) for item in STATUSES.items()], {}, backends=[backend])
        rows += rows_of(each, backend)
    whole, a, b, none, *_ = with_answers(found, rows)
    assert (whole.asked, whole.valid, whole.ended, whole.ended_valid, whole.cut, whole.failed) == (5, 1, 1, 1, 1, 1)
    assert (whole.skipped, whole.no_answer, none.asked, none.no_answer, none.skipped) == (2, 0, 0, 5, 2)
    assert (a.asked, a.valid, a.cut, b.asked, b.valid, b.cut) == (3, 1, 0, 2, 0, 1)
    metrics = {row["name"]: row for row in metric_rows([whole, none])}
    assert metrics["grammars.xgrammar.empirical_coverage"]["value"] == 1 / 5
    assert metrics["grammars.xgrammar.compliance"]["value"] == 1.0
    assert metrics["grammars.xgrammar.declared_coverage"]["value"] == 4 / 7
    assert "grammars.outlines.empirical_coverage" not in metrics
    lines = answers_table([whole, none], narrow=True)
    assert [line["valid answer"] for line in lines] == ["20.0%", "–"]
    assert [line["split"] for line in answers_by_split([a, b])] == ["a", "b"]
    without = figures([corpus_row(*item, "xgrammar") for item in STATUSES.items()], {}, backends=["xgrammar"])
    assert answers_table(without) == [] and with_answers(without, []) == without
