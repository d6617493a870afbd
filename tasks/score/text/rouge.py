"""ROUGE (Lin 2004) without a stemmer: overlap of n-grams, longest common subsequences of texts and of their lines.

Its values are those of Google's rouge-score 0.1.2 with use_stemmer off, where a word is a run of a-z and 0-9 in lower
case and the sentences of a summary are its lines.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from schemas.base import Config
from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.metric import missing_target, scored, why_unscored
from tasks.score.normalize import cut_at
from tasks.score.text.targets import text_targets

_WORD = re.compile(r"[a-z0-9]+")


class RougeOptions(Config):
    """Which of the three numbers is the value."""

    value: Literal["f1", "precision", "recall"] = "f1"
    """precision: of what the answer says, the share that the target says; recall: the reverse; f1: 2 P R / (P + R)."""
    stop_at: list[str] = Field(default_factory=list)
    """The answer is cut where one of these begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """How many units (words, n-grams) are shared, and how many the answer and the target have."""

    shared: int
    answer: int
    target: int

    def value(self, which: Literal["f1", "precision", "recall"]) -> float:
        """One of the three numbers, 0 to 1; 0 where nothing is shared."""
        if not self.shared:
            return 0.0
        precision, recall = self.shared / self.answer, self.shared / self.target
        if which == "f1":
            return 2 * precision * recall / (precision + recall)
        return precision if which == "precision" else recall


def words(text: str) -> list[str]:
    """The words of a text; letters beyond a-z part words, and are none."""
    return _WORD.findall(text.lower())


def of_ngrams(*, answer: str, target: str, n: int) -> Overlap:
    """The overlap of runs of n words, each counted as often as the side that has it less often."""
    found, wanted = (_ngrams(words(text), n=n) for text in (answer, target))
    return Overlap(shared=(found & wanted).total(), answer=found.total(), target=wanted.total())


def _ngrams(of: list[str], *, n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(of[at : at + n]) for at in range(len(of) - n + 1))


def of_subsequence(*, answer: str, target: str) -> Overlap:
    """The longest common subsequence of the words of both texts."""
    found, wanted = words(answer), words(target)
    row = (1 << len(found)) - 1
    for row in _rows(found, wanted):  # noqa: B007 - the last row is what is wanted
        pass
    return Overlap(shared=len(found) - row.bit_count(), answer=len(found), target=len(wanted))


def of_lines(*, answer: str, target: str) -> Overlap:
    """The words of each line of the target that are in a longest common subsequence with some line of the answer; a
    word counts no oftener than either text has it."""
    found, wanted = ([words(line) for line in text.split("\n")] for text in (answer, target))
    left = Counter(word for line in found for word in line) & Counter(word for line in wanted for word in line)
    shared = 0
    for line in wanted:
        union = sorted({place for each in found for place in _common_places(each, line)})
        for place in union:
            if left[line[place]] > 0:
                left[line[place]] -= 1
                shared += 1
    return Overlap(shared=shared, answer=sum(map(len, found)), target=sum(map(len, wanted)))


def _rows(found: list[str], wanted: list[str]) -> Iterator[int]:
    """The rows of the table of longest common subsequences, one a word of `wanted`, as the bits of an integer (Hyyrö
    2004): bit j is 0 where the subsequence of found[: j + 1] is one longer than that of found[:j]."""
    places: dict[str, int] = {}
    for place, word in enumerate(found):
        places[word] = places.get(word, 0) | 1 << place
    full = (1 << len(found)) - 1
    row = full
    for word in wanted:
        here = row & places.get(word, 0)
        row = ((row + here) | (row - here)) & full
        yield row


def _common_places(found: list[str], wanted: list[str]) -> list[int]:
    """The places in `wanted` of a longest common subsequence: of several, that which rouge-score takes."""
    table = [(1 << len(found)) - 1, *_rows(found, wanted)]
    i, j = len(wanted), len(found)
    places: list[int] = []
    while i and j:
        if wanted[i - 1] == found[j - 1]:
            i, j = i - 1, j - 1
            places.append(i)
        elif _length(table[i], upto=j - 1) > _length(table[i - 1], upto=j):
            j -= 1
        else:
            i -= 1
    return places


def _length(row: int, *, upto: int) -> int:
    return upto - (row & ((1 << upto) - 1)).bit_count()


def score_overlap(
    *, info: MetricInfo, sample: Sample, response: Response, options: RougeOptions, by: Callable[..., Overlap]
) -> Score:
    """The score of one answer: of several targets, the best."""
    unscored = why_unscored(response) or missing_target(sample)
    if unscored or response.output is None:
        return scored(info=info, response=response, value=None, reason=unscored)
    targets, reason = text_targets(sample)
    if reason is None and not all(words(target) for target in targets):
        reason = "a target has no word of the letters a-z and digits"
    if reason is not None:
        return scored(info=info, response=response, value=None, reason=reason)
    answer = cut_at(response.output, options.stop_at)
    value = max(by(answer=answer, target=target).value(options.value) for target in targets)
    return scored(info=info, response=response, value=value)
