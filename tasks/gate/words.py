"""Gates in words and rounded numbers, the same for terminals, pages, pull requests and CI systems."""

from collections.abc import Sequence

from schemas.gate import RATIOS, WORDS, GateVerdict
from tasks.compare.words import count
from tasks.gate.model import Evaluation
from tasks.report.numbers import DASH, decimals_for, fixed, is_number, number

_RULES = {
    "not_worse": "not worse",
    "at_least": "at least",
    "at_most": "at most",
    "ratio_at_least": "at least",
    "ratio_at_most": "at most",
}


def sentence(evaluation: Evaluation) -> str:
    """What came out, the worst first: `1 of 3 gate checks failed: d.acc (free) at least 0.5; 2 passed.`"""
    return summary(evaluation.verdicts)


def summary(verdicts: Sequence[GateVerdict]) -> str:
    """The same from the verdicts alone. A gate that is held against two runs is two checks."""
    total, parts = len(verdicts), []
    for word in WORDS:
        found = [each for each in verdicts if each.verdict == word]
        if not found:
            continue
        named = f": {', '.join(claim(each) for each in found)}" if word in ("failed", "refused", "undecided") else ""
        of_all = f"{len(found)} of {total} gate {'check' if total == 1 else 'checks'}" if not parts else f"{len(found)}"
        parts.append(f"{of_all} {word}{named}")
    return f"{'; '.join(parts)}." if parts else "No gates."


def claim(verdict: GateVerdict) -> str:
    """What a gate demands: `gsm8k.exact_match (free) not worse than last_green by more than 0.02`."""
    what = f"{verdict.metric} ({where(verdict)}) {_RULES[verdict.rule]}"
    if verdict.against is None:
        return f"{what} {verdict.value:g}"
    if verdict.rule in RATIOS:
        return f"{what} {verdict.value:g} × that of {verdict.against}"
    return f"{what} than {verdict.against} by more than {verdict.margin:g}"


def where(verdict: GateVerdict) -> str:
    """The arm; of a measured load, its point: `free-closed-8`."""
    return verdict.cell_id or verdict.arm


def rests_on(verdict: GateVerdict) -> str:
    """How many samples or repeats it rests on: `1,319`, `5 repeats`."""
    said = count(verdict.n_pairs)
    one = verdict.n_pairs == 1
    return f"{said} repeat{'' if one else 's'}" if verdict.cell_id is not None and verdict.n_pairs is not None else said


def rule(verdict: GateVerdict) -> str:
    """The rule alone: `not worse, margin 0.02`, `at least 0.5`, `at most 1.05 ×`."""
    if verdict.rule in RATIOS:
        return f"{_RULES[verdict.rule]} {verdict.value:g} ×"
    if verdict.against is None:
        return f"{_RULES[verdict.rule]} {verdict.value:g}"
    return f"{_RULES[verdict.rule]}, margin {verdict.margin:g}"


def change(verdict: GateVerdict) -> str:
    """From the baseline's mean to the candidate's; against a number, the metric alone. Of a measured load with its
    unit."""
    if verdict.cell_id is not None:
        known = [each for each in (verdict.baseline, verdict.candidate) if is_number(each)]
        return f"{' → '.join(number(float(each)) for each in known)} {verdict.unit or ''}".strip() if known else DASH
    decimals = decimals_for(verdict.lo, verdict.hi)
    if verdict.baseline is None:
        return _number(verdict.candidate, decimals)
    return f"{_number(verdict.baseline, decimals)} → {_number(verdict.candidate, decimals)}"


def effect(verdict: GateVerdict) -> str:
    """Candidate less baseline, with its sign; a dash against a number. Of a measured load the ratio: `1.032×`."""
    if verdict.rule in RATIOS:
        return _ratio(verdict.effect)
    return _number(verdict.effect, decimals_for(verdict.lo, verdict.hi), signed=True)


def interval(verdict: GateVerdict) -> str:
    """The 95 % interval of the effect, or of the metric."""
    if verdict.lo is None or verdict.hi is None:
        return DASH
    if verdict.rule in RATIOS:
        return f"{_ratio(verdict.lo)} to {_ratio(verdict.hi)}"
    decimals, signed = decimals_for(verdict.lo, verdict.hi), verdict.effect is not None
    return f"{fixed(verdict.lo, decimals, signed=signed)} to {fixed(verdict.hi, decimals, signed=signed)}"


def against(verdict: GateVerdict) -> str:
    """`last_green, run 20261127T220355-3f9a2c`; a dash for a rule against a number."""
    if verdict.against is None:
        return DASH
    known = verdict.baseline_run_id is not None and verdict.baseline_run_id != verdict.against
    return f"{verdict.against}, run {verdict.baseline_run_id}" if known else verdict.against


def because(verdict: GateVerdict) -> str:
    """Why the verdict is what it is, in one line."""
    if verdict.verdict in ("skipped", "refused"):
        return verdict.reason or ""
    if verdict.cell_id is not None:
        told = "" if verdict.against is None else f"{effect(verdict)}, "
        said = f"{change(verdict)}, {told}95 % interval {interval(verdict)}, over {rests_on(verdict)}"
    elif verdict.against is None:
        said = f"{change(verdict)}, 95 % interval {interval(verdict)}, over {verdict.n_pairs} samples"
    else:
        said = f"{change(verdict)}, {effect(verdict)} ({interval(verdict)}), over {verdict.n_pairs} pairs"
    if verdict.reason is not None:
        said += f"; {verdict.reason}"
    if verdict.verdict == "undecided" and verdict.n_needed is not None:
        said += f"; {verdict.n_needed:,} {'repeats ' if verdict.cell_id is not None else ''}would decide"
    return said


def _ratio(effect: float | None) -> str:
    return f"{fixed(1 + effect, 3)}×" if is_number(effect) else DASH


def _number(value: float | None, decimals: int, *, signed: bool = False) -> str:
    return fixed(value, decimals, signed=signed) if is_number(value) else DASH
