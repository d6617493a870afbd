"""Every metric's golden cases, and that every metric has some."""

import json
from pathlib import Path
from typing import Any

import pytest

import tasks.score.metrics
from schemas.sample import Choice, Grammar, Response, Sample, Window
from tasks.score.registry import check_options, metric, metric_names

FOLDER = Path(tasks.score.metrics.__path__[0])


def _cases() -> list[Any]:
    found = []
    for path in sorted(FOLDER.glob("*.golden.json")):
        name = path.name.removesuffix(".golden.json")
        found += [pytest.param(name, case, id=f"{name}: {case['name']}") for case in json.loads(path.read_text())]
    return found


def make_sample(case: dict[str, Any]) -> Sample:
    grammar = None
    if "grammar" in case:
        kind, content = case["grammar"]["kind"], json.dumps(case["grammar"]["content"])
        grammar = Grammar(grammar_id=f"{kind}-{hash(content)}", kind=kind, content=content)
    return Sample(
        dataset="d",
        sample_id="s1",
        row_index=0,
        raw=b"{}",
        input={},
        prompt="p",
        prompt_hash="h",
        prompt_token_ids=[1],
        target=case.get("target"),
        choices=[Choice(text=text, token_ids=[1, 2], start=1) for text in case.get("choices", [])],
        grammar=grammar,
        grammar_error=case.get("grammar_error"),
        windows=[Window(begin=0, start=1, end=2) for _ in case.get("logprobs", []) if "document" in case],
        counted=case.get("document"),
    )


def make_response(case: dict[str, Any], **changes: Any) -> Response:
    fields: dict[str, Any] = {
        "request_id": "r1",
        "dataset": "d",
        "sample_id": "s1",
        "arm": "free",
        "kind": "generate",
        "status": case.get("status", "ok"),
        "error": case.get("error"),
        "output": case.get("output"),
    }
    return Response(**{**fields, **changes})


@pytest.mark.parametrize(("name", "case"), _cases())
def test_golden(name: str, case: dict[str, Any]) -> None:
    found = metric(name)
    check_options(name, case.get("options", {}))
    options = found.Options(**case.get("options", {}))
    sample = make_sample(case)
    if found.info.needs != "generate":
        responses = [
            make_response(case, kind="loglikelihood", choice_index=index, logprob_sum=value)
            for index, value in enumerate(case["logprobs"])
        ]
        reads = found.score_document if found.info.needs == "rolling" else found.score_choices
        score = reads(sample=sample, responses=responses, options=options)
        assert score.request_id is None
    else:
        score = found.score(sample=sample, response=make_response(case), options=options)
        assert score.request_id == "r1"
    assert score.value == case["value"], score
    assert (score.metric, score.metric_version, score.sample_id) == (name, found.info.version, "s1")
    for key in ("extracted", "ties", "numerator", "denominator"):
        if key in case:
            assert getattr(score, key) == case[key]
    if "reason" in case:
        assert score.reason is not None
        assert case["reason"] in score.reason
    if score.value is None:
        assert score.reason


def test_every_metric_has_golden_cases_and_its_files_name() -> None:
    assert {path.name.removesuffix(".golden.json") for path in FOLDER.glob("*.golden.json")} == set(metric_names())
    assert all(metric(name).info.name == name for name in metric_names())


def test_the_wrong_question_is_refused() -> None:
    sample = make_sample({"choices": ["a1", "b1"], "target": 0})
    with pytest.raises(TypeError, match="log-likelihoods"):
        metric("acc").score(sample=sample, response=make_response({}), options=metric("acc").Options())
    with pytest.raises(ValueError, match="1 responses for 2 choices"):
        metric("acc").score_choices(
            sample=sample,
            responses=[make_response({}, kind="loglikelihood", logprob_sum=-1.0)],
            options=metric("acc").Options(),
        )


def test_responses_out_of_order_are_refused() -> None:
    sample = make_sample({"choices": ["a1", "b1"], "target": 0})
    responses = [make_response({}, kind="loglikelihood", choice_index=index, logprob_sum=-1.0) for index in (1, 0)]
    with pytest.raises(ValueError, match="order"):
        metric("acc").score_choices(sample=sample, responses=responses, options=metric("acc").Options())
