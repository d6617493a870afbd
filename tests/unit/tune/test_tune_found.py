"""What is made of the trials: the front, the keys that mattered, rows of the warehouse, the engine's file, tables."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from schemas.tune import Against, Confirmation, Side, Trial
from tasks.config.resolve import load_experiment
from tasks.tune.answer import tuned
from tasks.tune.engine_yaml import engine_yaml, write_engine_yaml
from tasks.tune.file import overrides
from tasks.tune.importance import LEAST, importances
from tasks.tune.objective import THROUGHPUT
from tasks.tune.outcome import Measured, Outcome
from tasks.tune.pareto import front
from tasks.tune.rows import trial_rows
from tasks.tune.space import Space
from tasks.tune.table import confirmation_table, trial_table
from tests.unit.tune.computed import BUDGET, SEQS, search, searched
from warehouse.parquet import read_rows, write_rows

LATENCY = "e2e_ms.p50"


def trial(number: int, throughput: float, latency: float, **changes: Any) -> Trial:
    figures = {THROUGHPUT: throughput, LATENCY: latency}
    return Trial(number=number, settings={}, state="measured", value=throughput, figures=figures).model_copy(
        update=changes
    )


def test_the_front_is_what_no_other_trial_beats() -> None:
    draw = random.Random(7)
    trials = [trial(number, draw.randint(1, 30), draw.randint(1, 30)) for number in range(60)]

    def beats(one: Trial, other: Trial) -> bool:
        a, b = (one.figures[THROUGHPUT], -one.figures[LATENCY]), (other.figures[THROUGHPUT], -other.figures[LATENCY])
        return a != b and a[0] >= b[0] and a[1] >= b[1]

    points = {
        (each.figures[THROUGHPUT], each.figures[LATENCY]) for each in trials if not any(beats(o, each) for o in trials)
    }
    found = front(trials, latency=LATENCY)
    assert {(trials[number].figures[THROUGHPUT], trials[number].figures[LATENCY]) for number in found} == points
    assert len(found) == len(points)
    rates = [trials[number].figures[THROUGHPUT] for number in found]
    assert rates == sorted(rates, reverse=True)


def test_only_feasible_trials_are_on_the_front() -> None:
    trials = [
        trial(0, 10, 10),
        trial(1, 99, 1, state="infeasible", value=None),
        trial(2, 99, 1, state="pruned", value=None),
        trial(3, 99, 1, state="repeated", same_as=0),
        trial(4, 99, 1, figures={THROUGHPUT: 99.0}),
    ]
    assert front(trials, latency=LATENCY) == [0]


def test_the_key_that_matters_has_the_larger_share(tmp_path: Path) -> None:
    def only_seqs(settings: dict[str, Any], limit: int | None, part: int) -> Outcome:
        return Measured(figures={THROUGHPUT: 100.0 - settings.get(SEQS, 16)}, seconds=1.0)

    found = search(tmp_path / "study.db", only_seqs, trials=32, seed=5)
    shares, note = importances(found.trials, space=found.space, higher=True)
    assert set(shares) == {BUDGET, SEQS} and sum(shares.values()) == pytest.approx(1)
    assert shares[SEQS] > 2 * shares[BUDGET]
    assert "best third" in note


def test_shares_of_chance_are_not_told() -> None:
    space = Space({SEQS: [1, 2, 3], BUDGET: [1, 2, 3]})
    few = [trial(number, 1, 1, settings={SEQS: 1, BUDGET: 1}, first_value=float(number)) for number in range(LEAST - 1)]
    shares, note = importances(few, space=space, higher=True)
    assert shares == {} and note.startswith(f"too few trials to say which keys matter: {LEAST - 1} were measured")
    same = [each.model_copy(update={"first_value": 4.0}) for each in [*few, *few]]
    assert importances(same, space=space, higher=True)[1] == "no key matters here: all 28 trials have the same value"


def test_trials_are_rows_of_the_warehouse(tmp_path: Path) -> None:
    found = searched(tmp_path / "study.db", trials=8, first_share=1.0)
    run = "20261101T000000-abcdef"
    rows = trial_rows(found.trials)
    write_rows(home=tmp_path, table="trials", run_id=run, rows=rows, part="0", revision=0)
    assert {row["winner"] for row in read_rows(tmp_path, "trials", run)} == {None}
    assert found.winner is not None
    over = trial_rows(found.trials, front=[3], winner=found.winner.number, over=True)
    write_rows(home=tmp_path, table="trials", run_id=run, rows=over, part="1", revision=1)
    stored = read_rows(tmp_path, "trials", run, parse_json=True)
    assert [row["trial"] for row in stored if row["winner"]] == [found.winner.number]
    assert [row["trial"] for row in stored if row["on_front"]] == [3]
    for row, each in zip(stored, found.trials, strict=True):
        assert (row["settings"], row["state"], row["value"]) == (each.settings, each.state, each.value)
        assert row["trial_run_ids"] == each.run_ids
        assert row["started_at"].isoformat() == each.started_at
        assert (row["figures"] is None) == (not each.figures)


@pytest.mark.parametrize(
    ("engine", "settings"),
    [
        ([], {SEQS: 24, "engine.prefill.policy": "fixed", "engine.prefill.threshold": 512}),
        (["engine.memory.kv_cache_bytes=33554432", "engine.prefix_caching=false"], {"engine.cudagraph.mode": "none"}),
        ([], {"engine.choose": "vllm"}),
        (["engine.extends=speculative-ngram"], {"engine.speculative.tokens": 2, BUDGET: 1024}),
        ([], {}),
    ],
)
def test_the_engines_file_gives_the_engine_that_was_confirmed(
    tmp_path: Path, engine: list[str], settings: dict[str, Any]
) -> None:
    done = searched(tmp_path / "study.db", trials=8, first_share=1.0)
    confirmation = Confirmation(
        trial=3,
        rounds=2,
        sides=[
            Side(name="winner", values=[2.0, 2.1], figures=[{}, {}], run_ids=["a", "b"], reasons=[None, None]),
            Side(name="plan", values=[1.0, 1.0], figures=[{}, {}], run_ids=["c", "d"], reasons=[None, None]),
        ],
        against=[Against(name="plan", rounds=2, ratio=2.05, lo=1.9, hi=2.2, verdict="better")],
    )
    found = tuned(done, run_id="20261101T000000-abcdef", name="t", ended="trials", confirmation=confirmation)
    asked = load_experiment("quickstart", overrides=[*engine, *overrides(settings)])
    path = tmp_path / "engine.yaml"
    write_engine_yaml(path, engine_yaml(found, engine=asked.engine, experiment="quickstart"))
    again = load_experiment("quickstart", overrides=[f"engine={json.dumps(str(path))}"])
    assert again.engine == asked.engine
    text = path.read_text("utf-8")
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert "20261101T000000-abcdef" in comments[0] and found.answer in comments[1]
    assert "Confirmed against the plan: 2.050 [1.900, 2.200] times as good, over 2 rounds." in comments[-1]
    assert "extends: vllm" in text.splitlines()


def test_the_tables_say_what_was_found(tmp_path: Path) -> None:
    done = searched(tmp_path / "study.db", trials=8, first_share=1.0)
    found = tuned(done, run_id="r", name="t", ended="trials", confirmation=None)
    rows = trial_table(found)
    assert [row["settings"] for row in rows[:2]] == ["the plan", "vLLM's defaults"]
    assert rows[1]["state"] == "infeasible: out_of_memory" and rows[1]["value"] == "–"
    assert [row["trial"] for row in rows if "winner" in row[""]] == [str(found.winner)]
    assert confirmation_table(found) == []
