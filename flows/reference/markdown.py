"""Markdown, as the pages need it."""

import re
from collections.abc import Iterable, Sequence

WRITTEN = "<!-- Written by `make docs` from the code: change the code, not this page. -->\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; what is in a cell stays on one line, and its bars do not end the cell."""
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    lines += [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def code(text: str) -> str:
    """Text as it is typed."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def paragraphs(doc: str | None) -> list[str]:
    """The paragraphs of a docstring, each on one line."""
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", (doc or "").strip()) if part.strip()]


def between(page: str, *, name: str, text: str) -> str:
    """The page with what stands between its two marks `<!-- name -->` and `<!-- end of name -->` replaced.

    Raises ValueError for a page without the marks."""
    start, end = f"<!-- {name}: written by `make docs` -->\n", f"<!-- end of {name} -->\n"
    head, found, rest = page.partition(start)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page has no marks {start.strip()} and {end.strip()}")
    return f"{head}{start}\n{text}\n{end}{tail}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
