"""An experiment: as a user writes it, and as it runs once every name is resolved."""

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from schemas.arm import REPAIR, Arm, NamedArm, Repair, arm_faults, arm_name, gets_grammar, is_scored
from schemas.base import Config
from schemas.benchmark import Benchmark
from schemas.dataset import Dataset, NamedDataset
from schemas.endpoint import EndpointEngine
from schemas.engine import Grammar, Preflight, Sampling, VllmEngine
from schemas.errors import ConfigError
from schemas.faults import Fault as GroupFault
from schemas.faults import nearest
from schemas.gate import Gate, Known, gate_faults
from schemas.gate_points import gate_points
from schemas.model import Model
from schemas.source import DatasetSource

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
_GROUP_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
"""Without a dot, so that `<group>.<metric>` comes apart in one way."""


class DatasetUse(Config):
    """A dataset by name or path, with what this experiment changes of it."""

    use: str
    """A name in configs/datasets, a suite of configs/suites or one of its datasets, or the path of a YAML file."""
    source: DatasetSource | None = None
    """Other rows in place of the dataset's own, with the same columns; paths start from the experiment's folder."""
    few_shot_source: DatasetSource | None = None
    """Other rows for its few-shot examples."""
    folder: str | None = None
    """A local copy of the hub repository, or the folder that a suite's own files lie in: read in place of the hub."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """The most samples of it, its first ones."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """The most tokens an answer may have, in place of the dataset's own number."""
    adapter: str | None = None
    """The LoRA adapter that answers, in place of the dataset's own; `none`: the model itself. An arm's own goes before
    it."""


class Group(Config):
    """Several datasets whose metric is one number too: a row of `metrics` with the scope `group`."""

    datasets: Annotated[list[str], Field(min_length=1)]
    """Names of the experiment's datasets; `*` stands for any letters, as in `mmlu_*`."""
    metric: str
    """The metric that is averaged; each of the datasets has it."""
    weight: Literal["equal", "size"] = "equal"
    """`equal`: the mean of the datasets' values (macro); `size`: the mean over all their scored samples."""

    def members(self, names: Iterable[str]) -> list[str]:
        """Those of the names that are in the group, in their order."""
        return [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in self.datasets)]


class ExperimentFile(Config):
    """The YAML file that `assay run` takes. Names resolve beside it, in ./configs, then in the package."""

    name: Name
    """What the runs are called, in every list and in MLflow's experiment."""
    description: str | None = None
    """Recorded with the run, for the reader."""
    model: str | Model
    """A name in configs/models, the path of a YAML file or of a model folder, a hub id, or the model written out."""
    engine: dict[str, Any] | str = "vllm"
    """A name in configs/engines, or a block: `extends` names the file it starts from, the rest changes it."""
    datasets: list[str | DatasetUse]
    """Names in configs/datasets or configs/suites, or paths of YAML files, each once. Empty only where a benchmark
    brings its own prompts."""
    arms: Annotated[list[Arm], Field(min_length=1)] = Field(default=["free"])
    """`free`: the samples as they are; `guided`: the same samples with each dataset's grammar; `free_matched`: free
    again, each answer made as long as its guided one, which tells what the grammar costs; `repair`: free, and guided
    where that is not valid; `{name: tuned, like: free, adapter: legal}`: like one of the first two with a LoRA adapter,
    under a name of its own."""
    repair: Repair = Repair()
    """How the arm `repair` goes on."""
    groups: dict[str, Group] = Field(default_factory=dict)
    """Means over several datasets, by the names they get: `mmlu: {datasets: [mmlu_*], metric: acc, weight: size}`."""
    benchmark: Benchmark | None = None
    """Load that is put on the engine once everything is answered, and measured."""
    gates: list[Gate] = Field(default_factory=list)
    """What must hold for the run to count as good; where a gate fails, the exit code is 3."""
    sampling: Sampling = Sampling()
    max_failed: Annotated[float, Field(ge=0, le=1)] = 0.05
    """The share of requests that may fail before the run counts as failed."""
    tags: dict[str, str] = Field(default_factory=dict)
    """Recorded with the run and in MLflow, to find it again."""

    @field_validator("groups")
    @classmethod
    def _named(cls, value: dict[str, Group]) -> dict[str, Group]:
        for name in value:
            if re.fullmatch(_GROUP_NAME, name) is None:
                raise ValueError(f"`{name!s:.60}` is no group's name: letters, digits, `_` and `-`, 64 at most")
        return value

    @model_validator(mode="after")
    def _something_to_ask(self) -> "ExperimentFile":
        if not self.datasets and (self.benchmark is None or not self.benchmark.brings_prompts):
            raise ValueError("`datasets` must have at least one entry, or `benchmark` bring its own prompts")
        return self

    @field_validator("arms", "datasets")
    @classmethod
    def _once(cls, value: list[Any]) -> list[Any]:
        names = [_name_of(item) for item in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{', '.join(twice)} stands here twice")
        return value


def _name_of(item: str | DatasetUse | NamedArm) -> str:
    if isinstance(item, DatasetUse):
        return item.use
    return item.name if isinstance(item, NamedArm) else item


class NamedModel(Config):
    """A model as one run uses it; paths inside it are absolute."""

    name: str
    config: Model


class Experiment(Config):
    """A run's whole config: every name resolved, every default written out. Raises ConfigError for groups and gates
    that do not fit the rest."""

    name: Name
    description: str | None = None
    model: NamedModel
    engine: Annotated[VllmEngine | EndpointEngine, Field(discriminator="kind")]
    datasets: list[NamedDataset]
    arms: list[Arm]
    repair: Repair = Repair()
    groups: dict[str, Group] = Field(default_factory=dict)
    benchmark: Benchmark | None = None
    gates: list[Gate] = Field(default_factory=list)
    max_failed: float
    tags: dict[str, str]

    @property
    def vllm(self) -> VllmEngine:
        """The engine's own settings; of a server, which has its own, those of one that is left as it is."""
        return self.engine if isinstance(self.engine, VllmEngine) else stand_in(self.engine)

    @property
    def endpoint(self) -> EndpointEngine | None:
        """The server that answers; None where assay's own engine does."""
        return self.engine if isinstance(self.engine, EndpointEngine) else None

    @model_validator(mode="after")
    def _groups_fit(self) -> "Experiment":
        faults = [*arm_faults(self.arms), *repair_faults(self.repair, arms=self.arms, datasets=self.datasets)]
        faults += group_faults(self.groups, datasets=self.datasets)
        faults += gate_faults(
            self.gates,
            known=known_of(datasets=self.datasets, groups=self.groups, arms=self.arms, benchmark=self.benchmark),
        )
        if faults:
            raise ConfigError([fault.problem() for fault in faults])
        return self


def stand_in(endpoint: EndpointEngine) -> VllmEngine:
    """What of an engine can be said of a server beforehand: the backend of its grammars, which nobody compiles here."""
    return VllmEngine(grammar=Grammar(backend=endpoint.grammar_backend, preflight=Preflight(enabled=False)))


def repair_faults(repair: Repair, *, arms: Sequence[Arm], datasets: Sequence[NamedDataset]) -> list[GroupFault]:
    """Retries of the arm `repair` that would be copies of the first."""
    greedy = [each.name for each in datasets if each.config.guide is not None and each.sampling.temperature == 0]
    if REPAIR not in arms or repair.retries == 1 or repair.temperature is not None or not greedy:
        return []
    return [
        GroupFault(
            keypath=("repair", "retries"),
            message=f"with `temperature: 0` a second retry is the first one again ({', '.join(greedy)})",
            suggestion="set `repair.temperature`, which the second retry and those after it are drawn with",
        )
    ]


def known_of(
    *,
    datasets: Sequence[NamedDataset],
    groups: Mapping[str, Group],
    arms: Sequence[Arm],
    benchmark: Benchmark | None = None,
) -> Known:
    """What the gates of an experiment can name."""
    return Known(
        metrics={dataset.name: [use.name for use in dataset.config.metrics] for dataset in datasets},
        groups={name: group.metric for name, group in groups.items()},
        guided=frozenset(dataset.name for dataset in datasets if dataset.config.guide is not None),
        arms=[arm_name(arm) for arm in arms if is_scored(arm)],
        guided_arms=frozenset(arm_name(arm) for arm in arms if gets_grammar(arm)),
        points=gate_points(benchmark, arms=arms),
        has_slo=benchmark is not None and bool(benchmark.slo.asked),
    )


def group_faults(groups: Mapping[str, Group], *, datasets: Sequence[NamedDataset]) -> list[GroupFault]:
    """Every fault of the groups: a name that a dataset has, a pattern that no dataset fits, a metric that one of the
    datasets lacks. Each with the nearest right name."""
    metrics = {dataset.name: [use.name for use in dataset.config.metrics] for dataset in datasets}
    return [fault for name, group in groups.items() for fault in _faults(name, group, metrics=metrics)]


def _faults(name: str, group: Group, *, metrics: Mapping[str, list[str]]) -> Iterable[GroupFault]:
    here = ("groups", name)
    if name in metrics:
        yield GroupFault(
            keypath=here, message=f"`{name}` is the name of a dataset: its numbers have it already", suggestion=None
        )
    for index, pattern in enumerate(group.datasets):
        if not fnmatch.filter(metrics, pattern):
            yield GroupFault(
                keypath=(*here, "datasets", index),
                message=f"the experiment has no dataset `{pattern}`",
                suggestion=nearest(pattern, metrics),
            )
    lacking = [member for member in group.members(metrics) if group.metric not in metrics[member]]
    if lacking:
        known = sorted({metric for member in group.members(metrics) for metric in metrics[member]})
        has = "has" if len(lacking) == 1 else "have"
        yield GroupFault(
            keypath=(*here, "metric"),
            message=f"{', '.join(f'`{member}`' for member in lacking)} {has} no metric `{group.metric}`",
            suggestion=None if group.metric in known else nearest(group.metric, known),
        )


__all__ = [
    "Arm",
    "Dataset",
    "DatasetUse",
    "Experiment",
    "ExperimentFile",
    "Gate",
    "Group",
    "GroupFault",
    "NamedArm",
    "NamedDataset",
    "NamedModel",
    "Repair",
    "gate_faults",
    "group_faults",
    "known_of",
    "repair_faults",
]
