"""A tuning's file: read, and every key and value of its space tried on the experiment before anything runs."""

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.engine import VllmEngine
from schemas.errors import ConfigError, Problem
from schemas.tune import Range, TuneFile
from tasks.cells.expand import override
from tasks.config.disk import is_file
from tasks.config.explain import IS_UNKNOWN
from tasks.config.layers import Layer, Layers
from tasks.config.locate import Place, find_config, is_path, relative_to_here
from tasks.config.resolve import load_experiment
from tasks.config.yaml_file import KeyPath, read_yaml
from tasks.tune.space import LONG_FORMS, Space

NOT_TUNED = (
    "adapters",
    "allow_code",
    "choose",
    "compile_cache",
    "extends",
    "failures",
    "kind",
    "python",
    "trace_steps",
)
"""Keys of the engine that are no question of speed, or that would make another engine of it."""
_TRIES = 24
Written = Range | list[Any]


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """A tuning as it runs. base: the experiment as `load_experiment` takes it; path: the tuning's own file."""

    name: str
    base: str
    path: Path
    file: TuneFile


def load_tuning(path: str | Path, *, trials: int | None = None, time_limit_s: float | None = None) -> Tuning:
    """Reads a tuning: a file, or a name in ./configs/tunings or in assay's own. trials, time_limit_s: in place of
    the file's own.

    Raises ConfigError with every fault, at the lines of the file; no model and no data are read for it."""
    yaml = read_yaml(_find(path))
    layers, problems = Layers([Layer(yaml.data, yaml)]), list[Problem]()
    if "tune" not in yaml.data and ("datasets" in yaml.data or "matrix" in yaml.data):
        kind, command = ("a sweep", "sweep") if "matrix" in yaml.data else ("an experiment", "run")
        raise layers.place(()).error(
            f"is {kind}: it has no `tune`", f"`assay {command} {path}`; a tuning names an experiment as its `base`"
        )
    written = layers.validated(TuneFile, yaml.data, problems)
    if written is None:
        raise ConfigError(problems)
    changes = {"trials": trials, "time_limit_s": time_limit_s}
    tune = written.tune.model_copy(update={key: value for key, value in changes.items() if value is not None})
    base = _base(written.base, layers)
    load_experiment(base, limit=tune.limit)
    problems = list(_key_problems(tune.space, layers)) or list(_value_problems(tune.space, base=base, layers=layers))
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    file = written.model_copy(update={"tune": tune})
    return Tuning(name=written.name or yaml.path.stem, base=base, path=yaml.path, file=file)


def overrides(settings: Mapping[str, Any]) -> list[str]:
    """The settings as `--set` takes them."""
    return [override(key, value) for key, value in settings.items()]


def _find(path: str | Path) -> Path:
    reference = str(path)
    if is_path(reference) or is_file(Path(reference)):
        return relative_to_here(Path(reference))
    return find_config("tuning", reference, base=Path(), beside=None, at=Place())


def _base(reference: str, layers: Layers) -> str:
    place, origin = layers.place(("base",)), layers.origin(("base",))
    itself = None if origin.file is None else origin.file.path
    path = find_config("experiment", reference, base=origin.base, beside=origin.base, at=place, not_itself=itself)
    if "base" in read_yaml(path).data:
        raise place.error(f"`{reference}` is no experiment, but is made of one", "name an experiment")
    return str(path)


def _key_problems(space: Mapping[str, Written], layers: Layers) -> Iterator[Problem]:
    """Keys that are not the engine's, or not to be tuned, or that another key contains."""
    for key in space:
        at = ("tune", "space", key)
        head, _, rest = key.partition(".")
        if head != "engine" or not rest:
            message = "is no key of the engine, and a tuning changes nothing else: other work has other times"
            hint = f"did you mean `engine.{key}`?" if _is_engine_key(key) else "such as `engine.max_num_seqs`"
            yield layers.problem(at, message, hint)
        elif rest.split(".")[0] in NOT_TUNED:
            yield layers.problem(at, "is not tuned", "set it in the experiment")
    for one, other in itertools.permutations(space, 2):
        if LONG_FORMS.get(other, other).startswith(f"{one}.") or (LONG_FORMS.get(one) == other):
            yield layers.problem(("tune", "space", other), f"is a part of `{one}`, which is in the space too")


def _is_engine_key(key: str) -> bool:
    return key.partition(".")[0] in VllmEngine.model_fields


def _value_problems(values: Mapping[str, Written], *, base: str, layers: Layers) -> Iterator[Problem]:
    """Each value tried by itself, with what goes with it. A fault of the key or the value is one; a fault that comes of
    the other keys is one only where no setting of the space that was tried is without it."""
    space = Space(values)
    draw = random.Random(0)  # noqa: S311 - tries, not secrets
    for written, each in values.items():
        key = LONG_FORMS.get(written, written)
        for part, value in _tried(each):
            at: KeyPath = ("tune", "space", written, *part)
            faults = _faults(base, space.settings({key: value}))
            own = [fault for fault in faults if _is_of(fault, key)]
            if not own and faults and not _fits_somewhere(space, key, value, base=base, draw=draw):
                own = faults
            for fault in own:
                yield layers.problem(at, fault.message, fault.suggestion)
            if own and own[0].message == IS_UNKNOWN:
                break


def _tried(values: Written) -> Iterator[tuple[KeyPath, Any]]:
    if isinstance(values, Range):
        yield ("low",), values.low
        yield ("high",), values.high
    else:
        for index, value in enumerate(values):
            yield (index,), value


def _faults(base: str, settings: Mapping[str, Any]) -> list[Problem]:
    try:
        load_experiment(base, overrides=overrides(settings))
    except ConfigError as error:
        return error.problems
    return []


def _is_of(fault: Problem, key: str) -> bool:
    """Whether a fault is that of the key itself, or of a block above it that does not exist."""
    told = (fault.key or "").removeprefix("--set ")
    if told == key or told.startswith((f"{key}.", f"{key}[")):
        return True
    return fault.message == IS_UNKNOWN and key.startswith(f"{told}.")


def _fits_somewhere(space: Space, key: str, value: Any, *, base: str, draw: random.Random) -> bool:
    for _ in range(_TRIES):
        params = space.any(draw)
        if key in params and not _faults(base, space.settings({**params, key: value})):
            return True
    return False
