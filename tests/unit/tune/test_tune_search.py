"""The search itself, with Optuna and SQLite, over an engine that is a formula."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import optuna
import pytest

from schemas.errors import ConfigError
from schemas.tune import Trial
from tasks.tune.outcome import Infeasible, Measured, Outcome, Reference
from tasks.tune.space import POLICY
from tasks.tune.study import Search
from tests.unit.tune.computed import (
    BUDGET,
    PLAN,
    REFERENCES,
    SAMPLES,
    SEQS,
    THRESHOLD,
    engine,
    search,
    speed,
    tuning,
)

ROOT = Path(__file__).resolve().parents[3]


def told(trials: list[Trial]) -> list[dict[str, Any]]:
    return [trial.model_dump(exclude={"started_at"}) for trial in trials]


class Counted:
    """The engine, and what was asked of it."""

    def __init__(self) -> None:
        self.calls: list[tuple[dict[str, Any], int | None, int]] = []

    def __call__(self, settings: dict[str, Any], limit: int | None, part: int) -> Outcome:
        self.calls.append((dict(settings), limit, part))
        return engine(settings, limit, part)


def test_what_is_known_comes_first_and_the_best_is_found(tmp_path: Path) -> None:
    found = search(tmp_path / "study.db")
    trials = found.trials
    assert [trial.reference for trial in trials[:3]] == ["plan", "vllm", None]
    assert trials[0].settings == {} and trials[0].value == speed({})
    assert len(trials) == 24
    winner = found.winner
    assert winner is not None and winner.value is not None and winner.settings[SEQS] == 32
    assert winner.value > 0.95 * 1000
    states = Counter(trial.state for trial in trials)
    assert states["pruned"] and states["infeasible"] and states["measured"] and not states["running"]
    for trial in trials:
        assert (trial.reason is None) == (trial.state == "measured")
        assert trial.rungs == {"measured": 2, "pruned": 1, "infeasible": 1}[trial.state]
        assert trial.run_ids == ([] if trial.state == "infeasible" else ["run-0", "run-1"][: trial.rungs])


def test_a_part_runs_on_its_share_of_the_samples(tmp_path: Path) -> None:
    run = Counted()
    search(tmp_path / "study.db", run, trials=3)
    assert [(limit, part) for _, limit, part in run.calls[:3]] == [(10, 0), (None, 1), (10, 0)]
    run = Counted()
    limited = Search(tmp_path / "limited.db", tune=tuning(trials=3, limit=8), samples=8)
    limited.run(run, references=REFERENCES)
    assert [(limit, part) for _, limit, part in run.calls[:2]] == [(2, 0), (8, 1)]
    run = Counted()
    search(tmp_path / "whole.db", run, trials=12, first_share=1.0)
    assert {(limit, part) for _, limit, part in run.calls} == {(None, 1)}
    assert len(run.calls) == 12


def test_the_same_seed_makes_the_same_search(tmp_path: Path) -> None:
    first, again, other = (
        [trial.settings for trial in search(tmp_path / name, trials=12, seed=seed).trials]
        for name, seed in (("a.db", 3), ("b.db", 3), ("c.db", 4))
    )
    assert first == again
    assert first[2:] != other[2:]


def test_a_search_that_is_killed_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    for at in (2, 1, 9):
        killed = subprocess.run(
            [sys.executable, "-m", "tests.unit.tune.computed", str(path), str(at)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert killed.returncode == -9, killed.stderr
    before = Search(path, tune=tuning(), samples=SAMPLES).trials
    assert [trial.state for trial in before].count("running") == 1
    assert before[-1].state == "running" and len(before) < 24
    run = Counted()
    after = search(path, run).trials
    whole = Counted()
    assert told(after) == told(search(tmp_path / "whole.db", whole).trials)
    done = sum(trial.rungs for trial in before)
    assert whole.calls[done:] == run.calls, "nothing that had run is run again"


def test_what_a_trial_raises_ends_the_search_which_begins_there_again(tmp_path: Path) -> None:
    def interrupted(settings: dict[str, Any], limit: int | None, part: int) -> Outcome:
        if SEQS in settings and part == 1:
            raise KeyboardInterrupt
        return engine(settings, limit, part)

    with pytest.raises(KeyboardInterrupt):
        search(tmp_path / "study.db", interrupted)
    assert told(search(tmp_path / "study.db").trials) == told(search(tmp_path / "whole.db").trials)


def test_what_does_not_run_is_learnt_from(tmp_path: Path) -> None:
    """Of settings that run out of memory the search keeps away, although Optuna never hears a value of them."""

    def narrow(settings: dict[str, Any], limit: int | None, part: int) -> Outcome:
        if settings.get(SEQS, PLAN[SEQS]) > 8:
            return Infeasible(why="out_of_memory", message="no memory left", seconds=1.0)
        return engine(settings, limit, part)

    found = search(tmp_path / "study.db", narrow, trials=40)
    drawn = [trial.settings[SEQS] for trial in found.trials if trial.reference is None]
    assert sum(seqs > 32 for seqs in drawn[-20:]) <= 3, "evenly drawn, it would be a third of them"
    study = optuna.load_study(study_name="search", storage=f"sqlite:///{tmp_path / 'study.db'}")
    assert found.trials[1].why == "out_of_memory", "vLLM's defaults: no point of the space"
    for trial, kept in list(zip(found.trials, study.get_trials(), strict=True))[2:]:
        assert (sum(over for over in kept.constraints.values() if over > 0) > 0) == (trial.state == "infeasible")
    assert found.winner is not None and found.winner.settings[SEQS] == 8


def test_an_slo_that_is_missed_makes_a_setting_infeasible(tmp_path: Path) -> None:
    found = search(tmp_path / "study.db", slo={"ttft_ms": 200}, trials=30)
    missed = [trial for trial in found.trials if trial.why == "slo"]
    assert missed and all(trial.violations["ttft_ms"] > 0 for trial in missed)
    for trial in missed:
        hopeless = trial.figures["ttft_ms.p99"] >= 400
        assert trial.rungs == (1 if hopeless else 2)
        assert trial.reason is not None
        assert f"{trial.figures['ttft_ms.p99']:.4g}, of at most 200" in trial.reason
        assert trial.reason.endswith("first samples") == hopeless
    assert found.winner is not None and found.winner.settings[SEQS] == 16
    assert {1, 2} == {trial.rungs for trial in missed}


def test_goodput_in_which_no_request_is_good_is_infeasible(tmp_path: Path) -> None:
    def run(settings: dict[str, Any], limit: int | None, part: int) -> Outcome:
        outcome = engine(settings, limit, part)
        if isinstance(outcome, Infeasible):
            return outcome
        good = max(0.0, 40 - outcome.figures["ttft_ms.p50"])
        return Measured(figures={**outcome.figures, "goodput.requests_per_s": good}, seconds=1.0)

    found = search(tmp_path / "study.db", run, objective="goodput", slo={"ttft_ms": 40}, trials=20)
    assert found.trials[0].why == "slo"
    assert found.trials[0].reason == "no request met the SLO (ttft_ms 40), of the first samples"
    assert found.winner is not None and found.winner.settings[SEQS] == 1 and found.winner.value == 35


def test_a_figure_that_was_not_measured_is_no_zero(tmp_path: Path) -> None:
    def run(settings: dict[str, Any], limit: int | None, part: int) -> Outcome:
        return Measured(figures={"e2e_ms.p50": 3.0}, seconds=1.0)

    found = search(tmp_path / "study.db", run, trials=3)
    assert {trial.why for trial in found.trials} == {"not_measured"}
    assert found.trials[0].reason == "the run has no throughput.output_tokens_per_s"
    assert found.winner is None


SMALL = {BUDGET: [2048, 4096, 8192], SEQS: {"low": 8, "high": 24, "step": 8}}


def test_each_setting_of_a_small_space_is_run_once_and_then_it_is_over(tmp_path: Path) -> None:
    run = Counted()
    found = Search(tmp_path / "study.db", tune=tuning(space=SMALL, trials=60, first_share=1.0), samples=SAMPLES)
    assert found.run(run, references=REFERENCES) == "space"
    ran = [(settings.get(BUDGET), settings.get(SEQS)) for settings, _, _ in run.calls]
    assert len(ran) == 2 + 9 and len(set(ran[2:])) == 9
    repeated = [trial for trial in found.trials if trial.state == "repeated"]
    assert repeated
    for trial in repeated:
        first = found.trials[trial.same_as or 0]
        assert (trial.settings, trial.value, trial.figures) == (first.settings, first.value, first.figures)
        assert trial.reason == f"the same engine was measured as trial {first.number}"
        assert trial.rungs == 0 and trial.run_ids == [] and trial.seconds is None


def test_settings_that_come_out_as_the_same_engine_are_run_once(tmp_path: Path) -> None:
    def same(settings: dict[str, Any]) -> str:
        return str(settings.get(SEQS, 16))

    run = Counted()
    found = Search(tmp_path / "study.db", tune=tuning(space=SMALL, trials=60, first_share=1.0), samples=SAMPLES)
    assert found.run(run, references=REFERENCES[:1], identity=same) == "space"
    assert [settings.get(SEQS) for settings, _, _ in run.calls].count(None) == 1
    assert len(run.calls) == 3
    assert {(trial.settings[BUDGET], trial.settings[SEQS]) for trial in found.trials[1:]} == {
        (budget, seqs) for budget in SMALL[BUDGET] for seqs in (8, 16, 24)
    }


def test_no_trial_begins_after_the_time(tmp_path: Path) -> None:
    found = Search(tmp_path / "study.db", tune=tuning(time_limit_s=100.0), samples=SAMPLES)
    assert found.run(engine, references=REFERENCES) == "time"
    seconds = [trial.seconds or 0.0 for trial in found.trials]
    assert sum(seconds) >= 100 > sum(seconds[:-1])


def test_a_study_belongs_to_its_space_and_may_get_more_trials(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    short = told(search(path, trials=5).trials)
    longer = told(search(path, trials=9, confirm={"rounds": 5}).trials)
    assert longer[:5] == short and len(longer) == 9
    with pytest.raises(ConfigError, match="another space, objective or load"):
        Search(path, tune=tuning(seed=9), samples=SAMPLES)
    with pytest.raises(ConfigError, match="another space"):
        Search(path, tune=tuning(), samples=SAMPLES + 1)


def test_weighted_goals_are_held_against_the_plan(tmp_path: Path) -> None:
    found = search(tmp_path / "study.db", objective={"throughput": 2, "latency": 1}, trials=16)
    plan, *others = found.trials
    assert plan.value == 1.0 and plan.first_value == 1.0
    [other, *_] = [trial for trial in others if trial.state == "measured"]
    more = other.figures["throughput.output_tokens_per_s"] / plan.figures["throughput.output_tokens_per_s"]
    less = plan.figures["e2e_ms.p50"] / other.figures["e2e_ms.p50"]
    assert other.value == pytest.approx((more**2 * less) ** (1 / 3))
    assert "plan" in found.objective.in_words()


def test_latency_is_the_better_the_lower_it_is(tmp_path: Path) -> None:
    found = search(tmp_path / "study.db", objective="latency", latency="ttft_ms.p99", trials=20)
    assert found.winner is not None and found.winner.settings[SEQS] == 1 and found.winner.value == 10
    pruned = [trial.first_value for trial in found.trials if trial.state == "pruned"]
    assert all(value is not None and value > 10 for value in pruned)


def test_a_reference_beside_the_space_is_measured_and_can_win(tmp_path: Path) -> None:
    """Its place is none that Optuna knows: the search runs on without it, and it is still the best."""
    space = {BUDGET: [512, 1024], SEQS: [1, 8]}
    found = Search(tmp_path / "study.db", tune=tuning(space=space, trials=6), samples=SAMPLES)
    references = [REFERENCES[0], Reference(name="vllm", settings={"engine.choose": "vllm", SEQS: 8})]
    found.run(engine, references=references)
    assert found.trials[0].state == found.trials[1].state == "measured"
    assert found.winner is not None and found.winner.reference == "plan"
    study = optuna.load_study(study_name="search", storage=f"sqlite:///{tmp_path / 'study.db'}")
    assert [trial.state.name for trial in study.get_trials()[:2]] == ["FAIL", "FAIL"]


def test_a_threshold_brings_its_policy_and_hangs_on_it(tmp_path: Path) -> None:
    space = {THRESHOLD: {"low": 128, "high": 2048, "log": True}}
    found = Search(tmp_path / "alone.db", tune=tuning(space=space, trials=5), samples=SAMPLES)
    found.run(engine, references=REFERENCES)
    for trial in found.trials[2:]:
        assert trial.settings[POLICY] == "fixed" and 128 <= trial.settings[THRESHOLD] <= 2048
    both = {**space, POLICY: ["off", "auto", "fixed"]}
    found = Search(tmp_path / "both.db", tune=tuning(space=both, trials=16), samples=SAMPLES)
    found.run(engine, references=[REFERENCES[0], Reference(name="vllm", settings={}, values={POLICY: "off"})])
    own = [trial.settings for trial in found.trials if trial.reference is None]
    assert {settings[POLICY] for settings in own} == {"off", "auto", "fixed"}
    for settings in own:
        assert (THRESHOLD in settings) == (settings[POLICY] == "fixed")


def test_values_of_any_kind_come_back_as_they_were(tmp_path: Path) -> None:
    choices = [{"method": "none"}, {"method": "ngram", "tokens": 4}]
    space = {
        "engine.speculative": choices,
        "engine.prefix_caching": [True, False],
        "engine.cudagraph": ["none", "full"],
    }
    space |= {"engine.memory.gpu_share": {"low": 0.5, "high": 0.9, "step": 0.2}, SEQS: [16, 1, 8]}
    run = Counted()

    def fast(settings: dict[str, Any], limit: int | None, part: int) -> Outcome:
        run(settings, limit, part) if SEQS not in settings else run.calls.append((settings, limit, part))
        return Measured(figures={"throughput.output_tokens_per_s": float(len(run.calls))}, seconds=1.0)

    found = Search(tmp_path / "study.db", tune=tuning(space=space, trials=14), samples=SAMPLES)
    found.run(fast, references=REFERENCES)
    for settings, _, _ in run.calls:
        if SEQS in settings:
            assert settings["engine.speculative"] in choices
            assert isinstance(settings["engine.prefix_caching"], bool)
            assert settings["engine.cudagraph.mode"] in ("none", "full")
            assert settings["engine.memory.gpu_share"] in (0.5, 0.7, 0.9)
            assert settings[SEQS] in (1, 8, 16)
