"""A sweep: one experiment under every combination of some settings, as a user writes it, and what comes of each."""

from typing import Annotated, Any, Literal

from pydantic import Field

from schemas.base import Config
from schemas.experiment import Name

CellState = Literal["waiting", "running", "finished", "failed", "timeout", "cancelled"]
CellRole = Literal["cell", "control", "candidate", "trial", "confirm"]
Order = Literal["grouped", "interleaved"]
Setting = dict[str, Any]
"""Values by dotted key, as in `engine.cudagraph.mode: none`."""


class SweepFile(Config):
    """The YAML file that `assay sweep` takes: an experiment, and what of it changes from cell to cell."""

    name: Name | None = None
    """What the sweep is called; without it, the name of its file."""
    description: str | None = None
    """Recorded with the sweep, for the reader."""
    base: str
    """The experiment: a name in configs/experiments or the path of a YAML file."""
    matrix: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default_factory=dict)
    """Values by dotted key, as in `engine.prefill.policy: [off, auto]`; each combination of them is a cell."""
    include: list[Annotated[Setting, Field(min_length=1)]] = Field(default_factory=list)
    """Further cells, each with settings of its own."""
    exclude: list[Annotated[Setting, Field(min_length=1)]] = Field(default_factory=list)
    """Combinations that are left out: each cell of the matrix that has all the values of one of these."""
    repeats: Annotated[int, Field(ge=1, le=100)] = 1
    """How often each cell runs. With 3 and more there are intervals."""
    order: Order = "grouped"
    """`grouped`: cells that can share an engine run one after another, their repeats in turns, and each engine is built
    once. `interleaved`: every cell once, then every cell again in the opposite order, so that a machine that gets
    slower meets all of them; an engine is then built again for each repeat, unless `engines_at_once` keeps it."""
    engines_at_once: Annotated[int, Field(ge=1, le=64)] = 1
    """How many engines may stand at the same time. Where they are built with `sleep_mode`, those that wait give their
    GPU memory back meanwhile; else all of them must fit together."""
    cell_time_limit_s: Annotated[float, Field(gt=0)] = 3600.0
    """Seconds that a cell may take to start its engine, and again to answer; one that is over them is recorded so, and
    the next one begins."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """The most samples of each dataset."""
    tags: dict[str, str] = Field(default_factory=dict)
    """Recorded with the run of every cell and in MLflow, to find them again."""


class CellSpec(Config):
    """One setting of the experiment."""

    index: int
    """In the order of the matrix, from 0."""
    name: str
    """Its settings in short, such as `cudagraph.mode=none, prefill.policy=auto`; unique in its sweep."""
    settings: Setting
    overrides: list[str]
    """What `assay run --set` would be given for it."""
    role: CellRole = "cell"


class CellResult(Config):
    """What came of one cell in one repeat."""

    cell: CellSpec
    repeat: int
    """From 0."""
    order_index: int
    """The how-many-th run of the sweep it is, from 0."""
    state: CellState
    run_id: str | None = None
    """Its own run; None if it never had one."""
    engine_group: str | None = None
    """Cells of one group can share an engine."""
    built: bool | None = None
    """Whether its run built its engine; False where it took over one that stood."""
    started_at: str | None = None
    """ISO 8601, UTC."""
    seconds: float | None = None
    """Of the whole cell."""
    error: str | None = None


class SweepResult(Config):
    """How a sweep, an ablation or a tuning ended."""

    run_id: str
    name: str
    status: Literal["finished", "failed", "cancelled"]
    exit_code: int
    """0 where every cell finished, 1 where one did not."""
    report: str | None
    cells: list[CellResult]
    warnings: list[str] = Field(default_factory=list)
