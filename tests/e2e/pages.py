"""A page of the documentation as something that can be done: files to write, commands to type, output to look for."""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^(?P<indent> *)```(?P<info>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
NUMBER = r"(?:[+\-−]?\d[\d,]*(?:\.\d+)?|–|NULL)"
_RUN_ID = r"\d{8}T\d{6}-[0-9a-f]{6}"
_STATUSES = re.compile(r"(?:\d+ (?:invalid|ok|truncated|refused|error)(?:, )?)+")
_VERDICTS = re.compile(r"\b(?:better|same|worse|undecided)$")
_PIECE = re.compile(rf"{_RUN_ID}|…|\s+|{NUMBER}")


@dataclass(frozen=True)
class File:
    """A file that the page tells the reader to write."""

    name: str
    text: str


@dataclass(frozen=True)
class Typed:
    """A command with the lines that the page shows below it. refused: it is meant to end with exit code 2."""

    command: str
    shown: list[str]
    refused: bool


def steps(page: Path) -> Iterator[File | Typed]:
    """What the page has its reader do, in its order. Blocks marked `by-hand` are left out; the commands of one that is
    marked `refused` end with exit code 2."""
    for match in BLOCK.finditer(page.read_text("utf-8")):
        info, text = match["info"].split(), textwrap.dedent(match["text"])
        if info[:1] == ["console"] and "by-hand" not in info:
            yield from _typed(text, refused="refused" in info)
        elif len(info) == 3 and info[0] in ("json", "yaml"):
            yield File(info[2], text)


def _typed(text: str, *, refused: bool) -> Iterator[Typed]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield Typed(command, [line for line in shown if line.strip()], refused)


def missing(shown: list[str], printed: str) -> str | None:
    """The first line that is shown and was not printed, in this order; None if all were."""
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    at = 0
    for line in shown:
        pattern = re.compile(as_pattern(line))
        found = next((number for number, each in enumerate(lines[at:], at) if pattern.fullmatch(each)), None)
        if found is None:
            return line
        at = found + 1
    return None


def as_pattern(line: str) -> str:
    """What a shown line stands for: its numbers are any numbers, a verdict is any verdict, `…` is anything."""
    line = line.strip()
    verdict = _VERDICTS.search(line)
    if verdict and re.search(r"\d\]\s+\w+$", line):
        return as_pattern(line[: verdict.start()]).rstrip() + r"(?: ?better| ?same| ?worse| ?undecided)"
    statuses = _STATUSES.search(line)
    if statuses:
        before, after = line[: statuses.start()], line[statuses.end() :]
        return as_pattern(before) + r"(?: ?\d+ (?:invalid|ok|truncated|refused|error),?)+ ?" + as_pattern(after)
    pattern, at = "", 0
    for piece in _PIECE.finditer(line):
        pattern += re.escape(line[at : piece.start()])
        if piece[0].isspace():
            pattern += " "
        elif piece[0] == "…":
            pattern += ".*"
        else:
            pattern += _RUN_ID if re.fullmatch(_RUN_ID, piece[0]) else NUMBER
        at = piece.end()
    return pattern + re.escape(line[at:])
