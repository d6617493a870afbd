"""The settings of a tuning become cells here: planned, run, and what their runs say given back to the search."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.cells import CellRunner
from flows.console import RunConsole
from schemas.errors import AssayError, ConfigError
from schemas.plan import EnginePlan
from schemas.sweep import CellResult, CellSpec
from schemas.tune import REFERENCES, SideName, Trial, Tune
from tasks.cells.expand import cells_of
from tasks.cells.group import PlannedCell, Planner, Turn
from tasks.cells.record import CellsRecord, result_of
from tasks.config.document import config_hash
from tasks.tune.cells import CONFIRM, engine_key, outcome_of, pinned, side_cell, trial_cell, values_of
from tasks.tune.objective import Objective
from tasks.tune.outcome import Infeasible, Outcome, Reference
from tasks.tune.rows import trial_rows
from tasks.tune.space import Space, key_of
from warehouse.parquet import read_rows

_SETTINGS: Mapping[str, Mapping[str, Any]] = {"plan": {}, "vllm": {"engine.choose": "vllm"}}


@dataclass(frozen=True, kw_only=True)
class Start:
    """What a search starts from. samples: of the largest dataset in a trial; experiment: the hash of the experiment;
    name: what it is called."""

    references: list[Reference]
    samples: int
    experiment: str
    name: str


class Tuner:
    """Plans and runs the cells of one tuning. base: the experiment as `load_experiment` takes it."""

    def __init__(self, *, base: str, tune: Tune, home: Path, console: RunConsole) -> None:
        self.results: dict[tuple[int, int], CellResult] = {}
        self.record: CellsRecord | None = None
        self.runner: CellRunner | None = None
        self._tune = tune
        self._home = home
        self._base = base
        self._console = console
        self._planners: dict[int | None, Planner] = {}
        self._trial: Trial | None = None
        self._plans: dict[str, EnginePlan | str] = {}
        self._objective = Objective(tune)
        self._best: float | None = None

    def start(self) -> Start:
        """The references with their place in the space. Raises ConfigError where not even the plan can be made."""
        keys = Space(self._tune.space).keys
        references, experiments = list[Reference](), []
        for name in REFERENCES:
            settings = dict(_SETTINGS[name])
            [cell] = cells_of([settings])
            planned = self._planner(None).plan(cell)
            if planned.plan is None:
                raise ConfigError.one(planned.error or "the engine cannot be planned")
            values = values_of(keys, engine=planned.experiment.vllm, plan=planned.plan, reference=name)
            references.append(Reference(name=name, settings=settings, values=values))
            experiments.append(planned.experiment)
        own = experiments[0]
        most = max(self._planner(None).samples(own).values())
        limit = self._tune.limit
        samples = most if limit is None else min(limit, most)
        return Start(references=references, samples=samples, experiment=config_hash(own), name=own.name)

    def use(self, record: CellsRecord, runner: CellRunner) -> None:
        """Who records, and who runs. What an earlier session ran is known then."""
        self.record, self.runner = record, runner

    def known(self, record: CellsRecord) -> None:
        """Takes over what an earlier session of this tuning ran."""
        for row in read_rows(self._home, "sweep_cells", record.run_id, parse_json=True):
            spec = CellSpec(
                index=row["cell_index"], name=row["name"], settings=row["settings"], overrides=[], role=row["role"]
            )
            self.results[row["cell_index"], row["repeat"]] = result_of(row, spec)

    def identity(self, settings: dict[str, Any]) -> str:
        """What tells two settings apart: the engine that they come to under the full load."""
        plan = self._plan(settings)
        return f"cannot be planned: {key_of(settings)}" if isinstance(plan, str) else engine_key(plan)

    def on_trial(self, trial: Trial) -> None:
        """Notes which trial runs, and says what came of one that is over."""
        self._trial = trial
        if self.record is not None:
            self.record.write("trials", trial_rows([trial]))
        if trial.state == "running":
            return
        if trial.value is not None and trial.state == "measured":
            higher = self._objective.direction == "higher"
            better = self._best is None or (trial.value > self._best) == higher
            self._best = trial.value if better else self._best
            said = f"{trial.value:.4g} {self._objective.in_words()}{', the best so far' if better else ''}"
        else:
            said = f"{trial.state}: {trial.reason}"
        self._console.note(f"trial {trial.number}: {said}")

    def run_trial(self, settings: dict[str, Any], limit: int | None, part: int) -> Outcome:
        """One part of the trial that `on_trial` was last told of."""
        trial = self._trial
        if trial is None:
            raise RuntimeError("no trial has begun")
        plan = self._plan(settings)
        if isinstance(plan, str):
            return Infeasible(why="refused", message=plan.splitlines()[0], seconds=0.0)
        cell = trial_cell(trial, pinned(plan, settings))
        return self._run(cell, limit=limit, repeat=part)

    def run_side(self, winner: Trial, settings: dict[str, Any], side: SideName, index: int) -> Outcome:
        """One side of the confirmation in one round."""
        return self._run(side_cell(winner, side, settings), limit=None, repeat=index)

    def _run(self, cell: CellSpec, *, limit: int | None, repeat: int) -> Outcome:
        if self.runner is None:
            raise RuntimeError("nobody runs cells")
        before = self.results.get((cell.index, repeat))
        if before is None or before.state != "finished":
            order = len(self.results) if before is None else before.order_index
            try:
                planned = self._planner(limit).plan(cell)
            except ConfigError as error:
                return Infeasible(why="refused", message=str(error).splitlines()[0], seconds=0.0)
            if planned.plan is None:
                return Infeasible(why="refused", message=(planned.error or "").splitlines()[0], seconds=0.0)
            before = self._cell(planned, limit=limit, repeat=repeat, order=order, runner=self.runner)
        return outcome_of(self._home, before, slo=self._tune.slo)

    def _cell(
        self, planned: PlannedCell, *, limit: int | None, repeat: int, order: int, runner: CellRunner
    ) -> CellResult:
        part = "" if limit is None else f", {limit} samples a dataset"
        round_ = f", round {repeat + 1}" if planned.cell.index >= CONFIRM else ""
        self._console.title(f"{planned.cell.name}{part}{round_}")
        found = runner.run(Turn(planned=planned, repeat=repeat, order_index=order), limit=limit)
        self.results[planned.cell.index, repeat] = found
        return found

    def _planner(self, limit: int | None) -> Planner:
        if limit not in self._planners:
            self._planners[limit] = Planner(
                base=self._base, home=self._home, limit=limit, on_progress=self._console.warn
            )
        return self._planners[limit]

    def _plan(self, settings: dict[str, Any]) -> EnginePlan | str:
        """The plan under the full load, or why there is none."""
        key = key_of(settings)
        if key not in self._plans:
            try:
                [cell] = cells_of([settings])
                planned = self._planner(None).plan(cell)
                self._plans[key] = planned.plan if planned.plan is not None else planned.error or "cannot be planned"
            except AssayError as error:
                self._plans[key] = str(error)
        return self._plans[key]
