"""After which separators of a JSON text a space follows, where a backend wants one after some and none after others."""

from tasks.guide.json_text import outside_strings


class Spaces:
    """A compact JSON text whose separators may get a space each, a container at a time.

    after: the separators that may: `,` or `,:`."""

    def __init__(self, text: str, *, after: str) -> None:
        self._text = text
        self._ends = _structure(text, after)
        self._spaced: set[int] = set()

    @property
    def text(self) -> str:
        """The text with the spaces so far."""
        parts, start = [], 0
        for at in sorted(self._spaced):
            parts.append(self._text[start : at + 1])
            start = at + 1
        return " ".join([*parts, self._text[start:]])

    @property
    def spaced(self) -> int:
        """How many separators have a space."""
        return len(self._spaced)

    def space_before(self, char: int) -> bool:
        """Gives spaces to the last separator before position `char` of `text`, and to all of its kind that its
        container holds from there on. False if that one has its space already, or there is none: nothing is left to
        try."""
        before = [at for at in self._ends if at + sum(other < at for other in self._spaced) < char]
        if not before or before[-1] in self._spaced:
            return False
        last = before[-1]
        kind = self._text[last]
        self._spaced |= {at for at in self._ends if last <= at < self._ends[last] and self._text[at] == kind}
        return True


def _structure(text: str, after: str) -> dict[int, int]:
    """The positions of the structural separators, in order, with where the container of each ends."""
    ends: dict[int, int] = {}
    open_ones: list[list[int]] = []
    for at, character in outside_strings(text):
        if character in "[{":
            open_ones.append([])
        elif character in after and open_ones:
            ends[at] = len(text)
            open_ones[-1].append(at)
        elif character in "]}" and open_ones:
            for separator in open_ones.pop():
                ends[separator] = at
    return ends
