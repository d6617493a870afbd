"""A gate: what a run's metric must hold, against earlier runs or against a number."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from schemas.base import Config
from schemas.faults import Fault, nearest
from schemas.gate_points import HIGHER, NAMES, OF_SLO, PERF, GateCell, GatePoint, chosen, is_known

LAST_GREEN = "last_green"
"""The newest earlier run of the same experiment, model and dataset whose gates all passed."""
BASELINE = "baseline:"
"""Before the name of a run that `assay promote` pinned."""
FORM = ("length_finishes", "refused", "errors", "declared_coverage", "empirical_coverage", "compliance",
        "parse_failures", "whitespace_share")  # fmt: skip
"""How well-formed answers are: `<dataset>.form.<name>`."""

Rule = Literal["not_worse", "at_least", "at_most", "ratio_at_least", "ratio_at_most"]
RATIOS: tuple[Rule, ...] = ("ratio_at_least", "ratio_at_most")
"""The rules on a measured load against another run's."""
GateWord = Literal["passed", "failed", "undecided", "skipped", "refused"]
WORDS: tuple[GateWord, ...] = ("failed", "refused", "undecided", "passed", "skipped")
"""What a gate can come to, what a reader must see first before the rest."""

_AGAINST = re.compile(rf"{LAST_GREEN}|{BASELINE}[A-Za-z0-9][A-Za-z0-9._-]{{0,63}}|[0-9]{{8}}T[0-9]{{6}}-[0-9a-f]{{6}}")
_ONE_RUN = ("timing.", "engine.")


class Gate(Config):
    """One metric of one arm under one rule. Where it fails, the run ends with exit code 3."""

    metric: str
    """`dataset.metric`, `group.metric`, or `dataset.form.name`; the last takes a rule against a number only. Or a
    number of the measured load: `perf.tpot_ms.p50`."""
    arm: str = "free"
    """The arm whose metric it is: one of the experiment's, by its name."""
    cell: GateCell | None = None
    """`perf.*`: at which point of the benchmark, as in `{concurrency: 8}`. It may be left out where there is only one.
    """
    rule: Rule
    """`not_worse`: than the run it is held against, sample by sample; `at_least`, `at_most`: against `value`;
    `ratio_at_most`, `ratio_at_least`: of `perf.*`, this run's number over the other's, against `value`."""
    margin: Annotated[float, Field(ge=0)] | None = None
    """`not_worse`: the loss that still counts as the same, in the metric's own unit (0.02 is two points of a share)."""
    value: float | None = None
    """`at_least` and `at_most`: the number, in the metric's own unit (0.5 is half of a share). `ratio_at_most` and
    `ratio_at_least`: the ratio (1.05 is 5 % more than the other run has)."""
    against: str | list[str] | None = None
    """`not_worse` and the ratios: `last_green`, `baseline:NAME` or a run's id, or a list of these; each is judged by
    itself."""
    on_undecided: Literal["warn", "fail"] = "warn"
    """What becomes of a gate whose interval lies on both sides."""

    @property
    def baselines(self) -> tuple[str, ...]:
        """What it is held against, in order; empty for a rule against a number."""
        if self.against is None:
            return ()
        return (self.against,) if isinstance(self.against, str) else tuple(self.against)

    @property
    def key(self) -> tuple[str, str, str]:
        """(metric, arm, point)."""
        return self.metric, self.arm, "" if self.cell is None else str(self.cell)

    @property
    def is_speed(self) -> bool:
        """Whether it is on a measured load."""
        return self.metric.startswith(PERF)

    @field_validator("against")
    @classmethod
    def _known(cls, value: str | list[str] | None) -> str | list[str] | None:
        names = [] if value is None else [value] if isinstance(value, str) else value
        if value == []:
            raise ValueError("must have at least one entry")
        for name in names:
            if _AGAINST.fullmatch(name) is None:
                raise ValueError(f"must be `{LAST_GREEN}`, `{BASELINE}NAME` or the id of a run, not `{name:.60}`")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{', '.join(twice)} stands here twice")
        return value

    @model_validator(mode="after")
    def _rule_has_what_it_needs(self) -> "Gate":
        if self.rule == "not_worse":
            if self.margin is None or self.against is None:
                raise ValueError("`rule: not_worse` needs `margin` and `against`")
            if self.value is not None:
                raise ValueError("`value` goes with `rule: at_least` or `rule: at_most`")
        elif self.rule in RATIOS:
            if self.value is None or self.against is None:
                raise ValueError(f"`rule: {self.rule}` needs `value` and `against`")
            if self.value <= 0 or self.margin is not None:
                raise ValueError(f"`rule: {self.rule}` takes a `value` above 0 and no `margin`")
        elif self.value is None:
            raise ValueError(f"`rule: {self.rule}` needs `value`")
        elif self.margin is not None or self.against is not None:
            raise ValueError("`margin` and `against` go with `rule: not_worse`")
        return self


class GateVerdict(BaseModel):
    """What one gate came to, against one run or number: small, for results and other programs.

    number: its place among the experiment's gates, from 1. verdict: `passed`, `failed`, `undecided` (the interval lies
    on both sides), `skipped` (there is nothing to hold it against yet) or `refused` (it cannot be judged). fails:
    whether it makes the exit code 3. candidate and baseline: means over the pairs; against a number, candidate is the
    metric itself and lo and hi are its interval. n_pairs: pairs or samples that it rests on. cell_id: of a measured
    load, its point; then candidate and baseline are medians over n_pairs repeats, and effect, lo and hi of a ratio are
    that less 1 (0.05 is 5 % more)."""

    model_config = ConfigDict(frozen=True)

    number: int
    metric: str
    arm: str
    rule: Rule
    margin: float | None
    value: float | None
    on_undecided: Literal["warn", "fail"]
    against: str | None
    baseline_run_id: str | None
    verdict: GateWord
    unit: str | None = None
    direction: str | None = None
    candidate: float | None = None
    baseline: float | None = None
    effect: float | None = None
    lo: float | None = None
    hi: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    n_pairs: int | None = None
    n_needed: int | None = None
    method: str | None = None
    reason: str | None = None
    cell_id: str | None = None

    @property
    def fails(self) -> bool:
        """Whether the gate stops a release."""
        return self.verdict == "failed" or (self.verdict == "undecided" and self.on_undecided == "fail")

    @property
    def name(self) -> str:
        """`gsm8k.exact_match (free) not_worse than last_green`."""
        what = f"{self.metric} ({self.cell_id or self.arm}) {self.rule}"
        if self.against is None:
            return f"{what} {self.value:g}"
        return f"{what} {self.value:g} of {self.against}" if self.rule in RATIOS else f"{what} than {self.against}"


def overall(verdicts: Iterable[GateVerdict]) -> GateWord:
    """What all of them came to together, the worst first; an undecided one that fails counts as failed. `passed` means
    that at least one passed and none did worse than be skipped."""
    words = {"failed" if each.fails else each.verdict for each in verdicts}
    return next((word for word in WORDS if word in words), "skipped")


def gate_exit_code(verdicts: Sequence[GateVerdict]) -> int:
    """3 where one fails, else 2 where one cannot be judged, else 0."""
    if any(each.fails for each in verdicts):
        return 3
    return 2 if any(each.verdict == "refused" for each in verdicts) else 0


@dataclass(frozen=True, kw_only=True)
class Known:
    """What an experiment has that a gate can name. metrics: by dataset; groups: the metric by group; guided: the
    datasets with a guide; arms: the experiment's, by name; guided_arms: those that follow a grammar; points: those of
    its benchmark, without one none; has_slo: whether that has an SLO."""

    metrics: Mapping[str, Sequence[str]]
    groups: Mapping[str, str]
    guided: frozenset[str]
    arms: Sequence[str]
    guided_arms: frozenset[str] = frozenset({"guided"})
    points: Sequence[GatePoint] = ()
    has_slo: bool = False

    def names(self) -> list[str]:
        """Every metric that a gate can name."""
        found = [f"{dataset}.{metric}" for dataset, metrics in self.metrics.items() for metric in metrics]
        found += [f"{group}.{metric}" for group, metric in self.groups.items()]
        return found + [f"{dataset}.form.{name}" for dataset in self.metrics for name in FORM]


def gate_faults(gates: Sequence[Gate], *, known: Known) -> list[Fault]:
    """Every gate that the experiment cannot judge: an unknown metric, an arm that it does not have, a load that
    it does not measure, the same gate twice, `last_green` without a pinned baseline on the same metric."""
    names = known.names()
    pinned = {gate.key for gate in gates for name in gate.baselines if name != LAST_GREEN}
    seen: set[tuple[str, str, str, str, str]] = set()
    found: list[Fault] = []
    for index, gate in enumerate(gates):
        found += [
            Fault(keypath=("gates", index, *key), message=message, suggestion=suggestion)
            for key, message, suggestion in _faults(gate, known=known, names=names, pinned=pinned)
        ]
        own = {(*gate.key, gate.rule, name) for name in gate.baselines or ("",)}
        if own & seen:
            than = next(f" against `{name}`" if name else "" for *_, name in sorted(own & seen))
            message = f"`{gate.metric}` ({gate.arm}) has a gate with `rule: {gate.rule}`{than} already"
            found.append(Fault(keypath=("gates", index), message=message, suggestion="leave one of them"))
        seen |= own
    return found


def _faults(
    gate: Gate, *, known: Known, names: Sequence[str], pinned: set[tuple[str, str, str]]
) -> Iterator[tuple[tuple[str, ...], str, str | None]]:
    if gate.is_speed:
        yield from _speed_faults(gate, known=known)
        yield from _not_pinned(gate, pinned=pinned)
        return
    if gate.metric.startswith(_ONE_RUN):
        hint = "measure a load with `benchmark:`, and gate `perf.*`"
        yield ("metric",), f"a single run gives no verdict on speed, and `{gate.metric}` is measured once", hint
        return
    if gate.cell is not None:
        yield ("cell",), f"`{gate.metric}` is measured at no point of a load", "leave it out: it goes with `perf.*`"
    if gate.rule in RATIOS:
        yield ("rule",), f"`{gate.rule}` is for measured loads, `perf.*`", "use `rule: not_worse` with a `margin`"
        return
    dataset, _, metric = gate.metric.rpartition(".")
    further = f"{dataset}.{metric.partition('@')[0]}" if "@" in metric else None
    if gate.metric not in names and not (further is not None and dataset in known.metrics):
        alike = [name for name in names if (".form." in name) == (".form." in gate.metric)]
        yield ("metric",), f"the experiment has no metric `{gate.metric}`", nearest(gate.metric, alike)
        return
    only_a_number = gate.metric in {f"{each}.form.{name}" for each in known.metrics for name in FORM} or further
    if gate.rule == "not_worse" and only_a_number:
        hint = "use `rule: at_least` or `rule: at_most`"
        yield ("rule",), f"`{gate.metric}` has no value for each sample, so two runs cannot be paired by it", hint
    if gate.arm not in known.arms:
        yield ("arm",), f"the experiment has no arm `{gate.arm:.60}`", f"its arms: {', '.join(known.arms)}"
    elif gate.arm in known.guided_arms:
        owner = next((each for each in known.metrics if gate.metric.startswith(f"{each}.")), None)
        if owner is not None and owner not in known.guided:
            yield ("arm",), f"`{owner}` has no guide, so it has no arm `{gate.arm}`", "gate its arm `free`"
    yield from _not_pinned(gate, pinned=pinned)


def _not_pinned(gate: Gate, *, pinned: set[tuple[str, str, str]]) -> Iterator[tuple[tuple[str, ...], str, str | None]]:
    if LAST_GREEN in gate.baselines and gate.key not in pinned:
        yield (
            ("against",),
            f"`{LAST_GREEN}` alone moves down with many small losses",
            f"add a pinned run: `against: [{LAST_GREEN}, {BASELINE}NAME]`, made by `assay promote RUN --as "
            f"{BASELINE}NAME`",
        )


def _speed_faults(gate: Gate, *, known: Known) -> Iterator[tuple[tuple[str, ...], str, str | None]]:
    if not known.points:
        yield ("metric",), f"the experiment measures no load, so it has no `{gate.metric:.80}`", "add `benchmark:`"
        return
    if not is_known(gate.metric):
        yield ("metric",), f"a measured load has no `{gate.metric:.80}`", nearest(gate.metric, NAMES)
        return
    if gate.metric in OF_SLO and not known.has_slo:
        yield ("metric",), f"without an SLO there is no `{gate.metric}`", "add `slo: {ttft_ms: 500}` to `benchmark`"
    higher = gate.metric in HIGHER
    right = "`rule: ratio_at_least, value: 0.95`" if higher else "`rule: ratio_at_most, value: 1.05`"
    if gate.rule == "not_worse":
        yield ("rule",), f"`{gate.metric}` has no value for each sample, so two runs cannot be paired by it", right
    elif gate.rule in RATIOS and gate.metric in NAMES and (gate.rule == "ratio_at_least") != higher:
        more = "more" if higher else "less"
        yield ("rule",), f"of `{gate.metric}` {more} is better: `{gate.rule}` would fail what is faster", right
    arms = dict.fromkeys(point.arm for point in known.points)
    if gate.arm not in arms:
        yield ("arm",), f"the benchmark measures no arm `{gate.arm:.60}`", f"its arms: {', '.join(arms)}"
        return
    found = chosen(gate.metric, gate.arm, gate.cell, among=known.points)
    if len(found) == 1:
        return
    there = ", ".join(point.name for point in chosen(gate.metric, gate.arm, None, among=known.points)) or "none"
    said = (
        f"a gate on `{gate.metric}` names no point"
        if gate.cell is None
        else f"`{gate.cell}` fits {len(found) or 'no'} points"
    )
    if gate.cell is not None and found:
        said += f" ({', '.join(point.name for point in found)})"
    yield (
        (() if gate.cell is None else ("cell",)),
        f"{said} of the benchmark",
        f"name one of {there}: `cell: {{name: …}}`",
    )
