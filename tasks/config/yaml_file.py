"""Reads YAML 1.2 into plain Python and remembers the line of every key.

Built on the parser's events rather than on a loader: scalars follow the core schema of YAML 1.2 whatever a `%YAML`
directive says (so `off`, `no`, `yes`, `on` and dates are words), tags build no objects, and what aliases unfold to is
counted while it is read.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from schemas.errors import ConfigError, Problem
from tasks.config.disk import is_dir, is_file, names_in
from tasks.config.nearest import did_you_mean

MAX_BYTES = 1 << 20
MAX_DEPTH = 64
MAX_ALIASED = 1_000_000
"""What all aliases together may unfold to: values plus characters."""

KeyPath = tuple[str | int, ...]

_INTEGERS = (
    (re.compile(r"[-+]?[0-9]+"), 10),
    (re.compile(r"0o[0-7]+"), 8),
    (re.compile(r"0x[0-9a-fA-F]+"), 16),
)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS: dict[str, Any] = {"": None, "~": None, "null": None, "Null": None, "NULL": None} | {
    word: value for text, value in (("true", True), ("false", False)) for word in (text, text.title(), text.upper())
}
_PLAIN_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")}


@dataclass(frozen=True)
class YamlFile:
    """A parsed file: `data` is made of dict, list, str, int, float, bool and None only."""

    path: Path
    data: dict[str, Any]
    lines: dict[KeyPath, int] = field(repr=False)

    def line_of(self, keypath: Sequence[str | int]) -> int | None:
        """Line, counted from 1, of a key or list entry; of its nearest parent where the file lacks it.

        None where the file has no part of the path.
        """
        for length in range(len(keypath), 0, -1):
            line = self.lines.get(tuple(keypath[:length]))
            if line is not None:
                return line
        return None


def read_yaml(path: Path) -> YamlFile:
    """Reads one file whose top level is a mapping.

    Raises ConfigError, with every duplicate key, for a file that is missing, too large, not UTF-8, no valid YAML,
    empty or not a mapping.
    """
    text = _read_text(path)
    parsed = _Builder(path)
    value = parsed.build(text)
    if parsed.problems:
        raise ConfigError(parsed.problems)
    if value is None:
        raise ConfigError.one("the file is empty", file=path)
    if not isinstance(value, dict):
        raise ConfigError.one("must be `key: value` lines at the top level", file=path, line=parsed.first_line)
    return YamlFile(path, value, parsed.lines)


def parse_value(text: str) -> Any:
    """One value in YAML's own words (`off`, `4`, `[a, b]`, `{a: 1}`). Raises ConfigError where it is no valid YAML."""
    parsed = _Builder(None)
    value = parsed.build(text)
    if parsed.problems:
        raise ConfigError(parsed.problems)
    return value


def _read_text(path: Path) -> str:
    if is_dir(path):
        raise ConfigError.one("is a folder, not a YAML file", file=path)
    if not is_file(path):
        raise missing_file(path)
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ConfigError.one(f"is {size} bytes long; a config may have {MAX_BYTES} at most", file=path)
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError.one(f"cannot be read: {error.strerror}", file=path) from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError.one("is not UTF-8 text", file=path, line=line) from error


def missing_file(path: Path) -> ConfigError:
    """The error for a file that is not there, with the nearest name in its folder."""
    if not is_dir(path.parent):
        return ConfigError.one(f"no such file: there is no folder {path.parent}", file=path)
    return ConfigError.one("no such file", file=path, suggestion=did_you_mean(path.name, names_in(path.parent)))


@dataclass
class _Frame:
    """A mapping or list that is still open."""

    container: dict[str, Any] | list[Any]
    path: KeyPath
    anchor: str | None
    weight: int = 1
    key: str | None = None


class _Builder:
    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.lines: dict[KeyPath, int] = {}
        self.problems: list[Problem] = []
        self.first_line: int | None = None
        self._frames: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._aliased = 0
        self._root: Any = None

    def build(self, text: str) -> Any:
        documents = 0
        for event in self._events(text):
            line = event.start_mark.line + 1
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._error("a config is one YAML document; a second one begins here", line)
            elif isinstance(event, MappingStartEvent | SequenceStartEvent):
                self._check_tag(event, line)
                self._open(event, line)
            elif isinstance(event, MappingEndEvent | SequenceEndEvent):
                self._close()
            elif isinstance(event, AliasEvent):
                self._alias(event, line)
            elif isinstance(event, ScalarEvent):
                self._check_tag(event, line)
                self._scalar(event, line)
        return self._root

    def _events(self, text: str) -> Iterator[Event]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an anchor's name used twice is valid YAML: the later one counts
            try:
                yield from YAML(typ="safe", pure=True).parse(text)
            except MarkedYAMLError as error:
                mark = error.problem_mark or error.context_mark
                raise self._error(_plain_syntax(error), None if mark is None else mark.line + 1) from error
            except YAMLError as error:
                position = getattr(error, "position", None)
                line = None if position is None else text.count("\n", 0, position) + 1
                raise self._error("holds a control character that YAML does not allow", line) from error

    def _error(self, message: str, line: int | None) -> ConfigError:
        return ConfigError([*self.problems, Problem(message=message, file=self.path, line=line)])

    def _check_tag(self, event: Any, line: int) -> None:
        if event.tag is not None and event.tag not in _PLAIN_TAGS and event.tag != "!":
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            raise self._error(f"the tag {tag} is refused: a config holds plain values only", line)

    def _open(self, event: Any, line: int) -> None:
        if self._frames and self._expects_key():
            raise self._error("a key must be a word, not a list or a mapping", line)
        if len(self._frames) >= MAX_DEPTH:
            raise self._error(f"is nested more than {MAX_DEPTH} levels deep", line)
        path = self._place(line)
        self._frames.append(_Frame({} if isinstance(event, MappingStartEvent) else [], path, event.anchor))

    def _close(self) -> None:
        frame = self._frames.pop()
        if frame.anchor is not None:
            self._anchors[frame.anchor] = (frame.container, frame.weight)
        self._put(frame.container, frame.weight)

    def _alias(self, event: Any, line: int) -> None:
        if self._frames and self._expects_key():
            raise self._error("a key must be a word, not an alias", line)
        if event.anchor not in self._anchors:
            raise self._error(f"the alias *{event.anchor} has no anchor &{event.anchor} that ends before it", line)
        value, weight = self._anchors[event.anchor]
        self._aliased += weight
        if self._aliased > MAX_ALIASED:
            raise self._error("its aliases unfold to far more than a config can be", line)
        self._place(line)
        self._put(value, weight)

    def _scalar(self, event: Any, line: int) -> None:
        if self._frames and self._expects_key():
            self._key(event, line)
            return
        self._place(line)
        value = self._resolve(event, line)
        weight = 1 + len(event.value)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, weight)
        self._put(value, weight)

    def _key(self, event: Any, line: int) -> None:
        frame = self._frames[-1]
        name = event.value
        here = (*frame.path, name)
        if name == "<<" and event.style is None:
            raise self._error("merge keys (<<) are not part of YAML 1.2: write the keys out, or use `extends`", line)
        if name in frame.container:
            first = self.lines[here]
            self.problems.append(
                Problem(
                    message=f"this key stands here twice, first in line {first}",
                    file=self.path,
                    line=line,
                    key=dotted(here),
                )
            )
        else:
            self.lines[here] = line
        frame.key = name

    def _expects_key(self) -> bool:
        frame = self._frames[-1]
        return isinstance(frame.container, dict) and frame.key is None

    def _place(self, line: int) -> KeyPath:
        """The key path of the value that begins here."""
        if self.first_line is None:
            self.first_line = line
        if not self._frames:
            return ()
        frame = self._frames[-1]
        if isinstance(frame.container, dict):
            return (*frame.path, frame.key or "")
        here = (*frame.path, len(frame.container))
        self.lines[here] = line
        return here

    def _put(self, value: Any, weight: int) -> None:
        if not self._frames:
            self._root = value
            return
        frame = self._frames[-1]
        frame.weight += weight
        if isinstance(frame.container, dict):
            if frame.key is not None:
                frame.container[frame.key] = value
            frame.key = None
        else:
            frame.container.append(value)

    def _resolve(self, event: Any, line: int) -> Any:
        if event.style is not None or event.tag in ("tag:yaml.org,2002:str", "!"):
            return event.value
        try:
            return plain_scalar(event.value)
        except ValueError as error:
            raise self._error("holds a number that is too long", line) from error


def plain_scalar(text: str) -> Any:
    """What an unquoted scalar means under the core schema of YAML 1.2."""
    if text in _WORDS:
        return _WORDS[text]
    for pattern, base in _INTEGERS:
        if pattern.fullmatch(text):
            return int(text, base)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _NOT_FINITE.fullmatch(text):
        return float(text.replace(".", "").lower())
    return text


def dotted(keypath: Sequence[str | int]) -> str:
    """A key path as people write it: `datasets[3].limit`."""
    text = ""
    for part in keypath:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return printable(text)


def printable(text: str) -> str:
    """The text in one line that no terminal obeys: line ends, controls and lone surrogates as their escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _plain_syntax(error: MarkedYAMLError) -> str:
    problem = error.problem or "cannot be read"
    if "\\t" in problem:
        return "a tab stands here where YAML takes spaces only"
    if "cannot start any token" in problem:
        character = problem.split("'")[1] if "'" in problem else ""
        return f"no value may begin with {character}: put it in quotes"
    if "mapping values are not allowed" in problem:
        return "a second `:` in one line: put the value in quotes, or begin a new line"
    context = f" {error.context}" if error.context else ""
    since = f" (begun in line {error.context_mark.line + 1})" if error.context_mark is not None else ""
    return f"not valid YAML{context}: {problem}{since}"
