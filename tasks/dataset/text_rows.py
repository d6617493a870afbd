"""Rows out of text files: JSON Lines, JSON, CSV. One at a time, whatever the file's size; every fault with its line."""

import codecs
import csv
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from schemas.errors import ConfigError
from tasks.config.json_faults import json_faults
from tasks.config.nearest import did_you_mean_or_list
from tasks.dataset.files import unpacked
from tasks.dataset.rows import RawRow, canonical_json

_BOM = b"\xef\xbb\xbf"
_CSV_FIELD_LIMIT = 1 << 30
_PIECE = 1 << 16
_NEAR_THE_END = 16
"""Characters at the end of what was read in which a fault may only be that more is to come."""
_SPACE = " \t\n\r"
_AFTER_A_VALUE = tuple(_SPACE + ",]}")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text} is out of range")
    return number


_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)


def jsonl_rows(path: Path, *, start: int = 0) -> Iterator[RawRow]:
    """The rows of a JSON Lines file; empty lines are passed over."""
    index = start
    with unpacked(path) as stream:
        for line, ended in enumerate(stream, start=1):
            raw = ended.removesuffix(b"\n").removesuffix(b"\r")
            if not raw.strip():
                continue
            try:
                text = (raw.removeprefix(_BOM) if line == 1 else raw).decode("utf-8")
            except UnicodeDecodeError as broken:
                raise _not_utf8(broken, path=path, line=line) from broken
            with json_faults(file=path, line=line):
                fields = _DECODER.decode(text)
            if not isinstance(fields, dict):
                raise ConfigError.one(f"a row must be a JSON object, this one is {_kind(fields)}", file=path, line=line)
            yield RawRow(index=index, raw=raw, fields=fields, line=line, file=path)
            index += 1


def json_rows(path: Path, *, field: str | None, start: int = 0) -> Iterator[RawRow]:
    """The objects of a JSON list: of the file's own, or of the one in a field of the object that the file is.

    The file is read piece by piece, so that it may be larger than memory."""
    with unpacked(path) as stream:
        text = _JsonText(stream, path=path)
        if field is None:
            if text.next_character() == "{":
                keys = [name for name, _ in _fields(text)]
                raise text.fault(
                    "the file is a JSON object, not a list of rows",
                    suggestion=f"write which `field` holds the list: it has {', '.join(sorted(keys)[:20]) or 'none'}",
                )
            yield from _listed(text, start=start)
        else:
            yield from _listed_in(text, field=field, start=start)
        if text.next_character():
            raise text.fault("broken JSON: there is something after its end")


def json_parts(path: Path, *, listed: str) -> Iterator[tuple[str, Any, int]]:
    """What a file that is one JSON object holds, piece by piece, in its order: a field's name, its value and its line;
    for the field `listed`, whose value is a list or null, each item by itself.

    NaN and the infinities, which are no JSON, are read as Python writes them. Raises ConfigError, with the line."""
    with unpacked(path) as stream:
        text = _JsonText(stream, path=path, decoder=json.JSONDecoder())
        text.expect("{")
        more = text.next_character() != "}"
        while more:
            if text.next_character() != '"':
                raise text.fault("broken JSON: a name in double quotes is expected")
            name = str(text.value()[0])
            text.expect(":")
            if text.next_character() == "[" and name == listed:
                text.expect("[")
                while text.next_character() != "]":
                    line = text.line
                    yield name, text.value()[0], line
                    if text.next_character() != "]":
                        text.expect(",")
                text.expect("]")
            else:
                line = text.line
                yield name, text.value()[0], line
            more = text.next_character() == ","
            if more:
                text.expect(",")
        text.expect("}")


def _listed_in(text: "_JsonText", *, field: str, start: int) -> Iterator[RawRow]:
    if text.next_character() != "{":
        raise text.fault(f"the file is no JSON object, so it has no field {field!r}", suggestion="leave `field` out")
    names = []
    for name, take_value in _fields(text, unread=field):
        names.append(name)
        if not take_value:
            yield from _listed(text, start=start)
    if field not in names:
        raise text.fault(f"the object has no field {field!r}", suggestion=did_you_mean_or_list(field, names))


def _fields(text: "_JsonText", *, unread: str | None = None) -> Iterator[tuple[str, bool]]:
    """The names in the object that comes next, and whether the value was read; that of `unread` is left to whoever
    asks."""
    text.expect("{")
    if text.next_character() == "}":
        text.expect("}")
        return
    while True:
        if text.next_character() != '"':
            raise text.fault("broken JSON: a name in double quotes is expected")
        name = str(text.value()[0])
        text.expect(":")
        if name == unread:
            yield name, False
        else:
            text.next_character()
            text.value()
            yield name, True
        if text.next_character() != ",":
            break
        text.expect(",")
    text.expect("}")


def _listed(text: "_JsonText", *, start: int) -> Iterator[RawRow]:
    if text.next_character() != "[":
        raise text.fault("a list of rows is expected here")
    text.expect("[")
    if text.next_character() == "]":
        text.expect("]")
        return
    index = start
    while True:
        text.next_character()
        line = text.line
        fields, raw = text.value()
        if not isinstance(fields, dict):
            raise ConfigError.one(
                f"a row must be a JSON object, this one is {_kind(fields)}", file=text.path, line=line
            )
        yield RawRow(index=index, raw=raw.encode("utf-8"), fields=fields, line=line, file=text.path)
        index += 1
        if text.next_character() != ",":
            break
        text.expect(",")
    text.expect("]")


class _JsonText:
    """A JSON text of any length, read value by value. line: of the next character, from 1."""

    def __init__(self, stream: IO[bytes], *, path: Path, decoder: json.JSONDecoder = _DECODER) -> None:
        self.path = path
        self.line = 1
        self._json = decoder
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._at = 0
        self._ended = False
        self._dropped = 0  # characters of the line that are no longer in the text

    def fault(self, message: str, *, suggestion: str | None = None) -> ConfigError:
        return ConfigError.one(message, file=self.path, line=self.line, suggestion=suggestion)

    def next_character(self) -> str:
        """The next character that is no white space, which is passed over; empty at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self.line += self._text[self._at] == "\n"
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def expect(self, character: str) -> None:
        """Passes over this character, which must come next. Raises ConfigError for any other."""
        found = self.next_character()
        if found != character:
            what = "the file ends" if not found else f"{found!r} stands"
            raise self.fault(f"broken JSON: {what} where {character!r} is expected")
        self._at += 1

    def value(self) -> tuple[Any, str]:
        """The value that comes next, and its text. Raises ConfigError, with the line, for one that is broken."""
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
                length = end - self._at
                # A number at the end of what was read may go on: 1. or 1e too.
                whole = self._text[self._at] in '{["' or self._text[end : end + 1] in _AFTER_A_VALUE
                if whole or not self._more():
                    return self._taken(value, self._at + length)
            except json.JSONDecodeError as broken:
                unfinished = broken.msg.startswith("Unterminated string") or (
                    broken.pos >= len(self._text) - _NEAR_THE_END
                )
                into = broken.pos - self._at
                if not (unfinished and self._more()):
                    column = self._column(self._at + into)
                    self.line += self._text.count("\n", self._at, self._at + into)
                    raise self.fault(f"broken JSON: {broken.msg} at column {column}") from broken
            except (ValueError, RecursionError) as broken:
                raise self.fault(f"broken JSON: {broken}") from broken

    def _taken(self, value: Any, end: int) -> tuple[Any, str]:
        text = self._text[self._at : end]
        self.line += text.count("\n")
        self._at = end
        return value, text

    def _column(self, position: int) -> int:
        newline = self._text.rfind("\n", 0, position)
        return position - newline if newline >= 0 else self._dropped + position + 1

    def _more(self) -> bool:
        """Reads on: as much again as is waiting, so that a long value is not looked at too many times."""
        if self._ended:
            return False
        newline = self._text.rfind("\n", 0, self._at)
        self._dropped = self._at - newline - 1 if newline >= 0 else self._dropped + self._at
        self._text = self._text[self._at :]
        self._at = 0
        piece = self._stream.read(max(_PIECE, len(self._text)))
        self._ended = not piece
        try:
            self._text += self._decoder.decode(piece, final=self._ended)
        except UnicodeDecodeError as broken:
            self.line += self._text.count("\n") + piece.count(b"\n", 0, broken.start)
            raise self.fault(f"not UTF-8: {broken.reason}") from broken
        return not self._ended


def csv_rows(path: Path, *, start: int = 0) -> Iterator[RawRow]:
    """The rows of a CSV file with a header line; every field is text."""
    csv.field_size_limit(_CSV_FIELD_LIMIT)  # the module's own limit (128 KiB) is a process-wide setting
    header: list[str] | None = None
    index = start
    with unpacked(path) as stream:
        reader = csv.reader(_utf8_lines(stream, path=path), strict=True)
        try:
            while True:
                line = reader.line_num + 1
                cells = next(reader, None)
                if cells is None:
                    break
                if not cells:
                    continue
                if header is None:
                    header = _csv_header(cells, path=path, line=line)
                    continue
                if len(cells) != len(header):
                    raise ConfigError.one(
                        f"the row has {len(cells)} fields, the header has {len(header)}", file=path, line=line
                    )
                fields: dict[str, Any] = dict(zip(header, cells, strict=True))
                raw = canonical_json(fields).encode("ascii")
                yield RawRow(index=index, raw=raw, fields=fields, line=line, file=path)
                index += 1
        except csv.Error as broken:
            raise ConfigError.one(f"broken CSV: {broken}", file=path, line=max(reader.line_num, 1)) from broken
    if header is None:
        raise ConfigError.one("a CSV file needs a header line, this one is empty", file=path, line=1)


def _csv_header(cells: list[str], *, path: Path, line: int) -> list[str]:
    unnamed = [number for number, cell in enumerate(cells, start=1) if not cell.strip()]
    if unnamed:
        raise ConfigError.one(f"column {unnamed[0]} of the header has no name", file=path, line=line)
    twice = sorted({cell for cell in cells if cells.count(cell) > 1})
    if twice:
        raise ConfigError.one(f"the header names {twice[0]!r} twice", file=path, line=line)
    return cells


def _utf8_lines(stream: IO[bytes], *, path: Path) -> Iterator[str]:
    for line, raw in enumerate(stream, start=1):
        try:
            yield (raw.removeprefix(_BOM) if line == 1 else raw).decode("utf-8")
        except UnicodeDecodeError as broken:
            raise _not_utf8(broken, path=path, line=line) from broken


def _not_utf8(broken: UnicodeDecodeError, *, path: Path, line: int) -> ConfigError:
    return ConfigError.one(f"not UTF-8: {broken.reason} at byte {broken.start + 1} of the line", file=path, line=line)


def _kind(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
