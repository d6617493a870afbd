"""Which requests a sample becomes, and when two of them are the same question."""

from dataclasses import replace
from typing import Any

import pytest

from schemas.arm import NamedArm
from schemas.dataset import Dataset, MetricUse, NamedDataset
from schemas.engine import Sampling
from schemas.guide import Guide
from schemas.prompt import Prompt
from schemas.sample import Choice, Grammar, Request, Sample
from schemas.source import JsonlSource
from tasks.requests import engine_identity, plan_requests, planned_load, request_key

GRAMMAR = Grammar(grammar_id="a" * 16, kind="regex", content="[0-9]+")
RESOLVED = {"dtype": "bfloat16", "grammar_backend": "xgrammar", "grammar_whitespace": False, "max_num_seqs": 256}
VERSIONS = {"vllm": "0.32.0", "torch": "2.13.0", "xgrammar": "0.2.8"}


def dataset(*, guide: bool = True) -> NamedDataset:
    config = Dataset(
        source=JsonlSource(kind="jsonl", path="x.jsonl"),
        prompt=Prompt(text="{{ q }}"),
        guide=Guide(kind="regex", pattern="[0-9]+") if guide else None,
        metrics=[MetricUse(use="exact_match")],
    )
    return NamedDataset(name="numbers", config=config, sampling=Sampling(stop=["\n"]))


def sample(number: int, *, choices: int = 0, error: str | None = None) -> Sample:
    return Sample(
        dataset="numbers",
        sample_id=f"numbers:{number}",
        row_index=number,
        raw=b"{}",
        input={},
        prompt="p",
        prompt_hash="h",
        prompt_token_ids=[1, 2, number],
        grammar=None if error else GRAMMAR,
        grammar_error=error,
        choices=[Choice(text=str(i), token_ids=[1, 2, number, i], start=3) for i in range(choices)],
        max_tokens=7,
    )


def plan(samples: list[Sample], *, guide: bool = True, needs: tuple[str, ...] = ("generate",)) -> list[Request]:
    return plan_requests(dataset=dataset(guide=guide), samples=samples, arms=["free", "guided"], needs=needs)


def test_the_arms_of_a_sample_are_back_to_back_and_share_their_prompt() -> None:
    requests = plan([sample(1), sample(2)])
    assert [(r.sample_id, r.arm) for r in requests] == [
        ("numbers:1", "free"),
        ("numbers:1", "guided"),
        ("numbers:2", "free"),
        ("numbers:2", "guided"),
    ]
    free, guided = requests[:2]
    assert free.prompt_token_ids == guided.prompt_token_ids
    assert free.grammar is None and guided.grammar == GRAMMAR
    assert free.check == guided.check == GRAMMAR  # both are validated
    assert free.stop == ["\n"] and free.max_tokens == 7


def test_without_a_guide_there_is_no_guided_arm() -> None:
    assert {r.arm for r in plan([sample(1)], guide=False)} == {"free"}


def test_each_choice_is_one_loglikelihood_request_of_one_token() -> None:
    requests = plan([sample(1, choices=3)], needs=("loglikelihood",))
    assert [(r.choice_index, r.continuation_start, r.max_tokens) for r in requests] == [(0, 3, 1), (1, 3, 1), (2, 3, 1)]


def test_a_sample_whose_own_grammar_is_wrong_loses_only_its_guided_request() -> None:
    requests = plan([sample(1, error="no regex"), sample(2)])
    assert [r.refused for r in requests] == [None, "no regex", None, None]
    assert len(planned_load(requests).prompt_tokens) == 3


@pytest.mark.parametrize(
    ("prompt", "begun"),
    [("Q: 1?<|assistant|><think>\n", True), ("<think>\n\n</think>\n\n", False), ("What does <think> mean? A:", False)],
)
def test_a_prompt_that_ends_within_the_reasoning_is_known(prompt: str, begun: bool) -> None:
    asked = dataset().model_copy(update={"reasoning_parser": "think_tags"})
    samples = [replace(sample(1, choices=2), prompt=prompt)]
    requests = plan_requests(dataset=asked, samples=samples, arms=["free"], needs=["generate", "loglikelihood"])
    assert [request.reasoning_begun for request in requests] == [begun, False, False]
    assert requests[0].stop == ["\n"] and requests[0].engine_stop == []  # the engine would end the reasoning
    assert [request.reasoning_parser for request in requests] == ["think_tags", None, None]


def test_an_arms_adapter_goes_before_the_datasets_and_log_likelihoods_are_asked_with_it() -> None:
    config = dataset().config.model_copy(update={"adapter": "own"})
    arms = [
        "free",
        "guided",
        NamedArm(name="tuned", adapter="legal"),
        NamedArm(name="base", like="guided", adapter="none"),
    ]
    asked = plan_requests(
        dataset=dataset().model_copy(update={"config": config}),
        samples=[sample(1, choices=2)],
        arms=arms,
        needs=["generate", "loglikelihood"],
    )
    answers = {each.arm: each for each in asked if each.kind == "generate"}
    assert {arm: each.adapter for arm, each in answers.items()} == {
        "free": "own", "guided": "own", "tuned": "legal", "base": None
    }  # fmt: skip
    assert {arm for arm, each in answers.items() if each.grammar} == {"guided", "base"}
    scored = [(each.arm, each.choice_index, each.adapter) for each in asked if each.kind == "loglikelihood"]
    assert scored == [("free", 0, "own"), ("free", 1, "own"), ("tuned", 0, "legal"), ("tuned", 1, "legal")]
    assert len({each.request_id for each in asked}) == len(asked) == 8


def test_request_ids_are_stable_and_distinct() -> None:
    once, again = plan([sample(1, choices=2)], needs=("generate", "loglikelihood")), plan([sample(1)])
    assert len({r.request_id for r in once}) == 4
    assert [r.request_id for r in again] == [r.request_id for r in once[:2]]


def key(request: Request, *, resolved: dict[str, object] = RESOLVED, **sampling: float) -> str:
    identity = engine_identity(model_fingerprint="m", versions=VERSIONS, device_name="cpu", resolved=resolved)
    return request_key(request, identity=identity, sampling=Sampling(**sampling))


@pytest.mark.parametrize(
    "change",
    [
        {"prompt_token_ids": [1, 2, 4]},
        {"max_tokens": 8},
        {"stop": []},
        {"grammar": GRAMMAR},
        {"grammar": replace(GRAMMAR, content="[0-9]")},
        {"repeat": 1},
        {"continuation_start": 2},
        {"reasoning_parser": "think_tags"},
    ],
)
def test_whatever_changes_the_answer_changes_the_key(change: dict[str, object]) -> None:
    request = plan([sample(3)])[0]
    assert key(replace(request, **change)) != key(request)  # type: ignore[arg-type]


def test_the_engine_is_in_the_key_but_not_the_sizes_of_its_scheduler() -> None:
    request = plan([sample(3)])[0]
    assert key(request, resolved=RESOLVED | {"max_num_seqs": 8}) == key(request)
    assert key(request, resolved=RESOLVED | {"dtype": "float32"}) != key(request)
    assert key(request, temperature=0.5) != key(request)


@pytest.mark.parametrize(
    ("options", "other"),
    [
        ({"hf_overrides": {"rope_theta": 1}}, True),
        ({"extra": {"max_logprobs": 3}}, True),
        ({"batch_invariant": True}, True),
        ({"speculative": {"method": "ngram", "tokens": 3}}, True),
        ({"adapters": [{"name": "a", "path": "/a", "fingerprint": "1"}]}, True),
        ({"hf_overrides": {}, "extra": {}, "batch_invariant": False, "speculative": None, "adapters": []}, False),
        ({"data_parallel_size": 2, "trace_steps": 3, "compile_cache": "/c", "python": "/p"}, False),
    ],
)
def test_what_is_out_of_the_ordinary_is_in_the_key_only_where_it_is_used(options: dict[str, Any], other: bool) -> None:
    request = plan([sample(3)])[0]
    made = engine_identity(
        model_fingerprint="m", versions=VERSIONS, device_name="cpu", resolved=RESOLVED, options=options
    )
    assert (request_key(request, identity=made, sampling=Sampling()) != key(request)) is other


def test_several_devices_are_in_the_key() -> None:
    request = plan([sample(3)])[0]
    assert key(request, resolved=RESOLVED | {"tensor_parallel_size": 1}) == key(request)
    assert key(request, resolved=RESOLVED | {"tensor_parallel_size": 2}) != key(request)
