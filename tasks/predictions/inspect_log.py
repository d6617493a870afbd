"""Reads the logs of Inspect: `.json`, and `.eval`, which is a zip of JSON files.

The form is that of inspect_ai's `EvalLog` (src/inspect_ai/log/_log.py), versions 1 and 2. A `.eval` holds `header.json`
(the log without its samples) and `samples/<id>_epoch_<n>.json`; one that was not finished has only
`_journal/start.json`. Its entries are deflated, or, since 2026, packed with Zstandard, which Python's zipfile cannot
unpack before 3.14.
"""

import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError
from tasks.dataset.text_rows import json_parts

_ZSTD = 93
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
"""A file's own header in a zip; its last two numbers are the lengths of the name and of the extra field."""
_HEADER, _START, _SAMPLES = "header.json", "_journal/start.json", "samples/"
_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\S*\.(eval|json)")
_ATTACHED = "attachment://"
_SHOWN = 5
_CONVERT = "`inspect log convert --to json LOG --output-dir DIR` writes it as JSON"

Row = dict[str, Any]


def log_file(path: Path) -> Path:
    """The log itself, or the one that lies in a folder. Raises ConfigError: none there, or several."""
    if path.is_file():
        return path
    if not path.is_dir():
        raise ConfigError.one("there is no such file or folder", file=path)
    found = sorted(each for each in path.rglob("*") if _NAME.fullmatch(each.name))
    if len(found) == 1:
        return found[0]
    if not found:
        raise ConfigError.one("no log of Inspect in it", file=path, suggestion="name the log: a .eval or .json file")
    names = ", ".join(str(each.relative_to(path)) for each in found[:_SHOWN])
    raise ConfigError.one(f"{len(found)} logs in it: {names}", file=path, suggestion="name one of them")


class InspectLog:
    """A log. `header` is whole once `samples` has been read to its end: in a JSON file parts of it come last."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.header: Row = {}
        self.finished = True
        """False for a `.eval` whose header was never written: the eval was broken off."""

    def samples(self) -> Iterator[tuple[str, Row]]:
        """Each sample, one at a time, and where it stands. Raises ConfigError for what is no log, or damaged."""
        try:
            yield from self._zipped() if zipfile.is_zipfile(self.file) else self._plain()
        except OSError as error:
            raise ConfigError.one(f"cannot be read: {error.strerror or error}", file=self.file) from error

    def _plain(self) -> Iterator[tuple[str, Row]]:
        with self.file.open("rb") as stream:
            if stream.read(4) in (b"PK\x03\x04", b"PK\x05\x06"):
                raise self._damaged("the zip has no directory at its end")
        for name, value, line in json_parts(self.file, listed="samples"):
            if name != "samples":
                self.header[name] = value
            elif isinstance(value, dict):
                yield f"line {line}", value
            elif value is not None:
                raise ConfigError.one("a sample that is no object", file=self.file, line=line)

    def _zipped(self) -> Iterator[tuple[str, Row]]:
        try:
            archive = zipfile.ZipFile(self.file)
        except zipfile.BadZipFile as broken:
            raise self._damaged(str(broken)) from broken
        with archive:
            # An entry that was written again stands in it twice; the last one counts.
            entries = {entry.filename: entry for entry in archive.infolist()}
            self.finished = _HEADER in entries
            start = entries.get(_HEADER) or entries.get(_START)
            if start is None:
                raise ConfigError.one(f"no log of Inspect: the zip has no {_HEADER}", file=self.file)
            self.header = self._object(archive, start)
            for name, entry in entries.items():
                if name.startswith(_SAMPLES) and name.endswith(".json"):
                    yield name, self._object(archive, entry)

    def _object(self, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Row:
        try:
            value = json.loads(self._bytes(archive, entry))
        except (ValueError, RecursionError) as broken:
            raise self._damaged(f"{entry.filename}: broken JSON: {broken}") from broken
        if not isinstance(value, dict):
            raise self._damaged(f"{entry.filename} is no JSON object")
        return value

    def _bytes(self, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
        try:
            content = self._unzstd(entry) if entry.compress_type == _ZSTD else archive.read(entry)
        except (NotImplementedError, RuntimeError) as unknown:
            raise ConfigError.one(
                f"{entry.filename} is packed in a way that cannot be read here: {unknown}",
                file=self.file,
                suggestion=_CONVERT,
            ) from unknown
        except (zipfile.BadZipFile, zlib.error, struct.error, OSError, EOFError) as broken:
            raise self._damaged(f"{entry.filename}: {broken}") from broken
        if len(content) != entry.file_size or zlib.crc32(content) != entry.CRC:
            raise self._damaged(f"{entry.filename}: its bytes are not those that were written")
        return content

    def _unzstd(self, entry: zipfile.ZipInfo) -> bytes:
        import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415 - only for this packing

        with self.file.open("rb") as stream:
            stream.seek(entry.header_offset)
            *_, name, extra = _LOCAL_HEADER.unpack(stream.read(_LOCAL_HEADER.size))
            stream.seek(name + extra, 1)
            packed = stream.read(entry.compress_size)
        with pa.input_stream(pa.py_buffer(packed), compression="zstd") as unpacked:
            content = bytearray()
            # One byte more than it says is enough to know that it lies.
            while len(content) <= entry.file_size and (piece := unpacked.read(entry.file_size + 1 - len(content))):
                content += piece
        return bytes(content)

    def _damaged(self, what: str) -> ConfigError:
        return ConfigError.one(f"the log breaks off or is damaged: {what}", file=self.file, suggestion="fetch it anew")


def resolved(value: Any, attachments: Row) -> Any:
    """The value with what it names as `attachment://<id>` put in: texts that Inspect keeps apart."""
    if isinstance(value, str):
        return attachments.get(value.removeprefix(_ATTACHED), value) if value.startswith(_ATTACHED) else value
    if isinstance(value, list):
        return [resolved(each, attachments) for each in value]
    if isinstance(value, dict):
        return {name: resolved(each, attachments) for name, each in value.items()}
    return value


def content_text(content: Any) -> str:
    """The text of a message's content: of a list of parts those that are text, and `[image]` for what is none."""
    if isinstance(content, str):
        return content
    parts = [part for part in content or [] if isinstance(part, dict) and part.get("type") != "reasoning"]
    return "\n".join(str(part["text"]) if part.get("type") == "text" else f"[{part.get('type')}]" for part in parts)


def content_reasoning(content: Any) -> str | None:
    """The reasoning among a content's parts; None where there is none."""
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = [str(part.get("reasoning") or part.get("summary") or "") for part in parts if part["type"] == "reasoning"]
    return "\n".join(texts) if texts else None
