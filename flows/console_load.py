"""What a person sees of a measured load when its run has ended: a line a load and arm."""

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flows.commands.output import visible
from tasks.compare.points import Measured
from tasks.report.benchmark import knees_of, load_words, shown_points, value
from tasks.report.numbers import DASH, NBSP, number, share

WIDTH = 100
"""Columns of a terminal that the table fits."""
_LOAD = 26
"""Columns of a load's name; the report has it whole."""
_SHORT_LOAD = 18
"""The same where nothing else can go."""
_ARM = 12
_LATENCIES = ("ttft", "tpot", "e2e")
_FIRST_TO_GO = ("e2e", "failed", "cost")
"""What is left out, one after the other, where the table is too wide."""
_COSTS = (("joules_per_output_token", "J/token"), ("cost_per_million_output_tokens", "{currency}/Mtok"))

_Column = tuple[str, Callable[[Measured], str]]
"""A head, and what stands beneath it."""


def benchmark_table(points: Sequence[Measured]) -> Table:
    """The measured points of a run, as `tasks.compare.points.measured_points` gives them, within 100 columns.

    Medians over the repeats; times in milliseconds, p50 / p99. What no point has, has no column: the share within the
    SLO, failed requests, what a token takes (joules, else money). A point of which a repeat was disturbed has a
    mark."""
    shown = shown_points(points)
    measuring = Console(width=10 * WIDTH)
    columns = _columns(shown)
    for name in (None, *_FIRST_TO_GO):
        columns.pop(name, None)
        table = _table(shown, list(columns.values()), load=_LOAD)
        if measuring.measure(table).maximum <= WIDTH:
            return table
    return _table(shown, list(columns.values()), load=_SHORT_LOAD)


def knee_lines(points: Sequence[Measured]) -> list[tuple[str, str]]:
    """What each search for a knee found, a line an arm."""
    return [("knee", f"{visible(each['arm'])}: {each['words'].replace(NBSP, ' ')}") for each in knees_of(points)]


def _columns(shown: Sequence[Measured]) -> dict[str | None, _Column]:
    found: dict[str | None, _Column] = {"tokens": ("tokens/s", lambda point: _number(point, "output_tokens_per_s"))}
    for name in _LATENCIES:
        found[name] = (f"{name}, ms", lambda point, name=name: _pair(point, f"{name}_ms"))  # type: ignore[misc]
    if _any(shown, "goodput_share"):
        found["slo"] = ("in SLO", lambda point: _share(point, "goodput_share"))
    if any(value(point, "failed_share") for point in shown):
        found["failed"] = ("failed", lambda point: _share(point, "failed_share"))
    cost = next(((name, head) for name, head in _COSTS if _any(shown, name)), None)
    if cost is not None:
        name, head = cost
        found["cost"] = (_head(shown, name, head), lambda point: _number(point, name))
    return found


def _table(shown: Sequence[Measured], columns: Sequence[_Column], *, load: int) -> Table:
    repeats = max((len(point.cells) for point in shown), default=1)
    title = "load" if repeats == 1 else f"load, medians over {repeats} repeats"
    table = Table(title=title, title_justify="left", header_style="bold", box=None, padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True, max_width=load, overflow="ellipsis")
    table.add_column("arm", no_wrap=True, max_width=_ARM, overflow="ellipsis")
    for head, _ in columns:
        table.add_column(head, justify="right", no_wrap=True)
    before = None
    for point in shown:
        name = "" if point.name == before else escape(visible(load_words(point).replace(NBSP, " ")))
        arm = point.arm if len(point.arm) <= _ARM - 2 else f"{point.arm[: _ARM - 3]}…"
        mark = " [yellow]![/yellow]" if point.disturbed else ""
        table.add_row(name, f"{escape(visible(arm))}{mark}", *(write(point) for _, write in columns))
        before = point.name
    if any(point.disturbed for point in shown):
        table.caption = "! a repeat was disturbed"
        table.caption_justify = "left"
    return table


def _any(shown: Sequence[Measured], name: str) -> bool:
    return any(value(point, name) is not None for point in shown)


def _head(shown: Sequence[Measured], name: str, head: str) -> str:
    unit = next(str(point.rows[f"perf.{name}"].get("unit") or "") for point in shown if value(point, name) is not None)
    return escape(visible(head.format(currency=unit.partition("/")[0])))


def _pair(point: Measured, name: str) -> str:
    return f"{_number(point, f'{name}.p50')} / {_number(point, f'{name}.p99')}"


def _number(point: Measured, name: str) -> str:
    found = value(point, name)
    return DASH if found is None else number(float(found))


def _share(point: Measured, name: str) -> str:
    found = value(point, name)
    return DASH if found is None else share(found).replace(NBSP, " ")
