"""Says where a problem of the data or the model lies: the line of its key, in the file that the key was written in."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from schemas.errors import ConfigError, Problem
from tasks.config.disk import is_file
from tasks.config.locate import SUFFIXES, relative_to_here
from tasks.config.yaml_file import KeyPath, YamlFile, dotted, read_yaml

_JSON_BYTES = 1 << 16
"""A JSON file is YAML too, but lines are worth the reading of a small one only."""


@contextlib.contextmanager
def lines_added() -> Iterator[None]:
    """A ConfigError that leaves this block has its files as the user sees them from here, and the lines of its keys."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(with_lines(error.problems)) from error


def with_lines(problems: list[Problem]) -> list[Problem]:
    """The problems, each with the line of its key where its file is YAML or JSON and has the key, or a part of it."""
    files: dict[Path, YamlFile | None] = {}
    return [_with_line(problem, files) for problem in problems]


def _with_line(problem: Problem, files: dict[Path, YamlFile | None]) -> Problem:
    file, key, line = problem.file, problem.key, problem.line
    if file is None:
        return problem
    if key is not None:
        keypath = _keypath(key)
        if line is None:
            if file not in files:
                files[file] = _read(file)
            found = files[file]
            line = None if found is None else found.line_of(keypath)
        key = dotted(keypath)
    return replace(problem, file=relative_to_here(file), key=key, line=line)


def _keypath(key: str) -> KeyPath:
    """The parts of `choices.0` or `choices[0]`."""
    parts = key.replace("[", ".").replace("]", "").split(".")
    return tuple(int(part) if part.isdecimal() else part for part in parts)


def _read(file: Path) -> YamlFile | None:
    """The file with its lines; None where it is of another kind, or is no more what the run began with."""
    small_json = file.suffix == ".json" and is_file(file) and file.stat().st_size <= _JSON_BYTES
    if file.suffix not in SUFFIXES and not small_json:
        return None
    try:
        return read_yaml(file)
    except ConfigError:
        return None
