"""steps and engine.*: numbers over restarts and sessions, sums over all steps, and what is not there."""

import dataclasses
import datetime
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from schemas.metric import Aggregate
from tasks.engine.protocol import Steps, WireGraphUse, WireStep, WireTotals
from tasks.record.steps import StepRecorder, StepTotals, engine_metrics
from warehouse.parquet import read_rows, write_rows

RUN = "20261128T220355-7b01de"
START = datetime.datetime(2026, 11, 28, tzinfo=datetime.UTC)


def told(*numbers: int, source: int = 1, stands_for: int = 1, **totals: Any) -> Steps:
    steps = [
        WireStep(step=n, stands_for=stands_for, ended_at=float(n), running=2, prompt_tokens=0, decode_tokens=2)
        for n in numbers
    ]
    known = {"steps": len(numbers) * stands_for, "counted": len(numbers), "decode_tokens": 2 * len(numbers)} | totals
    return Steps(source=source, steps=steps, totals=WireTotals(**known))


class Session:
    """One session of a run that writes to a home."""

    def __init__(self, home: Path, *, revision: int = 0, arms: tuple[str, ...] = ("free", "guided")) -> None:
        self._parts = iter(range(100))
        self._home, self._revision = home, revision
        run = SimpleNamespace(home=home, run_id=RUN, resumed=revision > 0)
        self.recorder = StepRecorder(run=run, arms=arms, write=self.write, utc=self.utc)  # type: ignore[arg-type]

    def write(self, table: str, rows: Any) -> None:
        if rows:
            part = f"{self._revision}-{next(self._parts)}"
            write_rows(home=self._home, table=table, run_id=RUN, rows=rows, part=part, revision=self._revision)

    @staticmethod
    def utc(moment: float | None) -> datetime.datetime | None:
        return None if moment is None else START + datetime.timedelta(seconds=moment)


def rows(home: Path) -> list[dict[str, Any]]:
    return sorted(read_rows(home, "steps", RUN), key=lambda row: row["step"])


def metrics(home: Path) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in read_rows(home, "metrics", RUN, parse_json=True)}


def test_an_engine_that_is_started_again_goes_on_counting(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.recorder.take([told(0, 1), told(2)], engine_id="e")
    session.recorder.take([told(0, 1, source=2)], engine_id="e")
    session.recorder.take([told(0, source=3)], engine_id="smaller")
    session.recorder.end()
    assert [(row["engine_id"], row["step"]) for row in rows(tmp_path) if row["engine_id"] == "e"] == [
        ("e", n) for n in range(5)
    ]
    assert metrics(tmp_path)["engine.steps"]["details"]["engine_id"] == "smaller", "of the last engine"


def test_copies_number_their_steps_in_turns_and_none_is_lost(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.recorder.take([told(0, 2, 4), told(1, 3), told(6), told(5)], engine_id="e")
    assert [row["step"] for row in rows(tmp_path)] == list(range(7))


def test_another_session_adds_to_the_one_before(tmp_path: Path) -> None:
    graphs = [WireGraphUse(mode="full", size=8, steps=2, tokens=12, padded_tokens=4)]
    first = Session(tmp_path)
    first.recorder.take([told(0, 1, graphs=graphs, prompt_steps={1: 3}, preempted=1, kv_usage_max=0.5)], engine_id="e")
    first.recorder.take([told(2000, stands_for=10)], engine_id="e")
    first.recorder.end()
    second = Session(tmp_path, revision=1)
    second.recorder.take([told(0, graphs=graphs, prompt_steps={1: 1, 4: 1}, kv_usage_max=0.25)], engine_id="e")
    second.recorder.end()

    assert [row["step"] for row in rows(tmp_path)] == [0, 1, 2000, 2010], "2,000 stood for ten"
    found = metrics(tmp_path)
    assert found["engine.steps"]["value"] == 13
    assert found["engine.preemptions"]["value"] == 1
    assert found["engine.prompts_split"]["value"] == 1
    assert found["engine.prompts_split"]["details"]["prompts_by_steps"] == {"1": 4, "4": 1}
    assert found["engine.graph_share.steps"]["details"]["graphs"] == [
        {"mode": "full", "size": 8, "steps": 4, "tokens": 24, "padded_tokens": 8}
    ]
    assert found["engine.padding_waste"]["value"] == 0.25


def test_a_session_that_was_killed_leaves_its_steps(tmp_path: Path) -> None:
    Session(tmp_path).recorder.take([told(0, 1, 2)], engine_id="e")
    second = Session(tmp_path, revision=1)
    second.recorder.take([told(0)], engine_id="e")
    second.recorder.end()
    assert [row["step"] for row in rows(tmp_path)] == [0, 1, 2, 3]
    assert metrics(tmp_path)["engine.steps"]["value"] == 1, "the totals of the first died with it"


@pytest.mark.parametrize(("arms", "cell"), [(("free",), "e-free-quality"), (("free", "guided"), None)])
def test_a_step_is_of_a_cell_only_where_it_is_of_one(tmp_path: Path, arms: tuple[str, ...], cell: str | None) -> None:
    Session(tmp_path, arms=arms).recorder.take([told(0)], engine_id="e")
    (row,) = rows(tmp_path)
    assert (row["cell_id"], row["ts"], row["kv_usage"], row["graph_mode"]) == (cell, START, None, None)


def values(totals: StepTotals) -> dict[str, Aggregate]:
    return {metric.name: metric for metric in engine_metrics(totals, engine_id="e")}


def test_what_is_not_told_is_not_there() -> None:
    assert engine_metrics(StepTotals(), engine_id="e") == []
    totals = StepTotals()
    totals.add(WireTotals(steps=4))
    assert set(values(totals)) == {"engine.steps"}
    assert json.loads(json.dumps(totals.details())) == totals.details()
    assert dataclasses.asdict(StepTotals.of_details(totals.details())) == dataclasses.asdict(totals)


def test_numbers_that_can_be_counted_by_hand() -> None:
    totals = StepTotals()
    totals.add(
        WireTotals(
            steps=4,
            timed=4,
            timed_ms=100.0,
            counted=4,
            prompt_tokens=90,
            decode_tokens=10,
            kv_read=4,
            kv_usage_sum=1.0,
            kv_usage_max=0.4,
            preempted=0,
            prefix_queries=120,
            prefix_hits=30,
            graphs=[
                WireGraphUse(mode="none", size=None, steps=1, tokens=90, padded_tokens=0),
                WireGraphUse(mode="full", size=4, steps=3, tokens=10, padded_tokens=2),
            ],
            drafts=5,
            draft_tokens=10,
            accepted_tokens=4,
            accepted_by_position=[3, 1],
            drafted_by_position=[5, 5],
            prompt_steps={1: 1, 3: 1},
        )
    )
    found = values(totals)
    assert {name: metric.value for name, metric in found.items()} == {
        "engine.steps": 4,
        "engine.step_ms": 25.0,
        "engine.tokens_per_step": 25.0,
        "engine.kv_usage.mean": 0.25,
        "engine.kv_usage.max": 0.4,
        "engine.preemptions": 0,
        "engine.prefix_hit_rate": 0.25,
        "engine.graph_share.steps": 0.75,
        "engine.graph_share.tokens": 0.1,
        "engine.padding_waste": 2 / 102,
        "engine.prompts_split": 1,
        "engine.prefill_steps.max": 3,
        "engine.spec.draft_tokens": 10,
        "engine.spec.accepted_tokens": 4,
        "engine.spec.mean_length": 1.8,
        "engine.spec.acceptance": 0.4,
    }
    assert found["engine.spec.acceptance"].details["by_position"] == [0.6, 0.2]
    assert found["engine.graph_share.steps"].details["graphs"][0]["mode"] == "full", "full graphs first"
