r"""Where in a text its mathematical answer stands: the last box, the last `$…$`, or the last line."""

import re

_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*")
_UNBRACED = re.compile(r"[^\s$]+")
_DOLLARS = re.compile(r"\$\$(.+?)\$\$|(?<!\\)\$((?:\\.|[^$\\])+)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)


class NoAnswer(ValueError):
    """There is no answer where it was looked for. Its text says what is missing."""


def _closing_brace(text: str, *, start: int) -> int | None:
    """The place of the brace that closes the one at `start`; escaped braces are content."""
    depth, place = 0, start
    while place < len(text):
        if text[place] == "\\":
            place += 2
            continue
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return place
        place += 1
    return None


def last_boxed(text: str) -> str:
    r"""The content of the last \boxed{…} (or \fbox{…}), braces balanced; of `\boxed 5`, the 5.

    Raises NoAnswer where there is no box, and where the last one is never closed: an answer that was cut inside its
    box has no answer, and an earlier box is not what it meant.
    """
    boxes = list(_BOX.finditer(text))
    if not boxes:
        raise NoAnswer(r"there is no \boxed{} in the answer")
    start = boxes[-1].end()
    if text[start : start + 1] != "{":
        found = _UNBRACED.match(text, start)
        if found is None:
            raise NoAnswer(r"the last \boxed is empty")
        return found.group().rstrip(".,")
    end = _closing_brace(text, start=start)
    if end is None:
        raise NoAnswer(r"the last \boxed{ is not closed")
    inner = text[start + 1 : end]
    return last_boxed(inner) if _BOX.search(inner) else inner


def last_formula(text: str) -> str:
    r"""The content of the last `$…$`, `$$…$$`, `\(…\)` or `\[…\]`. Raises NoAnswer where there is none."""
    found = list(_DOLLARS.finditer(text))
    if not found:
        raise NoAnswer("there is no $…$ in the answer")
    return next(group for group in found[-1].groups() if group is not None)


def last_line(text: str) -> str:
    """The last line that is not blank; of `the answer is: 5`, what follows the colon. Raises NoAnswer for none."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise NoAnswer("the answer is blank")
    return re.split(r"(?i)\banswer(?: is)?\s*:?\s+|:\s+", lines[-1])[-1]


def likely(text: str) -> str:
    """The last box; where there is none, the last formula; where there is none either, the last line."""
    if _BOX.search(text):
        return last_boxed(text)
    return last_formula(text) if _DOLLARS.search(text) else last_line(text)
