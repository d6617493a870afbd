"""The engine's own log without an engine: which steps are sent, and which of vLLM's runners is read how."""

from enum import Enum
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.engine.protocol import WireStep
from tasks.engine.worker.graphs import chosen_graph, watch_choices
from tasks.engine.worker.speculation import Speculation
from tasks.engine.worker.step_log import ALL_OF_THE_FIRST, StepLog, stands_for


def test_the_steps_that_are_sent_stand_for_all() -> None:
    last = 250_000
    sent = [(step, stands_for(step)) for step in range(last) if stands_for(step)]
    assert sum(weight for _, weight in sent) == last
    assert [step for step, _ in sent[: ALL_OF_THE_FIRST + 2]] == [*range(ALL_OF_THE_FIRST + 1), ALL_OF_THE_FIRST + 10]
    assert {weight for step, weight in sent if 2_000 <= step < 20_000} == {10}
    assert {weight for step, weight in sent if 20_000 <= step < 200_000} == {100}
    assert len(sent) < 6_000
    # Each begins where the one before ends: none is counted twice.
    assert all(step + weight == following for (step, weight), (following, _) in pairwise(sent))


class Mode(Enum):
    """As vLLM's CUDAGraphMode."""

    NONE = 0
    FULL = 2


class Older:
    """The signature of vLLM 0.26's newer model runner."""

    def prepare_inputs(self, scheduler_output: Any, batch_desc: Any) -> str:
        return f"{scheduler_output.total_num_scheduled_tokens} of {batch_desc.num_tokens}"


class Newer:
    """That of 0.32, which counts by itself."""

    def prepare_inputs(self, scheduler_output: Any, batch_req_state: Any, batch_desc: Any) -> None:
        raise AssertionError("not to be called here")


def test_the_choice_of_a_runner_that_does_not_count_is_read() -> None:
    runner, step = Older(), SimpleNamespace(total_num_scheduled_tokens=13)
    watch_choices(runner)
    assert chosen_graph(step) is None
    assert runner.prepare_inputs(step, SimpleNamespace(cg_mode=Mode.FULL, num_tokens=16)) == "13 of 16"
    assert chosen_graph(step) == ("FULL", 13, 16, 3)


@pytest.mark.parametrize("runner", [Newer(), object(), None])
def test_any_other_runner_is_left_alone(runner: Any) -> None:
    before = getattr(runner, "prepare_inputs", None)
    watch_choices(runner)
    assert getattr(runner, "prepare_inputs", None) == before


def test_a_draft_that_no_grammar_allows_is_no_draft() -> None:
    speculation = Speculation()
    speculation.expected = True
    scheduled = SimpleNamespace(
        scheduled_spec_decode_tokens={"a": [1, 2, 3], "b": [4, 5]}, num_invalid_spec_tokens={"a": 1}
    )
    computed = SimpleNamespace(sampled_token_ids=[[7], [1, 2, 9]], req_id_to_index={"a": 1, "b": 0})
    assert speculation.step(scheduled, computed) == 5, "all of them were computed"
    assert speculation.finished("a") == (2, 2)
    assert speculation.finished("b") == (2, 0)
    assert speculation.finished("b") == (0, 0), "it is asked once"


def test_of_each_cell_the_first_steps_are_all_sent() -> None:
    """A long run's last cell is as well seen as its first."""
    log = StepLog()
    stats = SimpleNamespace(num_waiting_reqs=0)
    for _ in range(3):
        log.begin_anew()
        for _ in range(ALL_OF_THE_FIRST + 500):
            log._add(WireStep(ended_at=0.0, running=1), stats, None)
        message = log.message()
        assert message is not None
        weights = [step.stands_for for step in message.steps]
        assert weights[:ALL_OF_THE_FIRST] == [1] * ALL_OF_THE_FIRST and set(weights[ALL_OF_THE_FIRST:]) == {10}
        assert message.totals.steps == sum(weights) == ALL_OF_THE_FIRST + 500
    assert message.steps[-1].step > 3 * ALL_OF_THE_FIRST, "steps are numbered on"
