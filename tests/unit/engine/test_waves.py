"""The order in which a run asks: what hangs on another answer waits for it, and is found again in a resumed run."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from schemas.arm import Arm, Repair
from schemas.dataset import Dataset, MetricUse, NamedDataset
from schemas.engine import Sampling
from schemas.guide import Guide
from schemas.prompt import Prompt
from schemas.sample import Grammar, Request, Sample
from schemas.source import JsonlSource
from tasks.engine.waves import Waves, blocks
from tasks.requests import drawn_with, plan_requests, plan_retries, request_key
from tasks.responses import RowContext, response_row, unmatched_row, wire_request
from tasks.session import Session
from tests.unit.test_responses import result

NUMBER = Grammar(grammar_id="a" * 16, kind="regex", content="[0-9]+")
SAMPLING = Sampling(stop=["\n"])
DATASET = NamedDataset(
    name="d",
    config=Dataset(
        source=JsonlSource(kind="jsonl", path="x.jsonl"),
        prompt=Prompt(text="{{ q }}"),
        guide=Guide(kind="regex", pattern="[0-9]+"),
        metrics=[MetricUse(use="exact_match")],
    ),
    sampling=SAMPLING,
)


def samples(count: int) -> list[Sample]:
    return [
        Sample(
            dataset="d", sample_id=f"d:{n}", row_index=n, raw=b"{}", input={}, prompt="p", prompt_hash="h",
            prompt_token_ids=[1, 2, n], grammar=NUMBER, max_tokens=30,
        )
        for n in range(count)
    ]  # fmt: skip


class Run:
    """A run's requests, answered by hand."""

    def __init__(
        self,
        arms: list[Arm],
        *,
        count: int = 2,
        retries: int = 1,
        rows: dict[str, Any] | None = None,
        room: int | None = None,
    ) -> None:
        told: dict[str, Any] = {"dataset": DATASET, "samples": samples(count), "arms": arms, "needs": ["generate"]}
        repair = Repair(retries=retries, temperature=0.5 if retries > 1 else None)
        self.session = cast(
            Session,
            SimpleNamespace(
                requests=plan_requests(**told), retries=plan_retries(**told, repair=repair), request_keys={}
            ),
        )
        self.rows: dict[str, Any] = {} if rows is None else rows
        self.waves = Waves(self.session, at_once=4, room=room)
        self.asked: list[list[tuple[str, str]]] = []

    def next(self, **answer: Any) -> list[Request]:
        """The next wave, each request answered the same way unless that is known already."""
        wave = self.waves.next(self.rows)
        if wave is None:
            return []
        self.last = wave
        for request in wave.requests:
            key = request_key(request, identity={}, sampling=SAMPLING)
            self.session.request_keys[request.request_id] = key
            known = self.rows.get(request.request_id)
            if known is None or known["request_key"] != key:
                fields = {"status": "ok", "valid": True, "output_tokens": 5, "error": None}
                self.rows[request.request_id] = fields | answer | {"request_key": key}
        self.asked.append([(request.arm, request.sample_id) for request in wave.requests])
        return wave.requests

    def all(self) -> "Run":
        while self.next():
            pass
        return self


def test_without_a_control_or_repairs_there_is_one_wave_in_the_order_of_the_plan() -> None:
    assert Run(["free", "guided"]).all().asked == [
        [("free", "d:0"), ("guided", "d:0"), ("free", "d:1"), ("guided", "d:1")]
    ]


def test_the_control_takes_turns_with_the_guided_answers_and_has_their_lengths() -> None:
    run = Run(["free", "guided", "free_matched"], count=8)
    assert {each.arm for each in run.next()} == {"free"}
    lengths: dict[str, int] = {}
    for turn in range(4):
        guided = run.next(output_tokens=5 + turn)
        assert [(each.arm, each.sample_id) for each in guided] == [("guided", f"d:{turn}"), ("guided", f"d:{turn + 4}")]
        lengths |= {each.sample_id: 5 + turn for each in guided}
        for each in run.next():
            assert each.arm == "free_matched" and each.max_tokens == lengths[each.sample_id]
            assert each.exactly and not each.stop and each.check is None and each.grammar is None
            wire = wire_request(each, SAMPLING)
            assert (wire.sampling.ignore_eos, wire.sampling.max_tokens, wire.sampling.stop) == (
                True,
                each.max_tokens,
                [],
            )
        assert run.last.ahead == 2 * 2 * (3 - turn)
    assert run.next() == []
    assert not run.last.forget  # the free answers left the prompts in the cache for both
    assert all(each.exactly for each in run.session.requests if each.arm == "free_matched")


@pytest.mark.parametrize(
    ("requests", "at_once", "wanted"),
    [(0, 4, 0), (1, 4, 1), (3, 4, 1), (9, 4, 4), (60, 256, 4), (96, 16, 6), (999, 8, 8)],
)
def test_there_are_blocks_enough_to_tell_the_machines_ups_and_downs(requests: int, at_once: int, wanted: int) -> None:
    assert blocks(requests, at_once=at_once) == wanted


@pytest.mark.parametrize(
    ("arms", "room", "forget"),
    [
        (["guided", "free_matched"], None, True),  # nobody read the prompts before
        (["free", "guided", "free_matched"], 66, False),  # two prompts of 3 tokens with their answers of up to 30
        (["free", "guided", "free_matched"], 65, True),
    ],
)
def test_the_prompts_are_in_the_cache_for_both_or_for_neither(arms: list[Arm], room: int | None, forget: bool) -> None:
    run = Run(arms, room=room)
    if "free" in arms:
        run.next()
        assert not run.last.forget
    for _ in range(2):
        run.next()
        assert run.last.forget is forget


@pytest.mark.parametrize(
    ("answer", "why"),
    [({"status": "refused", "output_tokens": None}, "came to `refused`"), ({"output_tokens": 0}, "has no token")],
)
def test_a_guided_answer_that_failed_leaves_a_row_that_says_so(answer: dict[str, Any], why: str) -> None:
    run = Run(["free", "guided", "free_matched"], count=1)
    run.next()
    run.next(**answer)
    wave = run.waves.next(run.rows)
    assert wave is not None and wave.requests == []
    ((request, told),) = wave.unmatched
    assert why in told
    row = unmatched_row(request, RowContext(engine_id="e", sampling={"d": SAMPLING}, keys={request.request_id: "k"},
                                            attempts={}), why=told)  # fmt: skip
    assert (row["status"], row["arm"]) == ("cancelled", "free_matched") and why in row["error"]


def test_a_resumed_run_takes_the_lengths_from_the_answers_that_are_there() -> None:
    first = Run(["free", "guided", "free_matched"], count=4)
    for _ in range(3):
        first.next(output_tokens=9)  # killed after the first of two blocks
    kept = dict(first.rows)
    again = Run(["free", "guided", "free_matched"], count=4, rows=dict(kept)).all()
    matched = [each for each in again.session.requests if each.arm == "free_matched"]
    assert [each.max_tokens for each in matched] == [9, 5, 9, 5]
    assert all(again.rows[each] == row for each, row in kept.items())  # nothing is asked twice
    assert again.session.request_keys == Run(["free", "guided", "free_matched"], count=4, rows=again.rows).all(
    ).session.request_keys  # fmt: skip


def test_another_length_is_another_question_and_the_exact_one_is_no_free_one() -> None:
    run = Run(["free", "guided", "free_matched"], count=1).all()
    free, control = (next(each for each in run.session.requests if each.arm == arm) for arm in ("free", "free_matched"))
    key = request_key(control, identity={}, sampling=SAMPLING)
    assert key != request_key(replace(control, max_tokens=6), identity={}, sampling=SAMPLING)
    alike = replace(free, max_tokens=control.max_tokens, stop=[])
    assert key != request_key(alike, identity={}, sampling=SAMPLING)
    assert request_key(alike, identity={}, sampling=SAMPLING) == request_key(
        replace(control, exactly=False), identity={}, sampling=SAMPLING
    )


def test_an_answer_of_an_exact_length_is_not_cut_and_not_judged() -> None:
    run = Run(["free", "guided", "free_matched"], count=1).all()
    control = next(each for each in run.session.requests if each.arm == "free_matched")
    context = RowContext(engine_id="e", sampling={"d": SAMPLING}, keys={control.request_id: "k"}, attempts={})
    row = response_row(control, result(request_id=control.request_id, finish_reason="length"), context)
    assert (row["status"], row.get("valid"), row["finish_reason"]) == ("ok", None, "length")


def test_only_what_is_not_valid_is_asked_again() -> None:
    run = Run(["free", "guided", "repair"], count=3)
    first = run.next()
    assert {each.arm for each in first} == {"free", "guided"}  # the free answers are asked once
    bad = next(each for each in first if (each.arm, each.sample_id) == ("free", "d:1"))
    run.rows[bad.request_id] |= {"status": "invalid", "valid": False}
    (retry,) = run.next()
    assert (retry.arm, retry.sample_id, retry.repair_try, retry.grammar) == ("repair", "d:1", 1, NUMBER)
    assert retry in run.session.requests and run.next() == []
    guided = next(each for each in first if (each.arm, each.sample_id) == ("guided", "d:1"))
    assert request_key(retry, identity={}, sampling=SAMPLING) == request_key(guided, identity={}, sampling=SAMPLING)


def test_an_answer_that_never_came_is_not_repaired() -> None:
    run = Run(["free", "repair"], count=1)
    run.next(status="error", valid=None)
    assert run.next() == []


def test_by_itself_the_arm_begins_with_a_free_answer_and_goes_on_up_to_its_limit() -> None:
    run = Run(["repair"], count=1, retries=3)
    (free,) = run.next(status="truncated", valid=None)
    assert (free.arm, free.repair_try, free.grammar) == ("repair", 0, None)
    tries = [run.next(status="invalid", valid=False) for _ in range(3)]
    assert [[each.repair_try for each in wave] for wave in tries] == [[1], [2], [3]]
    assert run.next() == []
    drawn = [drawn_with(each, Sampling(temperature=0.2, seed=7)) for (each,) in tries]
    assert [(each.temperature, each.seed) for each in drawn] == [(0.2, 7), (0.5, 8), (0.5, 9)]
    seeded = Sampling(temperature=0.2, seed=7)
    assert len({request_key(each, identity={}, sampling=seeded) for (each,) in tries}) == 3


def test_a_resumed_run_makes_the_retries_that_are_missing() -> None:
    first = Run(["free", "repair"], count=2, retries=2)
    first.next(status="invalid", valid=False)
    first.next(status="invalid", valid=False)
    again = Run(["free", "repair"], count=2, retries=2, rows=dict(first.rows))
    known = set(again.rows)
    again.all()
    assert [each.repair_try for each in again.session.requests if each.request_id not in known] == [2, 2]


def test_a_dataset_without_a_guide_has_neither() -> None:
    plain = DATASET.model_copy(update={"config": DATASET.config.model_copy(update={"guide": None})})
    told: dict[str, Any] = {"dataset": plain, "samples": samples(1), "needs": ["generate"]}
    arms: list[Arm] = ["free", "guided", "free_matched", "repair"]
    assert [each.arm for each in plan_requests(**told, arms=arms)] == ["free"]
    assert plan_retries(**told, arms=arms, repair=Repair()) == []
