"""From numbers to a gate's verdict. Nothing is read here.

`not_worse` with margin m, on the candidate's gain over the baseline: passed iff the interval's lower end is above -m,
failed iff its upper end is below -m, else undecided (tasks/score/stats/verdict.py). `at_least v`: passed iff the lower
end of the metric's interval is v or more, failed iff its upper end is below v, else undecided; `at_most` the other way
round. So a gate never passes or fails by luck that its interval does not exclude.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.gate import Gate, GateVerdict, GateWord, Rule
from schemas.metric import Comparison
from tasks.score.stats.holm import holm
from tasks.score.stats.verdict import decide, samples_needed

_WORDS: Mapping[str, GateWord] = {"better": "passed", "same": "passed", "worse": "failed", "undecided": "undecided"}


def against_run(
    gate: Gate,
    *,
    number: int,
    against: str,
    baseline_run_id: str,
    comparison: Comparison,
    unit: str,
    direction: str,
) -> GateVerdict:
    """The gate held against one run."""
    if gate.margin is None:
        raise ValueError(f"gate {number} has no margin")
    decision = decide(
        effect=comparison.effect,
        lo=comparison.lo,
        hi=comparison.hi,
        margin=gate.margin,
        n=comparison.n_pairs,
        lower_is_better=direction == "lower",
    )
    reason = None
    if comparison.lo is None or comparison.hi is None:
        reason = f"{comparison.n_pairs} pairs have no interval"
    return _verdict(
        gate,
        number=number,
        against=against,
        baseline_run_id=baseline_run_id,
        verdict=_WORDS[decision.word],
        unit=unit,
        direction=direction,
        candidate=comparison.candidate,
        baseline=comparison.baseline,
        effect=comparison.effect,
        lo=comparison.lo,
        hi=comparison.hi,
        p_value=comparison.p_value,
        n_pairs=comparison.n_pairs,
        n_needed=decision.n_needed,
        method=comparison.method,
        reason=reason,
    )


def against_number(gate: Gate, *, number: int, row: Mapping[str, Any] | None) -> GateVerdict:
    """The gate held against its own number. row: the run's row of `metrics`, None where it has none."""
    if gate.value is None:
        raise ValueError(f"gate {number} has no value")
    if row is None or row["value"] is None:
        why = "the run has no such metric in this arm" if row is None else "the metric has no value"
        return _verdict(gate, number=number, verdict="refused", reason=f"{why}: {gate.metric} ({gate.arm})")
    lo, hi, n = row["lo"], row["hi"], row["n"]
    word, needed, reason = _place(gate.rule, value=row["value"], lo=lo, hi=hi, bound=gate.value, n=n)
    return _verdict(
        gate,
        number=number,
        verdict=word,
        unit=row["unit"],
        direction=row["direction"],
        candidate=row["value"],
        lo=lo,
        hi=hi,
        n_pairs=n,
        n_needed=needed,
        method=row["method"],
        reason=reason,
    )


def _place(
    rule: Rule, *, value: float, lo: float | None, hi: float | None, bound: float, n: int | None
) -> tuple[GateWord, int | None, str | None]:
    if lo is None or hi is None:
        return "undecided", None, "the metric has no interval"
    gain = (lo - bound, hi - bound, value - bound) if rule == "at_least" else (bound - hi, bound - lo, bound - value)
    low, high, middle = gain
    if low >= 0:
        return "passed", None, None
    if high < 0:
        return "failed", None, None
    half = middle - low if middle > 0 else high - middle
    return "undecided", None if n is None else samples_needed(n=n, half=half, distance=middle), None


def without(gate: Gate, *, number: int, against: str | None, verdict: GateWord, reason: str) -> GateVerdict:
    """A gate that was not judged, and why."""
    return _verdict(gate, number=number, against=against, verdict=verdict, reason=reason)


def adjusted(verdicts: Sequence[GateVerdict]) -> list[GateVerdict]:
    """The same with their p values adjusted for all that were judged together (Holm)."""
    found = holm([each.p_value for each in verdicts])
    return [each.model_copy(update={"p_adjusted": p}) for each, p in zip(verdicts, found, strict=True)]


def _verdict(gate: Gate, *, number: int, verdict: GateWord, **more: Any) -> GateVerdict:
    return GateVerdict(
        number=number,
        metric=gate.metric,
        arm=gate.arm,
        rule=gate.rule,
        margin=gate.margin,
        value=gate.value,
        on_undecided=gate.on_undecided,
        verdict=verdict,
        **({"against": None, "baseline_run_id": None} | more),
    )
