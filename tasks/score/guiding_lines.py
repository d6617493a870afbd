"""The figures of guiding and repairing as the lines of one table, for the console and the report."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.arm import REPAIR

Row = Mapping[str, Any]

ALL = "all"
"""What stands for a dataset where a figure is of all of them."""


@dataclass(frozen=True, kw_only=True)
class _Figure:
    """words: what it is called; form: how its numbers read: share, number, difference or ratio; short: on the console
    too."""

    words: str
    form: str
    short: bool = True


_FIGURES = {
    "guide.parse_failures_reduction": _Figure(words="parse failures", form="reduction"),
    "guide.invalid_reduction": _Figure(words="not of the form", form="reduction"),
    "guide.output_tokens": _Figure(words="output tokens", form="difference"),
    "guide.length_finishes": _Figure(words="ended by length", form="share", short=False),
    "guide.whitespace_share": _Figure(words="white space", form="share", short=False),
    "guide.ttft_ms": _Figure(words="time to first token, ms", form="difference", short=False),
    "guide.tpot_ms": _Figure(words="time per token, ms", form="difference", short=False),
    "guide.mask_us_per_token": _Figure(words="time per token, us", form="difference"),
    "guide.tokens_per_s_ratio": _Figure(words="tokens/s of an answer", form="ratio"),
    "guide.throughput_ratio": _Figure(words="tokens/s of the engine", form="ratio"),
    "repair.retried_share": _Figure(words="asked again", form="value"),
    "repair.repaired_share": _Figure(words="of these valid at last", form="value"),
    "repair.requests": _Figure(words="requests a sample", form="number", short=False),
    "repair.output_tokens_ratio": _Figure(words="output tokens a sample", form="ratio"),
    "repair.prompt_tokens_ratio": _Figure(words="prompt tokens a sample", form="ratio", short=False),
    "repair.seconds_ratio": _Figure(words="seconds a sample", form="ratio"),
}
_ONCE = "guide.invalid_reduction"
"""Where answers are JSON, what is no JSON says it already, on the console."""


@dataclass(frozen=True, kw_only=True)
class GuidingLine:
    """One figure of a dataset. arms: `guided − free`; before and after: of the second arm and the first, empty where
    the figure has no such numbers; change: the figure with its interval."""

    dataset: str
    figure: str
    arms: str
    before: str
    after: str
    change: str
    n: int
    method: str
    name: str


def guiding_lines(rows: Iterable[Row], *, datasets: Sequence[str], short: bool = False) -> list[GuidingLine]:
    """The lines, by dataset, then in the order of the figures, those of all datasets last.

    rows: of `metrics`; datasets: names in order; short: those lines alone that say at a glance whether the grammar
    helps and what it costs."""
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        by_name.setdefault(row["name"], []).append(row)
    found = []
    for dataset in (*datasets, ALL):
        prefix = "" if dataset == ALL else f"{dataset}."
        names = [name for name in _FIGURES if f"{prefix}{name}" in by_name]
        if short and "guide.parse_failures_reduction" in names and _ONCE in names:
            names.remove(_ONCE)
        for name in names:
            if short and not _FIGURES[name].short:
                continue
            found += [_line(dataset, name, row) for row in by_name[f"{prefix}{name}"]]
    return found


def _line(dataset: str, name: str, row: Row) -> GuidingLine:
    figure = _FIGURES[name]
    details = row.get("details") or {}
    baseline = details.get("baseline_arm")
    form = "percent" if figure.form in ("reduction", "share") else "number"
    return GuidingLine(
        dataset=dataset,
        figure=figure.words,
        arms=_arms(row["arm"], baseline, ratio=figure.form == "ratio"),
        before=_plain(details.get("baseline"), form),
        after=_plain(details.get("candidate"), form),
        change=_change(row, figure.form),
        n=row["n"],
        method=row.get("method") or "",
        name=row["name"],
    )


def _arms(arm: str, baseline: str | None, *, ratio: bool) -> str:
    if baseline is None:
        return REPAIR if arm == REPAIR else arm
    return f"{arm} / {baseline}" if ratio else f"{arm} − {baseline}"


def _plain(value: float | None, form: str) -> str:
    if value is None:
        return ""
    return f"{value:.1%}" if form == "percent" else _number(value)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}"


def _change(row: Row, form: str) -> str:
    value, lo, hi = row["value"], row["lo"], row["hi"]
    if value is None:
        return "–"
    text = {
        "reduction": lambda x: f"{-x:+.1%}",
        "share": lambda x: f"{100 * x:+.1f} points",
        "difference": lambda x: f"+{_number(x)}" if x >= 0 else f"-{_number(-x)}",
        "ratio": lambda x: f"x {x:.3f}",
        "value": lambda x: f"{x:.1%}",
        "number": _number,
    }[form]
    if lo is None or hi is None:
        return str(text(value))
    ends = (-hi, -lo) if form == "reduction" else (lo, hi)
    plain = {
        "reduction": lambda x: f"{x:+.1%}",
        "share": lambda x: f"{100 * x:+.1f}",
        "ratio": lambda x: f"{x:.3f}",
    }.get(form, text)
    return f"{text(value)} [{plain(ends[0])}, {plain(ends[1])}]"
