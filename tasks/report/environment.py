"""How the page's templates write what they are given: escaped, with units, and a dash with its reason for a gap."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from tasks.report import engine, numbers, quality
from tasks.report.data import ReportData
from tasks.report.text import plain, visible

HERE = Path(__file__).parent
_NO_VALUE = "no value was recorded"
_NOT_DETAILS = ("metric_version",)


def _finalize(value: Any) -> Any:
    """Last stop of whatever a template prints: no text leaves with characters that cannot be seen or encoded."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return numbers.DASH
    return plain(value) if isinstance(value, str) else value


def _or_missing(write: Callable[[Any], str]) -> Callable[..., Any]:
    def filtered(value: Any, reason: str = _NO_VALUE) -> Any:
        return write(value) if numbers.is_number(value) else numbers.missing(reason)

    return filtered


def _text(value: Any, reason: str = _NO_VALUE) -> Markup:
    """Any text of a run, escaped, with what is invisible made visible."""
    return numbers.missing(reason) if value is None or value == "" else visible(str(value))


def _setting(value: Any, reason: str = "not set") -> Markup:
    """A value of a configuration as JSON would write it, text without its quotes."""
    if value is None:
        return numbers.missing(reason)
    return visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def _moment(value: Any) -> Any:
    if not isinstance(value, datetime):
        return numbers.missing("no time was recorded")
    return f"{value:%Y-%m-%d %H:%M:%S} UTC"


def _in_unit(value: Any, kind: str, reason: str = _NO_VALUE) -> Any:
    """A value written by its kind: text, list, count, bytes, cores, seconds, watts, joules."""
    if kind == "text":
        return _text(value, reason)
    if kind == "list":
        return _setting(value or None, "none")
    if not numbers.is_number(value):
        return numbers.missing(reason)
    writers: dict[str, Callable[[float], str]] = {
        "count": lambda n: f"{n:,.0f}",
        "bytes": numbers.size,
        "cores": lambda n: f"{numbers.number(n)}{numbers.NBSP}cores",
        "seconds": numbers.seconds,
        "watts": lambda n: f"{numbers.number(n)}{numbers.NBSP}W",
        "joules": lambda n: f"{numbers.number(n)}{numbers.NBSP}J",
    }
    return writers[kind](value)


def _score(row: dict[str, Any], column: str = "value", *, signed: bool = False) -> Any:
    """A mean with the decimals that its interval bears."""
    value = row.get(column)
    if not numbers.is_number(value):
        return numbers.missing("nothing could be scored")
    return numbers.fixed(value, numbers.decimals_for(row.get("lo"), row.get("hi")), signed=signed)


def _interval(row: dict[str, Any], *, signed: bool = False) -> Any:
    lo, hi = row.get("lo"), row.get("hi")
    if not (numbers.is_number(lo) and numbers.is_number(hi)):
        return numbers.missing("too few samples for an interval, or none was computed")
    decimals = numbers.decimals_for(lo, hi)
    return f"{numbers.fixed(lo, decimals, signed=signed)} to {numbers.fixed(hi, decimals, signed=signed)}"


def _p_value(value: Any) -> Any:
    if not numbers.is_number(value):
        return numbers.missing("no test was made")
    return f"<{numbers.NBSP}0.001" if value < 0.001 else f"{value:.3f}"


def how(row: Mapping[str, Any]) -> str:
    """How a metric's error bar was made, in one line for a pointer that rests on it."""
    details = row.get("details")
    said = (
        {key: value for key, value in details.items() if key not in _NOT_DETAILS} if isinstance(details, dict) else {}
    )
    parts = [f"method: {row['method']}"] if row.get("method") else ["how the interval was made was not recorded"]
    if numbers.is_number(row.get("stderr")):
        parts.append(f"standard error {numbers.number(row['stderr'])}")
    parts += [f"{key.replace('_', ' ')}: {value}" for key, value in said.items()]
    return plain("; ".join(parts))


def browse(**wanted: Any) -> str:
    """The address of a filtered view of the samples' browser; what is None is left out."""
    return "#samples?" + urlencode({name: value for name, value in wanted.items() if value is not None})


def environment(data: ReportData) -> Environment:
    """The templates of this folder, with the filters that they use."""
    positions = data.positions

    def sample_href(row: Mapping[str, Any]) -> str | None:
        position = positions.get((row["dataset"], row["sample_id"]))
        return None if position is None else browse(open=position)

    made = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        count=_or_missing(lambda n: f"{n:,.0f}"),
        num=_or_missing(numbers.number),
        mean=_or_missing(lambda n: numbers.fixed(n, 3) if abs(n) <= 1 else numbers.number(n)),
        share=_or_missing(numbers.share),
        secs=_or_missing(numbers.seconds),
        text=_text,
        setting=_setting,
        moment=_moment,
        unit=_in_unit,
        score=_score,
        interval=_interval,
        p=_p_value,
        metric=quality.plain_metric,
        how=how,
    )
    made.globals.update(
        missing=numbers.missing, browse=browse, sample_href=sample_href, start_phases=engine.start_phases
    )
    return made
