"""Reads a file of answers that were made elsewhere: JSON Lines, plain or gzipped."""

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from schemas.errors import ConfigError
from tasks.config.disk import names_in
from tasks.config.json_faults import json_faults
from tasks.config.nearest import did_you_mean
from tasks.dataset.rows import nearest
from tasks.dataset.unicode import valid_unicode

_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_MOST_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One answer. own_id: the text that names its row, None where the order does; output: None where the file has
    null, an answer that was never had; replaced: characters of it that were no valid Unicode and became U+FFFD."""

    line: int
    own_id: str | None
    repeat: int
    output: str | None
    finish_reason: str | None
    replaced: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """sha256: of the file's bytes as they lie on disk."""

    file: Path
    sha256: str
    items: list[Prediction]


def read_predictions(file: Path, *, id_field: str | None, output_field: str) -> Predictions:
    """Every answer of a file, in its order. Empty lines count for nothing.

    id_field: None where the order of the lines says which row is meant. Both fields may lie deeper, with dots between
    (`response.choices.0.text`). Raises ConfigError with file and line: no such file, no UTF-8, no JSON object, a field
    that is not there, an id or an output of another type, an answer that is there twice, no answer at all."""
    items: list[Prediction] = []
    first: dict[tuple[str, int], int] = {}
    for line, record in records(file):
        made = _prediction(record, file=file, line=line, id_field=id_field, output_field=output_field)
        if made.own_id is not None:
            known = first.setdefault((made.own_id, made.repeat), line)
            if known != line:
                raise _twice(made, known=known, file=file, id_field=id_field)
        items.append(made)
    if not items:
        raise ConfigError.one("there is no answer in it", file=file, suggestion="is it the one you meant?")
    return Predictions(file=file, sha256=_sha256(file), items=items)


def _twice(made: Prediction, *, known: int, file: Path, id_field: str | None) -> ConfigError:
    which = f" for the repeat {made.repeat}" if made.repeat else ""
    return ConfigError.one(
        f"a second answer to {made.own_id!r}{which}, the first is in line {known}",
        file=file,
        line=made.line,
        key=id_field,
        suggestion="repeats of a row need a field `repeat`: 0, 1, 2, …",
    )


def records(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each line's number and its object, of a file that may be gzipped. Raises ConfigError with file and line."""
    for line, raw in _lines(file):
        if not raw.strip():
            continue
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as broken:
            message = f"not UTF-8: {broken.reason} at byte {broken.start + 1} of the line"
            raise ConfigError.one(message, file=file, line=line) from broken
        with json_faults(file=file, line=line, suggestion="one JSON object a line"):
            record = json.loads(text)
        if not isinstance(record, dict):
            raise ConfigError.one(
                f"an answer must be a JSON object, this one is {shown(record)}",
                file=file,
                line=line,
                suggestion='as in {"id": "q1", "output": "42"}',
            )
        yield line, record


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    line = 0
    try:
        with _opened(file) as stream:
            for line, raw in enumerate(stream, start=1):
                yield line, raw.removeprefix(_BOM) if line == 1 else raw
    except (gzip.BadGzipFile, EOFError, zlib.error) as broken:
        raise ConfigError.one(
            f"the gzip file breaks off or is damaged: {broken}",
            file=file,
            line=line or None,
            suggestion="fetch it anew",
        ) from broken
    except OSError as error:
        raise ConfigError.one(f"cannot be read: {error.strerror or error}", file=file) from error


def _opened(file: Path) -> BinaryIO | gzip.GzipFile:
    if not file.is_file():
        what = "is a folder, not a file" if file.is_dir() else "there is no such file"
        others = [name for name in names_in(file.parent) if name != file.name]
        raise ConfigError.one(what, file=file, suggestion=did_you_mean(file.name, others))
    with file.open("rb") as stream:
        packed = stream.read(len(_GZIP)) == _GZIP
    return gzip.open(file, "rb") if packed else file.open("rb")


def _prediction(
    record: dict[str, Any], *, file: Path, line: int, id_field: str | None, output_field: str
) -> Prediction:
    def problem(message: str, key: str, suggestion: str | None) -> ConfigError:
        return ConfigError.one(message, file=file, line=line, key=key, suggestion=suggestion)

    own_id = None
    if id_field is not None:
        found, value = _field(record, id_field)
        if not found:
            hint = nearest(id_field, record) or "name it with --id-field"
            raise problem(f"there is no field {id_field!r}", "--id-field", f"{hint}; or join with --by-order")
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            raise problem(f"the id is {shown(value)}", id_field, "an id is a text or a whole number")
        own_id = valid_unicode(str(value))[0]
    found, output = _field(record, output_field)
    if not found:
        raise problem(f"there is no field {output_field!r}", "--output-field", nearest(output_field, record))
    if not isinstance(output, str | None):
        hint = "an output is a text; write an object or a list as its JSON text"
        raise problem(f"the output is {shown(output)}", output_field, hint)
    text, replaced = (None, 0) if output is None else valid_unicode(output)
    reason = record.get("finish_reason")
    return Prediction(
        line=line,
        own_id=own_id,
        repeat=_repeat(record.get("repeat"), problem=problem),
        output=text,
        finish_reason=valid_unicode(reason)[0] if isinstance(reason, str) else None,
        replaced=replaced,
    )


def _repeat(value: Any, *, problem: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or value < 0 or len(str(value)) > _MOST_DIGITS:
        raise problem(f"the repeat is {shown(value)}", "repeat", "a repeat is a whole number: 0, 1, 2, …")
    return value


def _field(record: dict[str, Any], name: str) -> tuple[bool, Any]:
    """Whether the field is there, and its value: by its whole name, else step by step along the dots."""
    if name in record:
        return True, record[name]
    value: Any = record
    for step in name.split("."):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and len(step) <= _MOST_DIGITS and int(step) < len(value):
            value = value[int(step)]
        else:
            return False, None
    return True, value


def shown(value: Any) -> str:
    """What a JSON value is, in words."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    if isinstance(value, str):
        return repr(value[:40])
    return names.get(type(value), f"the number {str(value)[:20]}")


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
