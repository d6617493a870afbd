"""Which commas of a JSON text a space follows, where a backend wants one after some and none after others."""

from tasks.guide.json_text import outside_strings


class Commas:
    """A compact JSON text whose structural commas may get a space each, a container at a time."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at, self._ends = _structure(text)
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
        """How many commas have a space."""
        return len(self._spaced)

    def space_before(self, char: int) -> bool:
        """Gives spaces to the last comma before position `char` of `text`, and to all that its container holds from
        there on. False if that comma has its space already, or there is none: nothing is left to try."""
        before = [at for at in self._at if at + sum(other < at for other in self._spaced) < char]
        if not before or before[-1] in self._spaced:
            return False
        last = before[-1]
        self._spaced |= {at for at in self._at if last <= at < self._ends[last]}
        return True


def _structure(text: str) -> tuple[list[int], dict[int, int]]:
    """The positions of the structural commas, and for each where its container ends."""
    commas: list[int] = []
    ends: dict[int, int] = {}
    open_ones: list[list[int]] = []
    for at, character in outside_strings(text):
        if character in "[{":
            open_ones.append([])
        elif character == "," and open_ones:
            commas.append(at)
            open_ones[-1].append(at)
        elif character in "]}" and open_ones:
            for comma in open_ones.pop():
                ends[comma] = at
    return commas, {comma: ends.get(comma, len(text)) for comma in commas}
