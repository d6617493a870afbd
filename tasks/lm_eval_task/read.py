"""Reads a task's YAML with what it includes, and remembers where each key stands.

As the harness reads it (lm_eval/tasks/_yaml_loader.py): YAML 1.1, includes first, the file's own keys win. A
`!function` is kept as a name: nothing of the harness is run.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq, TaggedScalar
from ruamel.yaml.constructor import RoundTripConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from schemas.errors import ConfigError
from tasks.config.disk import is_file
from tasks.config.yaml_file import MAX_BYTES, MAX_DEPTH, missing_file

_MOST_VALUES = 100_000
"""What all aliases of a file may unfold to."""
_MOST_FILES = 100
"""Files that a task may be made of, one that is included twice counted twice."""


@dataclass(frozen=True)
class Function:
    """A `!function`: Python code beside the YAML, by its name (`utils.process_docs`)."""

    name: str


@dataclass(frozen=True, kw_only=True)
class NotTaken:
    """One thing that the dataset config does not have. key: the task's, dotted; file and line: where it stands, None
    for a default of the harness."""

    key: str
    why: str
    file: Path | None = None
    line: int | None = None

    def __str__(self) -> str:
        where = "" if self.file is None else f"{self.file.name}:{self.line}: " if self.line else f"{self.file.name}: "
        return f"{where}{self.key}: {self.why}"


@dataclass(kw_only=True)
class Task:
    """values: made of dict, list, str, int, float, bool, None and Function. places: file and line of each top key and
    of the keys below it, dotted."""

    file: Path
    values: dict[str, Any]
    places: dict[str, tuple[Path, int]]
    used: set[str] = field(default_factory=set)
    left: list[NotTaken] = field(default_factory=list)

    def get(self, key: str, default: Any = None) -> Any:
        """A top key's value; whoever asks has dealt with it."""
        self.used.add(key)
        value = self.values.get(key)
        return default if value is None else value

    def leave(self, key: str, why: str) -> None:
        """Notes what is not taken, with the line of the key or of its nearest parent."""
        place: tuple[Path, int] | None = None
        parts = key.split(".")
        for length in range(len(parts), 0, -1):
            place = self.places.get(".".join(parts[:length]))
            if place is not None:
                break
        note = NotTaken(key=key, why=why, file=place and place[0], line=place and place[1])
        if note not in self.left:
            self.left.append(note)

    def refused(self, key: str, why: str, *, suggestion: str | None = None) -> ConfigError:
        """The error for a task of which nothing useful can be made."""
        self.leave(key, why)
        note = self.left[-1]
        return ConfigError.one(why, file=note.file or self.file, line=note.line, key=key, suggestion=suggestion)


class _LastKeyCounts(RoundTripConstructor):
    """Of a key that stands in a mapping twice the later one counts, as the harness's loader has it."""

    def check_mapping_key(self, *_: Any, **__: Any) -> bool:
        """Any key is taken."""
        return True


def is_plain(value: Any) -> bool:
    """Whether no Python code stands anywhere in a value."""
    if isinstance(value, dict):
        return all(map(is_plain, value.values()))
    if isinstance(value, list):
        return all(map(is_plain, value))
    return not isinstance(value, Function)


def read_task(path: Path) -> Task:
    """The task of a file. Raises ConfigError: a file that is missing, too large or no YAML, includes in a circle, too
    many of them."""
    values, places = _read(path, above=(), counted=[0])
    return Task(file=path, values=values, places=places)


def _read(
    path: Path, *, above: Sequence[Path], counted: list[int]
) -> tuple[dict[str, Any], dict[str, tuple[Path, int]]]:
    if not is_file(path):
        raise missing_file(path)
    if path.resolve() in above:
        raise ConfigError.one("it includes itself", file=path, key="include")
    counted[0] += 1
    if counted[0] > _MOST_FILES:
        raise ConfigError.one(f"a task is made of {_MOST_FILES} files at most", file=path, key="include")
    loaded = _load(path)
    places: dict[str, tuple[Path, int]] = {}
    own = _plain(loaded, at="", file=path, places=places, counted=[0], depth=0)
    includes = own.pop("include", None)
    values: dict[str, Any] = {}
    merged: dict[str, tuple[Path, int]] = {}
    for name in includes if isinstance(includes, list) else [includes]:
        if name is None:
            continue
        if not isinstance(name, str):
            raise ConfigError.one("a file's name is expected", file=path, line=places["include"][1], key="include")
        below, where = _read(path.parent / name, above=(*above, path.resolve()), counted=counted)
        below.pop("task_list", None)
        values |= below
        merged |= where
    gone = tuple(f"{key}." for key in own)
    merged = {key: place for key, place in merged.items() if not key.startswith(gone)}
    return values | own, merged | places


def _load(path: Path) -> CommentedMap:
    yaml = YAML(typ="rt", pure=True)
    yaml.version = "1.1"  # as the harness's loader: yes and no are true and false
    yaml.Constructor = _LastKeyCounts
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ConfigError.one(f"a task may have {MAX_BYTES:,} bytes at most", file=path)
        loaded = yaml.load(io.StringIO(content.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        raise ConfigError.one("is not UTF-8 text", file=path) from error
    except OSError as error:
        raise ConfigError.one(f"cannot be read: {error.strerror}", file=path) from error
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        raise ConfigError.one(f"not valid YAML: {error.problem or error.context}", file=path, line=line) from error
    except (YAMLError, ValueError, RecursionError) as error:
        raise ConfigError.one(f"not valid YAML: {str(error).splitlines()[0]}", file=path) from error
    if not isinstance(loaded, CommentedMap):
        raise ConfigError.one("no task: `key: value` lines are expected at the top level", file=path)
    return loaded


def _plain(
    value: Any, *, at: str, file: Path, places: dict[str, tuple[Path, int]], counted: list[int], depth: int
) -> Any:
    counted[0] += 1
    if counted[0] > _MOST_VALUES or depth > MAX_DEPTH:
        raise ConfigError.one("its values are too many, or nested too deeply", file=file)
    if isinstance(value, CommentedMap):
        found = {}
        for key, each in value.items():
            name = str(key)
            here = f"{at}.{name}" if at else name
            if key in value.lc.data:  # one of a merge key stands elsewhere
                places[here] = (file, value.lc.key(key)[0] + 1)
            found[name] = _plain(each, at=here, file=file, places=places, counted=counted, depth=depth + 1)
        return found
    if isinstance(value, CommentedSeq):
        listed = []
        for index, each in enumerate(value):
            here = f"{at}.{index}"
            places[here] = (file, value.lc.item(index)[0] + 1)
            listed.append(_plain(each, at=here, file=file, places=places, counted=counted, depth=depth + 1))
        return listed
    if isinstance(value, TaggedScalar):
        return Function(str(value.value))
    if isinstance(value, bool) or value is None:
        return value
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return str(value)
