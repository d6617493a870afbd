"""Put a run's report together: one HTML file that needs nothing outside itself and runs nothing but its own script."""

import base64
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from tasks.report import arms, engine, header, latency, numbers, quality, samples, usage
from tasks.report.alerts import alerts
from tasks.report.data import ReportData
from tasks.report.figures import KINDS, svgs
from tasks.report.profiles import profile_table
from tasks.report.queries import queries
from tasks.report.text import plain, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HERE = Path(__file__).parent
_NO_VALUE = "no value was recorded"


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


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=_or_missing(lambda n: f"{n:,.0f}"),
        num=_or_missing(numbers.number),
        mean=_or_missing(lambda n: numbers.fixed(n, 3) if abs(n) <= 1 else numbers.number(n)),
        point=_or_missing(lambda n: f"{n:.0f}" if n == round(n) else numbers.number(n)),
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
    )
    environment.globals.update(missing=numbers.missing)
    return environment


def _hash(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


def _context(data: ReportData, drawn: "Mapping[str, Figure] | None") -> dict[str, Any]:
    shown = samples.anchors(data)
    sentence, reasons = header.verdict(data)
    length, ended = header.duration(data)
    failed = samples.failures(data)
    return {
        "run": data.run, "run_id": data.run_id, "model": header.model_name(data), "versions": header.versions(data),
        "sentence": sentence, "reasons": reasons, "duration": length, "ended": ended, "tally": header.tally(data),
        "datasets": data.datasets, "alerts": alerts(data), "arms": data.arms,
        "quality": quality.quality_rows(data), "comparisons": quality.arm_comparisons(data),
        "form": arms.form_rows(data), "plan": engine.plan_rows(data), "engines": data.engines,
        "engine_facts": engine.engine_facts, "start_phases": engine.start_phases, "profiles": profile_table(data),
        "times": latency.by_arm(data), "buckets": latency.by_bucket(data), "slowest": latency.slowest(data),
        "totals": usage.totals(data), "peaks": usage.peaks(data), "anchors": shown,
        "cards": samples.cards(data, shown), "sample_count": len(data.samples),
        "failures": failed[: samples.MOST_FAILURES], "failure_count": len(failed),
        "failure_counts": samples.failure_counts(data), "queries": queries(data),
        "figures": {name: Markup(svg) for name, svg in svgs(data, drawn=drawn).items()},  # noqa: S704 - drawn here, text escaped
        "titles": {name: kind.title for name, kind in KINDS.items()},
    }  # fmt: skip


def render(data: ReportData, *, drawn: "Mapping[str, Figure] | None" = None) -> str:
    """The whole page, with the figures in `drawn` or with its own.

    Its content policy admits its own style and script by their hashes and nothing else.
    """
    css = (_HERE / "report.css").read_text(encoding="utf-8")
    script = (_HERE / "report.js").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(css)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    template = _environment().get_template("report.html.j2")
    own = {"css": Markup(css), "script": Markup(script), "policy": Markup(policy)}  # noqa: S704 - files of this package
    return template.render(**own, **_context(data, drawn))


def write_report(*, data: ReportData, path: Path, drawn: "Mapping[str, Figure] | None" = None) -> Path:
    """Write the run's report to `path` (its folder is made if need be) and return the path.

    `drawn` is what `tasks.report.figures.figures` gave for the same data, so that nothing is drawn twice. The file
    appears whole or not at all. Raises OSError where it cannot be written.
    """
    page = render(data, drawn=drawn).encode("utf-8")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(page)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return path
