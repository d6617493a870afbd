"""Suites over small local copies of their repositories."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from schemas.dataset import NamedDataset
from schemas.engine import Sampling
from tasks.config.datasets import Datasets
from tasks.config.layers import Layer, Layers

DATA = Path(__file__).parents[2] / "data" / "suites"
SHARED = Path(__file__).parents[4] / "shared" / "data"


def case_of(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text("utf-8"))
    return content


def write_copy(folder: Path, files: dict[str, Any]) -> Path:
    """Files as a hub's repository has them: Parquet, JSON lines (which BFCL's .json are too), JSON, text."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".parquet":
            pyarrow.parquet.write_table(pa.Table.from_pylist(content), path)
        elif isinstance(content, list):
            path.write_text("".join(json.dumps(row) + "\n" for row in content), "utf-8")
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return folder


def used(entry: dict[str, Any]) -> list[NamedDataset]:
    """What an entry of an experiment's `datasets` stands for."""
    datasets = Datasets(Layers([Layer({"datasets": [entry]}, None)]))
    datasets.load([entry], None)
    return datasets.named([entry["use"]], sampling=Sampling(), limit=None)
