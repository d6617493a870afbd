"""A comparison in words and rounded numbers, the same for terminals, pages and pull requests."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from tasks.compare.model import Result, RunComparison, SpeedResult, Timing, Word
from tasks.load.verdict import ALIKE
from tasks.report.numbers import DASH, NBSP, decimals_for, fixed, is_number, number

_TIMES = tuple(f"timing.{name}_ms.p{p}" for name in ("ttft", "tpot", "e2e") for p in (50, 95))
SHOWN_TIMES = (*_TIMES, "timing.output_tokens_per_s", "timing.energy_counter", "timing.energy_integral")
"""The timings that are shown at once; JSON has them all."""
NO_VERDICT = "One run of each gives no verdict on speed."
_NAMED = 3


def sentence(comparison: RunComparison) -> str:
    """What came out, the worst first: `Worse in 1 of 4: arithmetic.exact_match 0.310 → 0.220; 3 undecided.` Of speed in
    a sentence of its own: `Speed: worse in 1 of 7: tpot_ms.p50 at free-closed-8 +5.1 %; 6 the same.`"""
    parts = []
    if comparison.results or not comparison.speed:
        told = comparison.arms is not None
        parts.append(verdicts(comparison.results, named=lambda result: _change(result, told=told)))
    if comparison.speed:
        said = _verdicts(comparison.speed, word_of=lambda each: each.found.word, named=_speed_change)
        parts.append(f"Speed: {said[:1].lower()}{said[1:]}")
    return " ".join(parts)


def verdicts(results: Sequence[Result], *, named: Callable[[Result], str]) -> str:
    """The same of any results. named: what is said of one that is worse or better."""
    return _verdicts(results, word_of=lambda result: result.comparison.verdict, named=named)


def _verdicts(results: Sequence[Any], *, word_of: Callable[[Any], Word], named: Callable[[Any], str]) -> str:
    counts, total = Counter(word_of(result) for result in results), len(results)
    parts = []
    outside: tuple[Word, ...] = ("worse", "better")
    for word in outside:
        found = [result for result in results if word_of(result) == word]
        if found:
            told = ", ".join(map(named, found[:_NAMED]))
            more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
            parts.append(f"{word} in {len(found)} of {total}: {told}{more}")
    for count_, said in ((counts["same"], "the same"), (counts["undecided"], "undecided")):
        if count_:
            parts.append(f"{count_} {said}" if parts else f"{count_} of {total} {said}")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def means(result: Result) -> tuple[str, str]:
    """The candidate's and the baseline's mean over the pairs."""
    own = result.comparison
    decimals = decimals_for(own.lo, own.hi)
    return _fixed(own.candidate, decimals), _fixed(own.baseline, decimals)


def effect(result: Result) -> str:
    """Candidate less baseline, with its sign."""
    own = result.comparison
    return _fixed(own.effect, decimals_for(own.lo, own.hi), signed=True)


def interval(result: Result) -> str:
    """The effect's 95 % interval."""
    own = result.comparison
    if own.lo is None or own.hi is None:
        return DASH
    decimals = decimals_for(own.lo, own.hi)
    return f"{fixed(own.lo, decimals, signed=True)} to {fixed(own.hi, decimals, signed=True)}"


def p_value(value: float | None) -> str:
    """A p value with three decimals."""
    return DASH if value is None else f"<{NBSP}0.001" if value < 0.001 else f"{value:.3f}"


def count(value: int | None) -> str:
    """A count with thousands apart."""
    return DASH if value is None else f"{value:,}"


def changed(result: Result) -> str:
    """Pairs won, lost and tied: `3 / 9 / 48`."""
    own = result.comparison
    return f"{own.wins:,} / {own.losses:,} / {own.ties:,}"


def value(number_: float | None) -> str:
    """One sample's value."""
    return number(number_) if is_number(number_) else DASH


def shown_times(comparison: RunComparison) -> list[Timing]:
    """The few timings that say most, in one order."""
    found = [timing for timing in comparison.timings if timing.name in SHOWN_TIMES]
    return sorted(found, key=lambda timing: SHOWN_TIMES.index(timing.name))


def ratio(timing: Timing) -> str:
    """The candidate's time as a multiple of the baseline's: `0.87×`."""
    return DASH if timing.ratio is None else f"{timing.ratio:.2f}×"


def speed_medians(result: SpeedResult) -> tuple[str, str]:
    """The candidate's and the baseline's median over the repeats, with the unit: `41.3 ms`."""
    found = result.found
    one, two = (f"{value(each)} {result.unit}".strip() for each in (found.candidate, found.baseline))
    return one, two


def speed_effect(result: SpeedResult) -> str:
    """By how much the candidate's number is more: `+5.1 %`."""
    return _percent(result.found.effect)


def speed_interval(result: SpeedResult) -> str:
    """The same as a 95 % interval."""
    lo, hi = result.found.lo, result.found.hi
    return DASH if lo is None or hi is None else f"{_percent(lo - 1)} to {_percent(hi - 1)}"


def speed_basis(comparison: RunComparison) -> str:
    """What a verdict on speed rests on, in a sentence or two."""
    margin = max((each.margin for each in comparison.speed), default=0.0)
    near = f"{100 * max(margin, ALIKE):g}{NBSP}%"
    text = f"Medians over the repeats, with the t interval of their logarithms. Same: a loss of {near} is ruled out."
    if any(not each.paired for each in comparison.speed):
        text += " Two runs are not measured in turns: what else differs between them is in the difference."
    return text


def speed_reasons(comparison: RunComparison) -> list[str]:
    """Why results have no interval, each once: `Undecided: one run gives no verdict: repeats: 5.`"""
    found = ((each.found.word, each.found.reason) for each in comparison.speed if each.found.reason is not None)
    return [f"{word.capitalize()}: {reason}." for word, reason in dict.fromkeys(found)]


def _speed_change(result: SpeedResult) -> str:
    """`tpot_ms.p50 at free-closed-8 +5.1 %`."""
    arms = "" if result.candidate_arm == result.baseline_arm else f" ({result.arms})"
    return f"{result.figure} at {result.point_id}{arms} {speed_effect(result)}".replace(NBSP, " ")


def _percent(share: float | None) -> str:
    return f"{fixed(100 * share, 1, signed=True)}{NBSP}%" if is_number(share) else DASH


def _change(result: Result, *, told: bool) -> str:
    """From the baseline's mean to the candidate's; with the arms unless all results are of the same."""
    one, two = means(result)
    return f"{result.name}{'' if told else f' ({result.arms})'} {two} → {one}"


def _fixed(mean: float | None, decimals: int, *, signed: bool = False) -> str:
    return fixed(mean, decimals, signed=signed) if is_number(mean) else DASH
