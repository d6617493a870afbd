"""Which engine each cell needs, found before anything runs, and the order that builds each of them once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import AssayError
from schemas.experiment import Experiment
from schemas.plan import EnginePlan, ModelFacts
from schemas.sample import Sample
from schemas.summary import DatasetsSummary, DatasetSummary
from schemas.sweep import CellSpec, Order
from tasks.config.resolve import load_experiment
from tasks.dataset.stage import add_profiles, render_datasets
from tasks.engine.reuse import engine_group
from tasks.engine.settings import process_settings
from tasks.model.facts import read_model_facts
from tasks.model.resolve import model_folder
from tasks.plan.context import as_overridden
from tasks.plan.device import read_device_facts
from tasks.plan.stage import plan_run, run_requests

_Rendered = tuple[list[Sample], list[DatasetSummary]]


@dataclass(frozen=True, kw_only=True)
class PlannedCell:
    """A cell with the engine that it needs. plan and group are None where no plan can be made; `error` says why, and
    its run will say it again."""

    cell: CellSpec
    experiment: Experiment
    plan: EnginePlan | None
    group: str | None
    error: str | None = None


class Planner:
    """Plans cells as their runs will. What is the same in several, prompts above all, is made once.

    base: the experiment as `load_experiment` takes it; home: ASSAY_HOME; limit: the most samples of each dataset."""

    def __init__(self, *, base: str, home: Path, limit: int | None, on_progress: Callable[[str], None]) -> None:
        self._base = base
        self._home = home
        self._limit = limit
        self._on_progress = on_progress
        self._rendered: dict[str, _Rendered] = {}
        self._models: dict[str, tuple[Path, ModelFacts]] = {}

    def plan(self, cell: CellSpec) -> PlannedCell:
        """Raises ConfigError for a cell whose experiment is not in order."""
        experiment = load_experiment(self._base, overrides=cell.overrides, limit=self._limit)
        try:
            plan, group = self._planned(experiment)
        except AssayError as error:
            return PlannedCell(cell=cell, experiment=experiment, plan=None, group=None, error=str(error))
        return PlannedCell(cell=cell, experiment=experiment, plan=plan, group=group)

    def samples(self, experiment: Experiment) -> dict[str, int]:
        """How many samples each dataset has."""
        folder, facts = self._model(experiment, self._home / "cache")
        _, summaries = self._samples(experiment, as_overridden(facts, experiment.vllm), folder)
        return {summary.dataset: summary.rows_used for summary in summaries}

    def _planned(self, experiment: Experiment) -> tuple[EnginePlan, str]:
        cache = self._home / "cache"
        folder, facts = self._model(experiment, cache)
        model = as_overridden(facts, experiment.vllm)
        samples, summaries = self._samples(experiment, model, folder)
        datasets = add_profiles(DatasetsSummary(datasets=summaries), samples)
        requests = run_requests(experiment, datasets=datasets, samples=samples)
        device = read_device_facts(python=experiment.vllm.python)
        plan = plan_run(experiment, home=self._home, requests=requests, model=model, device=device)
        settings = process_settings(experiment.vllm, device=device, cache=cache)
        return plan, engine_group(plan=plan, model=model, settings=settings)

    def _model(self, experiment: Experiment, cache: Path) -> tuple[Path, ModelFacts]:
        key = experiment.model.model_dump_json()
        if key not in self._models:
            folder = model_folder(experiment.model, cache=cache, on_progress=self._on_progress)
            self._models[key] = folder, read_model_facts(folder, cache=cache)
        return self._models[key]

    def _samples(self, experiment: Experiment, model: ModelFacts, folder: Path) -> _Rendered:
        parts = [experiment.model.model_dump_json(), model.model_dump_json(), repr(experiment.arms)]
        key = "\n".join([*parts, *(dataset.model_dump_json() for dataset in experiment.datasets)])
        if key not in self._rendered:
            self._rendered.clear()  # samples are large, and neighbours in the matrix mostly share them
            self._rendered[key] = render_datasets(experiment, model=model, folder=folder)
        return self._rendered[key]


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One run to make: a cell in a repeat."""

    planned: PlannedCell
    repeat: int
    order_index: int


def turns(cells: Sequence[PlannedCell], *, repeats: int, order: Order) -> list[Turn]:
    """Every run of a sweep, in order. Every second repeat goes through its cells backwards, so that what changes slowly
    in the machine weighs on all of them alike."""
    places = _interleaved(cells, repeats) if order == "interleaved" else _grouped(cells, repeats)
    return [Turn(planned=cell, repeat=repeat, order_index=index) for index, (cell, repeat) in enumerate(places)]


def _interleaved(cells: Sequence[PlannedCell], repeats: int) -> Iterator[tuple[PlannedCell, int]]:
    for repeat in range(repeats):
        for cell in cells if repeat % 2 == 0 else reversed(cells):
            yield cell, repeat


def _grouped(cells: Sequence[PlannedCell], repeats: int) -> Iterator[tuple[PlannedCell, int]]:
    groups: dict[str, list[PlannedCell]] = {}
    for cell in cells:
        groups.setdefault(cell.group or f"alone-{cell.cell.index}", []).append(cell)
    for members in groups.values():
        yield from _interleaved(members, repeats)
