"""Traces of requests to replay: Mooncake's JSON Lines, BurstGPT's CSV, and a CSV of our own.

Mooncake: `timestamp` (ms), `input_length`, `output_length` (tokens), `hash_ids`: one number for each 512 tokens of the
prompt, the same number for the same tokens after the same beginning. BurstGPT: `Timestamp` (s), `Request tokens`,
`Response tokens`; a response of 0 tokens is a request that failed there. Ours: `at_s`, `prompt_tokens`,
`output_tokens`, and where wanted `session`.
"""

import csv
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from schemas.errors import ConfigError
from tasks.config.json_faults import json_faults

N = TypeVar("N", int, float)
TraceFormat = Literal["mooncake", "burstgpt", "csv"]
MOONCAKE_BLOCK = 512
"""Tokens that one of its hash_ids stands for."""


@dataclass(frozen=True, kw_only=True)
class Traced:
    """One request of a trace. at_s: seconds after the first. blocks: what its prompt has in common with others'."""

    at_s: float
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()
    session: str | None = None


def read_trace(path: Path, kind: TraceFormat) -> list[Traced]:
    """All requests, in the order of their times, the first at 0. Those that ask for no token or for none of an answer
    are left out, as nothing can be asked of an engine that way.

    Raises ConfigError with file and line for what is no such trace, and for one without requests."""
    if not path.is_file():
        raise ConfigError.one("there is no such file", file=path)
    rows = _mooncake(path) if kind == "mooncake" else _table(path, _BURSTGPT if kind == "burstgpt" else _OWN)
    found = sorted((row for row in rows if row.prompt_tokens and row.output_tokens), key=lambda row: row.at_s)
    if not found:
        raise ConfigError.one("the trace has no request", file=path)
    first = found[0].at_s
    return [
        Traced(
            at_s=row.at_s - first,
            prompt_tokens=row.prompt_tokens,
            output_tokens=row.output_tokens,
            blocks=row.blocks,
            session=row.session,
        )
        for row in found
    ]


def _mooncake(path: Path) -> Iterator[Traced]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        with json_faults(file=path, line=number):
            row = json.loads(line)
        if not isinstance(row, dict):
            raise ConfigError.one("a request of a trace is a JSON object", file=path, line=number)
        read = _Reading(row, path=path, line=number)
        blocks = row.get("hash_ids") or []
        if not isinstance(blocks, list) or any(not isinstance(each, int) for each in blocks):
            raise ConfigError.one("hash_ids: a list of whole numbers", file=path, line=number)
        tokens = read.number("input_length", int)
        if len(blocks) > -(-tokens // MOONCAKE_BLOCK):
            raise ConfigError.one(
                f"hash_ids: {len(blocks)} blocks of {MOONCAKE_BLOCK} tokens are more than input_length {tokens}",
                file=path,
                line=number,
            )
        yield Traced(
            at_s=read.number("timestamp", float) / 1000,
            prompt_tokens=tokens,
            output_tokens=read.number("output_length", int),
            blocks=tuple(blocks),
        )


@dataclass(frozen=True, kw_only=True)
class _Columns:
    at_s: str
    prompt: str
    output: str
    session: str


_BURSTGPT = _Columns(at_s="Timestamp", prompt="Request tokens", output="Response tokens", session="Session ID")
_OWN = _Columns(at_s="at_s", prompt="prompt_tokens", output="output_tokens", session="session")


def _table(path: Path, columns: _Columns) -> Iterator[Traced]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        missing = [
            name for name in (columns.at_s, columns.prompt, columns.output) if name not in (reader.fieldnames or ())
        ]
        if missing:
            raise ConfigError.one(
                f"the first line lacks the column {', '.join(f'`{name}`' for name in missing)}",
                file=path,
                line=1,
                suggestion=f"it has {', '.join(reader.fieldnames or ()) or 'nothing'}",
            )
        for row in reader:
            read = _Reading(row, path=path, line=reader.line_num)
            yield Traced(
                at_s=read.number(columns.at_s, float),
                prompt_tokens=read.number(columns.prompt, int),
                output_tokens=read.number(columns.output, int),
                session=row.get(columns.session) or None,
            )


@dataclass(frozen=True)
class _Reading:
    row: Mapping[str, Any]
    path: Path
    line: int

    def number(self, name: str, kind: Callable[[float], N]) -> N:
        """A number that is not below 0. Raises ConfigError."""
        given = self.row.get(name)
        try:
            value = float(given)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            value = math.nan
        if not (math.isfinite(value) and value >= 0) or kind(value) != value:
            what = "a whole number" if kind is int else "a number"
            raise ConfigError.one(f"{name}: {given!r} is not {what}, 0 or more", file=self.path, line=self.line)
        return kind(value)
