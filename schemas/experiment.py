"""An experiment: as a user writes it, and as it runs once every name is resolved."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from schemas.base import Config
from schemas.dataset import Dataset, NamedDataset
from schemas.engine import Sampling, VllmEngine
from schemas.model import Model

Arm = Literal["free", "guided"]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class DatasetUse(Config):
    """A dataset by name or path, with what this experiment changes of it."""

    use: str
    """The dataset's name in configs/datasets, or the path of its YAML file."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """The most samples of it, its first ones."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """The most tokens an answer may have, in place of the dataset's own number."""


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
    datasets: Annotated[list[str | DatasetUse], Field(min_length=1)]
    """Names in configs/datasets or paths of YAML files, each once."""
    arms: Annotated[list[Arm], Field(min_length=1)] = Field(default=["free"])
    """`free`: the samples as they are; `guided`: the same samples with each dataset's grammar."""
    sampling: Sampling = Sampling()
    max_failed: Annotated[float, Field(ge=0, le=1)] = 0.05
    """The share of requests that may fail before the run counts as failed."""
    tags: dict[str, str] = Field(default_factory=dict)
    """Recorded with the run and in MLflow, to find it again."""

    @field_validator("arms", "datasets")
    @classmethod
    def _once(cls, value: list[Any]) -> list[Any]:
        names = [item.use if isinstance(item, DatasetUse) else item for item in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{', '.join(twice)} stands here twice")
        return value


class NamedModel(Config):
    """A model as one run uses it; paths inside it are absolute."""

    name: str
    config: Model


class Experiment(Config):
    """A run's whole config: every name resolved, every default written out."""

    name: Name
    description: str | None = None
    model: NamedModel
    engine: VllmEngine
    datasets: list[NamedDataset]
    arms: list[Arm]
    max_failed: float
    tags: dict[str, str]


__all__ = ["Arm", "Dataset", "DatasetUse", "Experiment", "ExperimentFile", "NamedDataset", "NamedModel"]
