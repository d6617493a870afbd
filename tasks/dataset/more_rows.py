"""Rows that are no file's own: matches of a pattern in plain text, two files joined, pages that are made."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import regex

from schemas.errors import ConfigError
from schemas.source import JsonlSource, NeedleSource, TextSource
from tasks.config.locate import relative_to_here
from tasks.config.nearest import did_you_mean_or_list
from tasks.dataset.files import source_files, unpacked
from tasks.dataset.rows import RawRow, canonical_json
from tasks.dataset.text_rows import jsonl_rows

_SEARCH_S = 10.0


@cache
def _compiled(pattern: str) -> Any:
    return regex.compile(pattern)


def text_rows(source: TextSource, path: Path, *, start: int, file: Path | None, key: str) -> Iterator[RawRow]:
    """A row for each match of the pattern in the file, with the line where it begins. A group that took no part is
    null.

    Raises ConfigError for a pattern that is none, has no named group, or does not come to an end in 10 s, and for a
    file that is not UTF-8."""
    try:
        pattern = _compiled(source.pattern)
    except regex.error as broken:
        raise ConfigError.one(f"no regular expression: {broken}", file=file, key=f"{key}.pattern") from broken
    if not pattern.groupindex:
        raise ConfigError.one(
            "the pattern has no named group, and so the rows would have no column",
            file=file,
            key=f"{key}.pattern",
            suggestion="write (?P<name>…) round what is to be a column",
        )
    with unpacked(path) as stream:
        content = stream.read()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as broken:
        line = content.count(b"\n", 0, broken.start) + 1
        raise ConfigError.one(f"not UTF-8: {broken.reason}", file=path, line=line) from broken
    try:
        for index, match in enumerate(pattern.finditer(text, timeout=_SEARCH_S), start=start):
            fields = match.groupdict()
            line = text.count("\n", 0, match.start()) + 1
            yield RawRow(index=index, raw=canonical_json(fields).encode("ascii"), fields=fields, line=line, file=path)
    except TimeoutError as endless:
        raise ConfigError.one(
            f"the pattern did not come to an end in {_SEARCH_S:g} s on {relative_to_here(path)}",
            file=file,
            key=f"{key}.pattern",
        ) from endless


def joined(source: JsonlSource, rows: Iterator[RawRow], *, file: Path | None, key: str) -> Iterator[RawRow]:
    """The rows, each with the columns of the row of the second file that has the same value in the column `on`. The
    second file is held in memory; its column of the same name as one of the first's is refused.

    Raises ConfigError for a row of the first file that has no partner, and two partners of one value."""
    if source.join is None:
        yield from rows
        return
    on = source.join.on
    partners: dict[str, RawRow] = {}
    for path in join_files(source, file=file, key=key):
        for row in jsonl_rows(path):
            value = _value(row, on)
            if value in partners:
                raise ConfigError.one(f"{on!r} is {row.fields[on]!r} a second time", file=path, line=row.line)
            partners[value] = row
    for row in rows:
        partner = partners.get(_value(row, on))
        if partner is None:
            raise ConfigError.one(
                f"no row of {Path(source.join.path).name} has {on!r} {row.fields[on]!r}", file=row.file, line=row.line
            )
        both = sorted((row.fields.keys() & partner.fields.keys()) - {on})
        if both:
            raise ConfigError.one(f"both files have a column {both[0]!r}", file=partner.file, line=partner.line)
        fields = {**row.fields, **partner.fields}
        raw = canonical_json(fields).encode("ascii")
        yield RawRow(index=row.index, raw=raw, fields=fields, line=row.line, file=row.file)


def join_files(source: JsonlSource, *, file: Path | None, key: str) -> list[Path]:
    """The second file, none where nothing is joined. Raises ConfigError where it is not there."""
    return [] if source.join is None else source_files(source.join.path, file=file, key=f"{key}.join")


def _value(row: RawRow, on: str) -> str:
    if on not in row.fields:
        hint = did_you_mean_or_list(on, row.fields)
        raise ConfigError.one(f"the row has no column {on!r} to join by", file=row.file, line=row.line, suggestion=hint)
    return canonical_json(row.fields[on])


def needle_rows(source: NeedleSource) -> Iterator[RawRow]:
    """The pages that the numbers stand for."""
    from configs.datasets.recipes.needle import rows_of_length  # noqa: PLC0415  only where pages are made

    for index, fields in enumerate(rows_of_length(tokens=source.tokens, count=source.n, seed=source.seed)):
        raw = canonical_json(fields).encode("ascii")
        yield RawRow(index=index, raw=raw, fields=fields, line=None, file=None)
