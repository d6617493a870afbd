"""Which file a value came from, when several files and the command line made one block together."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from schemas.errors import Problem
from tasks.config.explain import findings
from tasks.config.locate import Place
from tasks.config.yaml_file import KeyPath, YamlFile, dotted

ModelT = TypeVar("ModelT", bound=BaseModel)


@dataclass(frozen=True)
class Layer:
    """One origin of a block's values. `file` None: the command line. `prefix`: where in the file the block stands."""

    data: Any
    file: YamlFile | None
    prefix: KeyPath = ()

    def inside(self, key: str) -> "Layer":
        """The layer of one of its keys."""
        inner = self.data.get(key) if isinstance(self.data, dict) else None
        return Layer(inner, self.file, (*self.prefix, key))

    @property
    def base(self) -> Path:
        """The folder that relative names and paths in it start from."""
        return Path() if self.file is None else self.file.path.parent


@dataclass(frozen=True)
class Layers:
    """The origins of one block, the one that wins first."""

    layers: Sequence[Layer]

    def origin(self, keypath: Sequence[str | int]) -> Layer:
        """The layer that holds the key, or most of the path to it; a file before a command line that holds no more."""

        def rank(layer: Layer) -> tuple[int, bool]:
            depth = _depth(layer.data, keypath)
            return depth, depth == len(keypath) or layer.file is not None

        return max(self.layers, key=rank)

    @property
    def home(self) -> Path:
        """The folder of the file that names in the block are looked for beside."""
        return next((layer.base for layer in self.layers if layer.file is not None), Path())

    def place(self, keypath: Sequence[str | int]) -> Place:
        """Where a user finds the key."""
        layer = self.origin(keypath)
        key = dotted((*layer.prefix, *keypath))
        if layer.file is None:
            return Place(key=f"--set {key}")
        return Place(file=layer.file.path, line=layer.file.line_of((*layer.prefix, *keypath)), key=key or None)

    def problem(self, keypath: Sequence[str | int], message: str, suggestion: str | None = None) -> Problem:
        """A fault at this key."""
        at = self.place(keypath)
        return Problem(message=message, file=at.file, line=at.line, key=at.key, suggestion=suggestion)

    def validated(self, model: type[ModelT], data: Any, problems: list[Problem]) -> ModelT | None:
        """`data` as a model; None, with every fault added to `problems`, where it is none."""
        try:
            return model.model_validate(data, strict=True)
        except ValidationError as error:
            for finding in findings(error, model=model, data=data):
                problems.append(self.problem(finding.keypath, finding.message, finding.suggestion))
            return None


def _depth(data: Any, keypath: Sequence[str | int]) -> int:
    if data is None:
        return -1
    for depth, part in enumerate(keypath):
        inside = part in data if isinstance(data, dict) else isinstance(data, list) and part in range(len(data))
        if not inside:
            return depth
        data = data[part]
    return len(keypath)
