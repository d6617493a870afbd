"""Which of a sweep's runs are made, and how: what an earlier session did is left alone, what it was cut in goes on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from real_runs import result

from flows.cells import CellRunner
from flows.console import RunConsole
from flows.turns import CellsNotFinished, done_before, exit_code, experiments, plan_words, run_turns, waiting
from schemas.errors import ConfigError
from schemas.sweep import CellResult, CellState, SweepResult
from tasks.cells.expand import cells_of
from tasks.cells.group import PlannedCell, Turn, turns
from tasks.cells.record import CellsRecord
from tasks.config.resolve import load_experiment

BASE = "name: small\nmodel: smollm2-135m-instruct\ndatasets: [{use: arithmetic, limit: 3}]\n"
Asked = tuple[int, int, str | None]


@pytest.fixture
def planned(tmp_path: Path) -> list[PlannedCell]:
    file = tmp_path / "small.yaml"
    file.write_text(BASE)
    cells = cells_of([{"engine.max_num_seqs": 4}, {"engine.max_num_seqs": 8}, {"engine.max_num_seqs": 16}])
    return [
        PlannedCell(
            cell=cell,
            experiment=load_experiment(file, overrides=cell.overrides),
            plan=None,
            group=None if cell.index == 2 else f"g{cell.index}",
            error="no" if cell.index == 2 else None,
        )
        for cell in cells
    ]


class Runner:
    """Notes what it is asked to run, and gives the ends that it was told."""

    def __init__(self, ends: Sequence[CellState] = ()) -> None:
        self.asked: list[Asked] = []
        self._ends = list(ends)

    def run(self, turn: Turn, *, limit: int | None, resume: str | None) -> CellResult:
        assert limit == 7
        self.asked.append((turn.planned.cell.index, turn.repeat, resume))
        state: CellState = self._ends.pop(0) if self._ends else "finished"
        return result(turn.planned.cell.index, state=state, error=None if state == "finished" else "why\nand where")


def asked(order: Sequence[Turn], *, retry: bool = False, before: Sequence[CellResult] = ()) -> list[Asked]:
    runner = Runner()
    run_turns(
        cast(CellRunner, runner),
        order,
        before={(each.cell.index, each.repeat): each for each in before},
        retry=retry,
        limit=7,
        console=RunConsole(),
    )
    return runner.asked


def test_all_are_run_in_order_whatever_becomes_of_them(
    planned: list[PlannedCell], capsys: pytest.CaptureFixture[str]
) -> None:
    runner = Runner(["finished", "failed", "timeout"])
    order = turns(planned, repeats=1, order="interleaved")
    run_turns(cast(CellRunner, runner), order, before={}, retry=False, limit=7, console=RunConsole())
    assert runner.asked == [(0, 0, None), (1, 0, None), (2, 0, None)]
    said = capsys.readouterr().err
    assert "run 1 of 3: max_num_seqs=4" in said
    assert "run 2 of 3: max_num_seqs=8: failed: why" in said and "and where" not in said
    assert "run 3 of 3: max_num_seqs=16: timeout: why" in said


BEFORE: list[tuple[int, CellState, str | None]] = [(0, "finished", "a"), (1, "failed", "b"), (2, "timeout", "c")]


def test_what_is_over_is_not_run_again(planned: list[PlannedCell]) -> None:
    order = turns(planned, repeats=1, order="grouped")
    before = [result(index, state=state, run_id=run_id) for index, state, run_id in BEFORE]
    assert asked(order, before=before) == []
    assert asked(order, before=before, retry=True) == [(1, 0, None), (2, 0, None)]  # anew, not with their answers


@pytest.mark.parametrize("state", ["running", "cancelled"])
def test_what_was_cut_goes_on_with_its_own_run(planned: list[PlannedCell], state: CellState) -> None:
    order = turns(planned, repeats=1, order="grouped")
    before = [result(0, state=state, run_id="a"), result(1, state=state), result(2, state="waiting")]
    for retry in (False, True):
        assert asked(order, before=before, retry=retry) == [(0, 0, "a"), (1, 0, None), (2, 0, None)]


def test_each_repeat_has_a_state_of_its_own(planned: list[PlannedCell]) -> None:
    order = turns(planned[:2], repeats=2, order="interleaved")
    before = [result(0, run_id="a"), result(1, repeat=1, state="running", run_id="b")]
    assert asked(order, before=before) == [(1, 0, None), (1, 1, "b"), (0, 1, None)]


def test_only_what_was_never_written_is_written_as_waiting(planned: list[PlannedCell]) -> None:
    order = turns(planned, repeats=2, order="grouped")
    before = {(0, 0): result(0), (0, 1): result(0, repeat=1, state="running")}
    found = waiting(order, before=before)
    assert [(each.cell.index, each.repeat) for each in found] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert {each.state for each in found} == {"waiting"} and found[0].engine_group == "g1"


def test_an_experiment_that_is_another_one_now_is_refused(planned: list[PlannedCell], tmp_path: Path) -> None:
    def a_record(planned: list[PlannedCell]) -> CellsRecord:
        return CellsRecord(
            home=tmp_path / "home",
            run_id="20261128T150000-aaaaaa",
            flow="sweep",
            name="mine",
            config={"experiments": experiments(planned)},
            tags={},
            prefect_flow_run_id=None,
        )

    cells: Any = [each.cell for each in planned]
    first = a_record(planned)
    assert done_before(tmp_path / "home", first, flow="sweep", cells=cells, planned=planned, base="small.yaml") == {}
    first.begin()
    first.cells([result(0), result(1, state="running", run_id="b")])
    found = done_before(
        tmp_path / "home", a_record(planned), flow="sweep", cells=cells, planned=planned, base="small.yaml"
    )
    assert {place: each.state for place, each in found.items()} == {(0, 0): "finished", (1, 0): "running"}
    changed = [*planned[:2], PlannedCell(cell=cells[2], experiment=planned[0].experiment, plan=None, group=None)]
    with pytest.raises(ConfigError, match=r"small\.yaml: run .* began with another content of the experiment"):
        done_before(tmp_path / "home", a_record(planned), flow="sweep", cells=cells, planned=changed, base="small.yaml")


def test_how_much_there_is_to_do_in_words(planned: list[PlannedCell]) -> None:
    order = turns(planned, repeats=2, order="grouped")
    assert plan_words(planned, order) == "3 cells, 6 runs on 2 different engines; 1 cannot be planned"
    assert plan_words(planned[:2], order[:4]) == "2 cells, 4 runs on 2 different engines"


def test_the_end_says_which_did_not_finish() -> None:
    states: list[CellState] = ["finished", "failed", "timeout", "cancelled", "failed", "failed"]
    cells = [result(index, state=state) for index, state in enumerate(states)]
    assert exit_code(cells) == 1 and exit_code(cells[:1]) == 0
    whole = SweepResult(run_id="r", name="mine", status="finished", exit_code=1, report=None, cells=cells)
    assert str(CellsNotFinished(whole)) == (
        "5 of 6 runs did not finish: max_num_seqs=1 (failed), max_num_seqs=2 (timeout), max_num_seqs=3 (cancelled) "
        "and 2 more"
    )
