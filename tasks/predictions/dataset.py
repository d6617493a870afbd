"""One dataset by itself, without an experiment round it."""

from dataclasses import replace

from schemas.dataset import NamedDataset
from schemas.engine import Sampling
from schemas.errors import ConfigError
from tasks.config.datasets import Datasets
from tasks.config.layers import Layer, Layers

_WRITTEN = "--set datasets[0]"


def load_dataset(reference: str) -> NamedDataset:
    """The dataset of a name, or of a YAML file. Raises ConfigError with every fault of its file."""
    given = Layers([Layer({"datasets": [reference]}, None)])
    datasets = Datasets(given)
    try:
        datasets.load([reference], None)
    except ConfigError as error:
        raise ConfigError([replace(p, key="--dataset") if p.key == _WRITTEN else p for p in error.problems]) from error
    found = datasets.named([reference], sampling=Sampling(), limit=None)
    if len(found) > 1:
        some = ", ".join(each.name for each in found[:3])
        raise ConfigError.one(
            f"`{reference}` is a suite of {len(found)} datasets",
            key="--dataset",
            suggestion=f"name one of them, as {some}",
        )
    return found[0]
