"""Reasoning before an answer: taken off, never scored, never ended by a stop string, named in the config."""

from dataclasses import replace
from pathlib import Path

import pytest

from schemas.dataset import MetricUse
from schemas.engine import Sampling
from schemas.errors import ConfigError
from schemas.sample import ANSWERED, Grammar, Request, Response, Sample
from tasks.config.resolve import load_experiment
from tasks.engine.protocol import WireResult
from tasks.responses import RowContext, response_row, wire_request
from tasks.score.aggregate import aggregate_form
from tasks.score.answers import score_answers
from tasks.score.reasoning import begun_in, cut_at_stop, parse_reasoning

NUMBER = Grammar(grammar_id="b" * 16, kind="regex", content="[0-9]+")
CONTEXT = RowContext(engine_id="e", sampling={"d": Sampling()}, keys={"r": "k"}, attempts={})
DATASET = (
    'source: {kind: jsonl, path: rows.jsonl}\nprompt: {text: "{{ q }}"}\ntarget: "{{ a }}"\nmetrics: [exact_match]\n'
)


def request(**changes: object) -> Request:
    values: dict[str, object] = {
        "request_id": "r",
        "dataset": "d",
        "sample_id": "d:1",
        "arm": "free",
        "kind": "generate",
        "prompt_token_ids": [1, 2, 3],
        "max_tokens": 5,
        "stop": [],
        "check": NUMBER,
        "reasoning_parser": "think_tags",
    }
    return Request(**(values | changes))  # type: ignore[arg-type]


def row_of(text: str, *, finish: str = "stop", **changes: object) -> dict[str, object]:
    result = WireResult(
        request_id="r",
        token_ids=[4, 5, 6],
        text=text,
        finish_reason=finish,
        stop_reason=None,
        sent_at=10.0,
        finished_at=10.5,
        first_token_at=10.1,
        first_text_at=10.1,
        last_token_at=10.5,
    )
    return response_row(request(**changes), result, CONTEXT)


@pytest.mark.parametrize(
    ("text", "finish", "begun", "expected"),
    [
        ("<think>7 x 6</think>\n42", "stop", False, ("7 x 6", "42", "ok", True)),
        ("<think>7 x 6</think>\nforty", "stop", False, ("7 x 6", "forty", "invalid", False)),
        ("<think>7 x 6</think>4", "length", False, ("7 x 6", "4", "truncated", True)),
        ("<think>7 x", "length", False, ("7 x", None, "truncated", None)),
        ("<think>7 x", "stop", False, ("7 x", None, "truncated", None)),  # it stopped by itself: still no answer
        ("7 x 6</think>42", "stop", True, ("7 x 6", "42", "ok", True)),
        ("7 x 6 is 42", "length", True, ("7 x 6 is 42", None, "truncated", None)),  # no tag at all in the text
        ("42", "stop", False, (None, "42", "ok", True)),
        ("", "length", True, ("", None, "truncated", None)),
    ],
)
def test_the_row_of_an_answer_with_reasoning(text: str, finish: str, begun: bool, expected: tuple[object, ...]) -> None:
    row = row_of(text, finish=finish, reasoning_begun=begun)
    assert (row.get("reasoning"), row["output"], row["status"], row.get("valid")) == expected
    assert row["output_token_ids"] == [4, 5, 6] and row["output_tokens"] == 3
    assert (row["ttft_text_ms"] is None) is (expected[0] is not None)  # the first text was no answer
    assert (row["error"] == "cut before the reasoning ended") is (row["output"] is None)


def test_stop_strings_end_the_answer_and_not_the_reasoning() -> None:
    asked = request(stop=["\n", "Q:"])
    assert wire_request(asked, Sampling(stop=["\n", "Q:"])).sampling.stop == []
    row = row_of("<think>first\nthen\nQ: again</think>\n\n42\nQ: what else?", finish="length", stop=["Q:", "\n"])
    assert row["reasoning"] == "first\nthen\nQ: again"
    assert (row["output"], row["finish_reason"], row["stop_reason"], row["status"]) == ("42", "stop", "\n", "ok")
    without = wire_request(request(stop=["\n"], reasoning_parser=None), Sampling())
    assert without.sampling.stop == ["\n"]
    assert row_of("<think>a\nb</think>1", stop=["\n"], reasoning_parser=None)["output"] == "<think>a\nb</think>1"


def test_the_first_stop_string_in_the_text_counts_whatever_their_order() -> None:
    assert cut_at_stop("one. two! three", ["!", "."]) == ("one", ".")
    assert cut_at_stop("one", ["!"]) == ("one", None)


def test_an_answer_whose_reasoning_never_ended_is_not_scored_and_counts_as_failed() -> None:
    sample = Sample(
        dataset="d",
        sample_id="d:1",
        row_index=0,
        raw=b"{}",
        input={},
        prompt="p",
        prompt_hash="h",
        prompt_token_ids=[1],
        target="42",
        grammar=NUMBER,
    )
    row = row_of("<think>it is 42", finish="length")
    response = Response(**{name: row.get(name, 0 if name == "repeat" else None) for name in Response.__slots__})
    assert response.status in ANSWERED
    uses = [MetricUse(use=name) for name in ("exact_match", "contains", "json_valid", "token_f1")]
    scores = score_answers(metrics=uses, samples=[sample], responses=[response], arms=["free"], absent="absent")
    assert [(score.value, score.reason) for score in scores] == [(None, "cut before the reasoning ended")] * 4
    right = replace(response, sample_id="d:2", status="ok", output="42", valid=True, finish_reason="stop")
    form = {one.name.rsplit(".", 1)[-1]: one for one in aggregate_form(dataset="d", responses=[response, right])}
    compliance = form["compliance"]
    assert (compliance.value, compliance.n, compliance.n_failed) == (1.0, 1, 1)
    assert form["empirical_coverage"].value == 0.5 and form["length_finishes"].value == 0.5


def test_begun_asks_what_the_prompt_ends_with() -> None:
    assert begun_in("x" * 10_000 + "<think>\n", "think_tags")
    assert not begun_in("<think>\n" + "x" * 10_000, "think_tags")
    assert parse_reasoning("think_tags", "<think>a</think>b", begun=True).reasoning == "a"  # it begins it itself


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.yaml").write_text(DATASET)
    (tmp_path / "own.yaml").write_text(DATASET + "reasoning_parser: none\n")
    (tmp_path / "m.yaml").write_text("source: {kind: hf, id: a/b}\nreasoning_parser: think_tags\n")
    (tmp_path / "a.yaml").write_text("name: a\nmodel: m.yaml\ndatasets: [d.yaml, own.yaml]\n")
    return tmp_path


def refusal(path: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_experiment(path, overrides=overrides)
    return str(caught.value)


def test_the_models_parser_counts_unless_the_dataset_says_otherwise(project: Path) -> None:
    experiment = load_experiment("a.yaml")
    assert [dataset.reasoning_parser for dataset in experiment.datasets] == ["think_tags", None]
    experiment = load_experiment("a.yaml", overrides=["model.reasoning_parser=none"])
    assert [dataset.reasoning_parser for dataset in experiment.datasets] == [None, None]
    (project / "own.yaml").write_text(DATASET + "reasoning_parser: think_tags\n")
    experiment = load_experiment("a.yaml", overrides=["model.reasoning_parser=none"])
    assert [dataset.reasoning_parser for dataset in experiment.datasets] == [None, "think_tags"]


def test_a_parser_that_does_not_exist_is_said_with_file_line_and_the_nearest(project: Path) -> None:
    (project / "m.yaml").write_text("source: {kind: hf, id: a/b}\nreasoning_parser: think_tag\n")
    (project / "own.yaml").write_text(DATASET + "reasoning_parser: thinktags\n")
    said = refusal("a.yaml")
    nearest = "(did you mean `think_tags`?)"
    assert f"m.yaml:2: reasoning_parser: there is no reasoning parser `think_tag` {nearest}" in said
    assert f"own.yaml:5: reasoning_parser: there is no reasoning parser `thinktags` {nearest}" in said


def test_a_guided_arm_has_no_room_for_reasoning(project: Path) -> None:
    (project / "d.yaml").write_text(DATASET + 'guide: {kind: regex, pattern: "[0-9]+"}\n')
    (project / "a.yaml").write_text("name: a\nmodel: m.yaml\ndatasets: [d.yaml]\narms: [free, guided]\n")
    said = refusal("a.yaml")
    assert said.startswith("a.yaml:4: arms: a guided answer obeys its grammar from its first token")
    assert "`d` has a guide and the reasoning parser `think_tags`" in said
    (project / "d.yaml").write_text(DATASET + 'guide: {kind: regex, pattern: "[0-9]+"}\nreasoning_parser: none\n')
    assert load_experiment("a.yaml").datasets[0].reasoning_parser is None
