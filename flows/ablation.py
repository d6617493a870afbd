"""What an ablation is made from: its control, its candidates, how often."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from schemas.errors import ConfigError
from schemas.sweep import CellSpec
from tasks.cells.alternatives import factors
from tasks.cells.expand import cells_of
from tasks.cells.group import Planner
from tasks.config.resolve import load_experiment


class Ablation(BaseModel):
    """What an ablation is made from; the same in every session of it."""

    base: str
    over: list[str]
    rounds: int
    limit: int | None
    overrides: list[str]
    engines_at_once: int
    cell_time_limit_s: float
    cells: list[CellSpec]

    @property
    def name(self) -> str:
        return f"{Path(self.base).stem}-ablation"


def planned_ablation(
    config: str,
    *,
    over: Sequence[str],
    limit: int | None,
    overrides: Sequence[str],
    home: Path,
    on_progress: Callable[[str], None],
    **rest: Any,
) -> Ablation:
    """The control and its candidates. Raises ConfigError for what cannot be varied, or cannot be planned at all."""
    load_experiment(config, overrides=overrides, limit=limit)
    planner = Planner(base=config, home=home, limit=limit, on_progress=on_progress)
    [control] = cells_of([{}], overrides=overrides, roles=["control"])
    as_planned = planner.plan(control)
    if as_planned.plan is None:
        raise ConfigError.one(as_planned.error or "the engine cannot be planned")
    settings = factors(over, engine=as_planned.experiment.vllm, plan=as_planned.plan)
    cells = cells_of([{}, *settings], overrides=overrides, roles=["control", *["candidate"] * len(settings)])
    for cell in cells:
        load_experiment(config, overrides=cell.overrides, limit=limit)
    return Ablation(base=config, over=list(over), limit=limit, overrides=list(overrides), cells=cells, **rest)
