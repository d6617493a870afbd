"""A comparison in words and rounded numbers, the same for terminals, pages and pull requests."""

from collections import Counter
from collections.abc import Callable, Sequence

from tasks.compare.model import Result, RunComparison, Timing, Word
from tasks.report.numbers import DASH, NBSP, decimals_for, fixed, is_number, number

_TIMES = tuple(f"timing.{name}_ms.p{p}" for name in ("ttft", "tpot", "e2e") for p in (50, 95))
SHOWN_TIMES = (*_TIMES, "timing.output_tokens_per_s", "timing.energy_counter", "timing.energy_integral")
"""The timings that are shown at once; JSON has them all."""
NO_VERDICT = "One run of each gives no verdict on speed."
_NAMED = 3


def sentence(comparison: RunComparison) -> str:
    """What came out, the worst first: `Worse in 1 of 4: arithmetic.exact_match 0.310 → 0.220; 3 undecided.`"""
    return verdicts(comparison.results, named=lambda result: _change(result, told=comparison.arms is not None))


def verdicts(results: Sequence[Result], *, named: Callable[[Result], str]) -> str:
    """The same of any results. named: what is said of one that is worse or better."""
    counts, total = Counter(result.comparison.verdict for result in results), len(results)
    parts = []
    outside: tuple[Word, ...] = ("worse", "better")
    for word in outside:
        found = [result for result in results if result.comparison.verdict == word]
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


def _change(result: Result, *, told: bool) -> str:
    """From the baseline's mean to the candidate's; with the arms unless all results are of the same."""
    one, two = means(result)
    return f"{result.name}{'' if told else f' ({result.arms})'} {two} → {one}"


def _fixed(mean: float | None, decimals: int, *, signed: bool = False) -> str:
    return fixed(mean, decimals, signed=signed) if is_number(mean) else DASH
