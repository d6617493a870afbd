"""From a sweep's file to its cells: every combination of the matrix, without those excluded, with those included."""

import itertools
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError, Problem
from schemas.sweep import CellRole, CellSpec, Setting, SweepFile
from tasks.config.disk import is_file
from tasks.config.layers import Layer, Layers
from tasks.config.locate import Place, find_config, is_path, relative_to_here
from tasks.config.resolve import load_experiment
from tasks.config.yaml_file import KeyPath, YamlFile, read_yaml

MAX_CELLS = 1000
_MOST_COMBINED = 100 * MAX_CELLS
"""Before exclusions: what is looked at one by one."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A sweep as it runs. base: the experiment as `load_experiment` takes it; path: the sweep's own file."""

    name: str
    base: str
    path: Path
    file: SweepFile
    cells: list[CellSpec]


def load_sweep(path: str | Path, *, limit: int | None = None, overrides: Sequence[str] = ()) -> Sweep:
    """Reads a sweep: a file, or a name in ./configs/sweeps or in assay's own.

    overrides: `key=value` for every cell, below the cell's own. limit: in place of the file's own.
    Raises ConfigError with every fault of the file and of the cells' experiments, at the sweep's own lines; no model
    and no data are read for it."""
    yaml = read_yaml(_find(path))
    layers, problems = Layers([Layer(yaml.data, yaml)]), list[Problem]()
    if "matrix" not in yaml.data and "include" not in yaml.data and ("datasets" in yaml.data or "model" in yaml.data):
        raise layers.place(()).error(
            "is an experiment: it has no `matrix`", f"`assay run {path}`; a sweep names an experiment as its `base`"
        )
    written = layers.validated(SweepFile, yaml.data, problems)
    if written is None:
        raise ConfigError(problems)
    written = written if limit is None else written.model_copy(update={"limit": limit})
    base = _base(written.base, layers)
    settings = _settings(written, layers)
    cells = cells_of(settings, overrides=overrides)
    _check(cells, base=base, limit=written.limit, layers=layers, file=yaml)
    return Sweep(name=written.name or yaml.path.stem, base=base, path=yaml.path, file=written, cells=cells)


def cells_of(
    settings: Iterable[Setting], *, overrides: Sequence[str] = (), roles: Sequence[CellRole] | None = None
) -> list[CellSpec]:
    """The cells of these settings, in their order. Keys are shortened to what still tells them apart."""
    every = list(settings)
    keys = list(dict.fromkeys(key for setting in every for key in setting))
    short = short_keys(keys)
    return [
        CellSpec(
            index=index,
            name=", ".join(f"{short[key]}={said(value)}" for key, value in setting.items()) or "as configured",
            settings=setting,
            overrides=[*overrides, *(override(key, value) for key, value in setting.items())],
            role="cell" if roles is None else roles[index],
        )
        for index, setting in enumerate(every)
    ]


def override(key: str, value: Any) -> str:
    """`key=value` as `--set` takes it: JSON is YAML, and a text stays a text. YAML knows no pairs of surrogates, so a
    character is escaped as a whole."""
    written = json.dumps(value, ensure_ascii=False)
    return f"{key}=" + "".join(each if " " <= each <= "~" else f"\\U{ord(each):08x}" for each in written)


def said(value: Any) -> str:
    """A value as a cell's name has it: as YAML on one line, without quotes."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {said(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(said, value))}]"
    return value if isinstance(value, str) else json.dumps(value)


def short_keys(keys: Sequence[str]) -> dict[str, str]:
    """By key, its last parts: as few as tell it from all others, and two of those inside a block of the engine, where
    one (`mode`, `policy`) says little."""
    found = {}
    for key in keys:
        parts = key.split(".")
        for length in range(min(2, len(parts) - 1) or 1, len(parts) + 1):
            short = ".".join(parts[-length:])
            if all(other == key or f".{other}".endswith(f".{short}") is False for other in keys):
                break
        found[key] = short
    return found


def _settings(file: SweepFile, layers: Layers) -> list[Setting]:
    """Every cell's settings. Raises ConfigError for exclusions that fit nothing, cells that are there twice, none, or
    too many."""
    _within_bounds(file, layers)
    combined = [
        dict(zip(file.matrix, values, strict=True))
        for values in itertools.product(*file.matrix.values())
        if file.matrix
    ]
    problems = []
    for index, pattern in enumerate(file.exclude):
        kept = [setting for setting in combined if not _fits(setting, pattern)]
        if len(kept) == len(combined):
            problems.append(
                layers.problem(
                    ("exclude", index), "fits no cell of the matrix", "use keys and values that the matrix has"
                )
            )
        combined = kept
    for index, extra in enumerate(file.include):
        if extra in combined:
            problems.append(layers.problem(("include", index), "is a cell of the matrix already"))
        else:
            combined.append(dict(extra))
    if not problems and not combined:
        problems.append(layers.problem(("matrix",), "leaves no cell to run", "give at least one key with its values"))
    if len(combined) > MAX_CELLS:
        problems.append(
            layers.problem(
                ("matrix",), f"makes {len(combined):,} cells, more than {MAX_CELLS:,}", "exclude some of them"
            )
        )
    for key, values in file.matrix.items():
        if len({json.dumps(value, sort_keys=True) for value in values}) < len(values):
            problems.append(layers.problem(("matrix", key), "has a value twice"))
    if problems:
        raise ConfigError(problems)
    return combined


def _within_bounds(file: SweepFile, layers: Layers) -> None:
    """Raises ConfigError where the combinations are too many to be looked at, or a key is inside another one."""
    problems = []
    combinations = math.prod(len(values) for values in file.matrix.values())
    if combinations > _MOST_COMBINED:
        problems.append(layers.problem(("matrix",), f"has {combinations:,} combinations", "give fewer keys or values"))
    for places, keys in [
        (("matrix",), file.matrix),
        *((("include", at), each) for at, each in enumerate(file.include)),
    ]:
        for key in keys:
            outer = next((other for other in keys if key.startswith(f"{other}.")), None)
            if outer is not None:
                problems.append(layers.problem((*places, key), f"is inside `{outer}`, which is set here too"))
    if problems:
        raise ConfigError(problems)


def _fits(setting: Setting, pattern: Setting) -> bool:
    return all(key in setting and setting[key] == value for key, value in pattern.items())


def _check(cells: Sequence[CellSpec], *, base: str, limit: int | None, layers: Layers, file: YamlFile) -> None:
    """Every cell's experiment is in order. Each fault once, with the line of the matrix that brings it."""
    faults: dict[Problem, None] = {}
    for cell in cells:
        try:
            load_experiment(base, overrides=cell.overrides, limit=limit)
        except ConfigError as error:
            for problem in error.problems:
                faults[_at_home(problem, cell, layers=layers, file=file)] = None
    if faults:
        raise ConfigError(list(faults))


def _at_home(problem: Problem, cell: CellSpec, *, layers: Layers, file: YamlFile) -> Problem:
    """A fault of a cell's override, at the line that holds its value; any other one as it is."""
    if problem.file is not None or problem.key is None or not problem.key.startswith("--set "):
        return problem
    wrong = problem.key.removeprefix("--set ")
    key = next((each for each in cell.settings if wrong == each or wrong.startswith((f"{each}.", f"{each}["))), None)
    key = key or next((each for each in cell.settings if each.startswith(f"{wrong}.")), None)
    if key is None:
        return problem
    place = layers.place(_keypath(key, cell, file))
    return replace(problem, file=place.file, line=place.line, key=place.key)


def _keypath(key: str, cell: CellSpec, file: YamlFile) -> KeyPath:
    values = (file.data.get("matrix") or {}).get(key, [])
    if cell.settings[key] in values:
        return ("matrix", key, values.index(cell.settings[key]))
    places = [index for index, extra in enumerate(file.data.get("include") or []) if key in extra]
    return ("include", places[0], key) if places else ("matrix", key)


def _base(reference: str, layers: Layers) -> str:
    """The experiment that a sweep is made of, as a path. Raises ConfigError with the nearest name."""
    place, origin = layers.place(("base",)), layers.origin(("base",))
    path = find_config("experiment", reference, base=origin.base, beside=origin.base, at=place)
    if "base" in read_yaml(path).data:
        raise place.error(f"`{reference}` is a sweep itself", "name an experiment")
    return str(path)


def _find(path: str | Path) -> Path:
    reference = str(path)
    if is_path(reference) or is_file(Path(reference)):
        return relative_to_here(Path(reference))
    return find_config("sweep", reference, base=Path(), beside=None, at=Place())
