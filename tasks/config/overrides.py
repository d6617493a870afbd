"""`--set key=value`: changes of single keys of an experiment, from the command line."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from schemas.errors import ConfigError, Problem
from schemas.experiment import ExperimentFile
from tasks.config.explain import IS_UNKNOWN, key_hint, known_keys
from tasks.config.nearest import did_you_mean_or_list
from tasks.config.yaml_file import KeyPath, parse_value

SHORT_FORMS: dict[KeyPath, str] = {("engine",): "extends", ("engine", "cudagraph"): "mode"}
"""Blocks that may also be written as one word, and the key that the word stands for."""


DEFAULT_ENGINE = "vllm"


@dataclass
class Overridden:
    """An experiment's data with the overrides in it.

    written: the overrides alone, as nested dicts (list entries under their index), to tell where a fault comes from.
    model: what they change of a model that the experiment only names.
    """

    data: dict[str, Any]
    written: dict[Any, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)


def apply_overrides(data: dict[str, Any], overrides: Sequence[str]) -> Overridden:
    """A copy of an experiment's data with each `key=value` in it.

    Raises ConfigError with every override that cannot be.
    """
    result = Overridden(data=copied(data))
    problems: list[Problem] = []
    for text in overrides:
        try:
            _apply(result, text)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return result


def copied(value: Any) -> Any:
    """A deep copy of plain data, in which nothing is shared any more."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    return value


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`base` with `changes` in it: blocks merge key by key, anything else replaces what was there."""
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        result[key] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


def _apply(result: Overridden, text: str) -> None:
    key, sign, raw = text.partition("=")
    key = key.strip()
    parts = key.split(".")
    if not sign or not all(parts):
        raise _error(text, "must be written key=value, with dots between nested keys")
    try:
        value = parse_value(raw)
    except ConfigError as error:
        raise _error(key, f"{raw!r} is not a YAML value: {error.problems[0].message}") from error
    if parts[0] not in known_keys(ExperimentFile):
        raise _error(key, IS_UNKNOWN, key_hint(parts[0], ExperimentFile))
    if parts[0] == "model" and len(parts) > 1 and isinstance(result.data.get("model"), str):
        _put(result.model, parts[1:], value, key, ("model",))
    else:
        path = _with_index(result.data, parts, key)
        _put(result.data, path, value, key, ())
        parts = path
    _note(result.written, parts, value)


def _error(key: str, message: str, suggestion: str | None = None) -> ConfigError:
    return ConfigError.one(message, key=f"--set {key}", suggestion=suggestion)


def _with_index(data: dict[str, Any], parts: list[str], key: str) -> list[Any]:
    """`datasets.needle.limit` with the entry's index in the list instead of the dataset's name."""
    if parts[0] != "datasets" or len(parts) == 1:
        return list(parts)
    entries = data.get("datasets")
    if not isinstance(entries, list):
        raise _error(key, "the experiment has no list of datasets")
    names = [entry_name(entry) for entry in entries]
    if len(parts) < 3:
        raise _error(key, "must go on to a key of that dataset", f"as in datasets.{parts[1]}.limit=4")
    # a name may have dots of its own: the longest one that is there is meant
    for length in range(len(parts) - 2, 0, -1):
        name = ".".join(parts[1 : 1 + length])
        if name in names:
            return ["datasets", names.index(name), *parts[1 + length :]]
    known = [name for name in names if name is not None]
    raise _error(key, f"this experiment has no dataset `{parts[1]}`", did_you_mean_or_list(parts[1], known))


def entry_name(entry: Any) -> str | None:
    """The name of the dataset that an entry of `datasets` uses; None where the entry is not in order."""
    use = entry.get("use") if isinstance(entry, dict) else entry
    if not isinstance(use, str):
        return None
    return PurePath(use).stem if use.endswith((".yaml", ".yml")) else use


def _put(data: Any, path: Sequence[Any], value: Any, key: str, above: KeyPath) -> None:
    """Sets one key, opening blocks on the way; a word that is short for a block becomes that block."""
    for depth, part in enumerate(path[:-1]):
        here = (*above, *path[: depth + 1])
        if isinstance(data, list) and not isinstance(part, int):
            raise _error(key, "a list is set as a whole")
        inner = data[part] if isinstance(part, int) else data.get(part)
        if inner is None:
            inner = {"extends": DEFAULT_ENGINE} if here == ("engine",) else {}
        inner = _long_form(inner, here)
        if not isinstance(inner, dict | list):
            raise _error(key, f"`{'.'.join(map(str, here))}` is a single value and has no keys")
        data[part] = inner
        data = inner
    if not isinstance(data, dict):
        raise _error(key, "a list is set as a whole")
    data[path[-1]] = value


def _long_form(value: Any, here: KeyPath) -> Any:
    """A word that is short for a block, written out as that block."""
    if not isinstance(value, str):
        return value
    if here in SHORT_FORMS:
        return {SHORT_FORMS[here]: value}
    return {"use": value} if here[0] == "datasets" and len(here) == 2 else value


def _note(written: dict[Any, Any], path: Sequence[Any], value: Any) -> None:
    for depth, part in enumerate(path[:-1]):
        inner = _long_form(written.get(part), tuple(path[: depth + 1]))
        if isinstance(inner, list):
            inner = dict(enumerate(inner))
        written[part] = inner if isinstance(inner, dict) else {}
        written = written[part]
    written[path[-1]] = value
