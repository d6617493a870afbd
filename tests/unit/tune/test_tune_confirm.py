"""The winner against the plan and vLLM's defaults, and the sentence that comes of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas.tune import Confirmation, Trial, Tuned
from tasks.tune.answer import tuned
from tasks.tune.confirm import confirm
from tasks.tune.objective import THROUGHPUT
from tasks.tune.outcome import Infeasible, Measured, Outcome
from tasks.tune.study import Search
from tests.unit.tune.computed import REFERENCES, search, searched

Rates = dict[str, list[float | None]]
Called = list[tuple[str, int]]


def found(path: Path, **changes: Any) -> tuple[Search, Trial]:
    done = searched(path, trials=8, first_share=1.0, **changes)
    assert done.winner is not None and done.winner.reference is None
    return done, done.winner


def giving(rates: Rates, called: Called) -> Callable[[dict[str, Any], str, int], Outcome]:
    def run(settings: dict[str, Any], side: Any, index: int) -> Outcome:
        called.append((side, index))
        rate = rates[side][index]
        if rate is None:
            return Infeasible(why="out_of_memory", message="no memory left", run_id=f"{side}-{index}")
        figures = {THROUGHPUT: rate, "e2e_ms.p50": 9000 / rate, "ttft_ms.p99": 100.0}
        return Measured(figures=figures, run_id=f"{side}-{index}")

    return run


def confirmed(path: Path, rates: Rates, called: Called | None = None, **changes: Any) -> tuple[Confirmation, Tuned]:
    done, winner = found(path, confirm={"rounds": len(rates["winner"])}, **changes)
    result = confirm(done, winner, giving(rates, [] if called is None else called), references=REFERENCES)
    return result, tuned(done, run_id="r", name="t", ended="trials", confirmation=result)


def test_the_three_take_turns_and_a_clear_winner_is_used(tmp_path: Path) -> None:
    called: Called = []
    rates: Rates = {"winner": [120, 122, 121], "plan": [100, 102, 101], "vllm": [80, 81, 79]}
    result, said = confirmed(tmp_path / "study.db", rates, called)
    assert [side for side, _ in called] == [
        *("winner", "plan", "vllm"),
        *("plan", "vllm", "winner"),
        *("vllm", "winner", "plan"),
    ]
    plan, vllm = result.against
    assert plan.ratio == pytest.approx(1.198, abs=0.001) and vllm.ratio == pytest.approx(1.512, abs=0.01)
    assert plan.lo is not None and plan.hi is not None and 1 < plan.lo < plan.ratio < plan.hi
    assert (said.verdict, said.engine) == ("use", said.trials[result.trial].settings)
    assert said.answer.startswith(f"use trial {result.trial}: 1.198 [")
    assert result.sides[0].run_ids == ["winner-0", "winner-1", "winner-2"]


def test_what_lies_within_the_noise_is_not_used(tmp_path: Path) -> None:
    rates: Rates = {"winner": [120, 95, 110], "plan": [100, 104, 96], "vllm": [80, 81, 79]}
    result, said = confirmed(tmp_path / "study.db", rates)
    assert result.against[0].ratio is not None and result.against[0].ratio > 1
    assert result.against[0].verdict == "undecided"
    assert (said.verdict, said.engine) == ("keep", {})
    assert said.answer.startswith("keep the plan: ") and said.answer.endswith("which is within the noise")


def test_a_winner_that_is_worse_under_the_full_load_is_told(tmp_path: Path) -> None:
    rates: Rates = {"winner": [90, 91, 90], "plan": [100, 101, 100], "vllm": [80, 81, 79]}
    result, said = confirmed(tmp_path / "study.db", rates)
    assert result.against[0].verdict == "worse" and said.answer.endswith("which is no better")


def test_less_is_better_where_less_is_better(tmp_path: Path) -> None:
    rates: Rates = {"winner": [120, 122, 121], "plan": [100, 102, 101], "vllm": [80, 81, 79]}
    result, said = confirmed(tmp_path / "study.db", rates, objective="latency")
    assert result.sides[0].values[0] == 75 and result.sides[1].values[0] == 90
    assert result.against[0].ratio == pytest.approx(1.198, abs=0.001) and said.verdict == "use"


def test_weighted_goals_are_held_against_the_plan_of_the_same_round(tmp_path: Path) -> None:
    rates: Rates = {"winner": [120, 110], "plan": [100, 100], "vllm": [80, 100]}
    result, _ = confirmed(tmp_path / "study.db", rates, objective={"throughput": 1, "latency": 1})
    assert result.sides[0].values == pytest.approx([1.2, 1.1]) and result.sides[1].values == [1, 1]


def test_a_winner_that_fails_is_given_up_at_once(tmp_path: Path) -> None:
    called: Called = []
    rates: Rates = {"winner": [120, None, 121], "plan": [100, 102, 101], "vllm": [80, 81, 79]}
    _, said = confirmed(tmp_path / "study.db", rates, called)
    assert called[-1] == ("winner", 1)
    assert said.verdict == "keep" and said.answer.endswith("failed under the full load: no memory left")


def test_another_side_that_fails_is_not_run_again(tmp_path: Path) -> None:
    called: Called = []
    rates: Rates = {"winner": [120, 122, 121], "plan": [None, 102, 101], "vllm": [80, 81, 79]}
    result, said = confirmed(tmp_path / "study.db", rates, called)
    assert called.count(("plan", 0)) == 1 and ("plan", 1) not in called
    assert result.sides[1].reasons == ["no memory left", *["it had failed before"] * 2]
    assert said.verdict == "use" and "the plan's own engine failed under the full load (no memory left)" in said.answer


def test_a_side_that_misses_the_slo_has_failed(tmp_path: Path) -> None:
    rates: Rates = {"winner": [120, 122], "plan": [100, 102], "vllm": [80, 81]}
    done, winner = found(tmp_path / "study.db", slo={"ttft_ms": 400}, confirm={"rounds": 2})

    def run(settings: dict[str, Any], side: Any, index: int) -> Outcome:
        outcome = giving(rates, [])(settings, side, index)
        assert isinstance(outcome, Measured)
        return Measured(figures={**outcome.figures, "ttft_ms.p99": 500.0 if side == "vllm" else 90.0})

    result = confirm(done, winner, run, references=REFERENCES)
    assert result.sides[2].reasons[0] == "the 99th percentile of ttft_ms is 500, of at most 400"
    assert result.against[1].ratio is None and result.against[0].ratio is not None


def test_a_confirmation_that_was_cut_goes_on(tmp_path: Path) -> None:
    rates: Rates = {"winner": [120, 122, 121], "plan": [100, 102, 101], "vllm": [80, 81, 79]}
    done, winner = found(tmp_path / "study.db")
    called: Called = []
    run = giving(rates, called)

    def cut(settings: dict[str, Any], side: Any, index: int) -> Outcome:
        if len(called) == 4:
            raise KeyboardInterrupt
        return run(settings, side, index)

    with pytest.raises(KeyboardInterrupt):
        confirm(done, winner, cut, references=REFERENCES)
    done.close()
    again = search(tmp_path / "study.db", trials=8, first_share=1.0)
    assert again.winner is not None
    result = confirm(again, again.winner, run, references=REFERENCES)
    assert len(called) == len(set(called)) == 9
    assert result.against[0].verdict == "better"


def test_the_plan_that_is_best_needs_no_confirmation(tmp_path: Path) -> None:
    def only_the_plan(settings: dict[str, Any], limit: int | None, part: int) -> Outcome:
        return Measured(figures={THROUGHPUT: 1.0 if settings else 2.0, "e2e_ms.p50": 5.0}, seconds=1.0)

    done = search(tmp_path / "study.db", only_the_plan, trials=4)
    said = tuned(done, run_id="r", name="t", ended="trials", confirmation=None)
    assert said.winner == 0 and said.verdict == "keep" and said.engine == {}
    assert said.answer == "keep the plan: none of 4 trials was better than the plan's own engine"


def test_nothing_that_runs_is_said(tmp_path: Path) -> None:
    def none(settings: dict[str, Any], limit: int | None, part: int) -> Outcome:
        return Infeasible(why="refused", message="no", seconds=1.0)

    done = search(tmp_path / "study.db", none, trials=4)
    said = tuned(done, run_id="r", name="t", ended="trials", confirmation=None)
    assert said.winner is None and said.answer == "keep the plan: none of 4 trials ran as a whole within the limits"
    assert said.front == [] and said.importances == {} and "too few trials" in said.importances_note
