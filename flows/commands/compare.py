"""`assay compare`: two runs against each other, in a table, as Markdown, as JSON, as a page."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from flows.commands.answers import replace_file
from flows.commands.output import WIDTH_OF_A_FILE, json_line, stdout_console, visible
from flows.runtime import assay_home
from schemas.errors import ConfigError, RunError
from tasks.compare import noise, words
from tasks.compare.markdown import markdown
from tasks.compare.model import Answer, Flip, RunComparison, Side
from tasks.compare.names import find_run
from tasks.compare.runs import compare_runs
from tasks.compare.save import save_comparison
from tasks.compare.speed import speed_rows
from tasks.corpus.compare import are_corpora

Format = Literal["table", "markdown", "json"]

_COLORS = {"worse": "bold red", "undecided": "yellow", "better": "bold green", "same": "dim"}
_ENDINGS: dict[str, Format] = {".md": "markdown", ".json": "json"}
_GATE_FAILED = 3
_TEXT = 70
_DIFFERENCES = 25
_WIDE = 120
"""Columns of a terminal that has room for the whole table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What to compare. candidate, baseline: as a user names runs (`last`, `baseline:main:guided`)."""

    candidate: str
    baseline: str
    metrics: Sequence[str]
    margin: float
    save: bool = True
    speed_margin: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How to show it. flips: so many changed samples of each metric and way."""

    flips: int = 5
    markdown: bool = False
    as_json: bool = False
    out: Path | None = None
    html: Path | None = None


def compare_and_show(asked: Asked, shown: Shown, *, fail_on: str | None = None) -> int:
    """Compares, keeps it, shows it; 0, or 3 where a verdict is what fail_on names (`undecided` means `worse` too).

    Raises ConfigError for what cannot be compared or written, RunError where it cannot be kept."""
    format_of(shown)
    home = assay_home()
    own, other = find_run(home, asked.candidate), find_run(home, asked.baseline)
    if are_corpora(home, own.run_id, other.run_id):
        from flows.commands import compare_corpora  # noqa: PLC0415 - it needs this module

        return compare_corpora.compare_and_show(asked, shown, candidate=own, baseline=other, fail_on=fail_on)
    comparison = compared(asked)
    if shown.html is not None:
        from tasks.report.compare_page import render  # noqa: PLC0415 - draws a figure: slow to import

        page = render(comparison)
        replace_file(shown.html, lambda path: _write_text(path, page))
    code = exit_code(comparison, fail_on=fail_on)
    show(comparison, shown, code=code, saved=asked.save)
    return code


def compared(asked: Asked) -> RunComparison:
    """Compares, and keeps it. Raises ConfigError for what cannot be compared, RunError where it cannot be kept."""
    home = assay_home()
    own, other = find_run(home, asked.candidate), find_run(home, asked.baseline)
    comparison = compare_runs(
        home=home,
        candidate=own.run_id,
        baseline=other.run_id,
        arms=(own.arm, other.arm),
        margin=asked.margin,
        metrics=asked.metrics or None,
        speed_margin=asked.speed_margin,
    )
    if asked.save:
        try:
            save_comparison(home, comparison)
        except OSError as error:
            raise RunError(
                f"the comparison could not be kept: {error} (make room under {home}, or give --no-save)"
            ) from error
    measured = noise.note(home, comparison)
    return comparison if measured is None else replace(comparison, notes=(*comparison.notes, measured))


def exit_code(comparison: RunComparison, *, fail_on: str | None) -> int:
    """3 where a verdict is what fail_on names; `undecided` means `worse` too. 0 without fail_on."""
    failing = {None: (), "worse": ("worse",), "undecided": ("worse", "undecided")}[fail_on]
    return _GATE_FAILED if any(verdict in failing for verdict in comparison.verdicts) else 0


def json_object(comparison: RunComparison, *, flips: int) -> dict[str, Any]:
    """All of it for another program, with so many flips of each result and way."""
    return {
        "sentence": words.sentence(comparison),
        "candidate": asdict(comparison.candidate),
        "baseline": asdict(comparison.baseline),
        "margin": comparison.margin,
        "verdicts": comparison.counts,
        "results": [
            {key: value for key, value in asdict(result).items() if key != "comparison"} | asdict(result.comparison)
            for result in comparison.results
        ],
        "speed": list(speed_rows(comparison.speed)),
        "flips_total": len(comparison.flips),
        "flips": [asdict(flip) for flip in _first(comparison, most=flips)],
        "differences": [asdict(each) for each in comparison.differences],
        "timings": [asdict(each) for each in comparison.timings],
        "notes": list(comparison.notes),
        "compared_at": comparison.compared_at,
    }


def format_of(shown: Shown) -> Format:
    """Raises ConfigError for two formats at once."""
    if shown.markdown and shown.as_json:
        raise ConfigError.one("--markdown and --json are two formats", suggestion="give one of them")
    if shown.markdown or shown.as_json:
        return "markdown" if shown.markdown else "json"
    return "table" if shown.out is None else _ENDINGS.get(shown.out.suffix.lower(), "table")


def show(comparison: RunComparison, shown: Shown, *, code: int, saved: bool) -> None:
    """Prints it, or writes it to `shown.out`. code, saved: for JSON, the exit code and whether it is kept."""
    form = format_of(shown)
    if form == "markdown":
        text = markdown(comparison, flips=shown.flips)
    elif form == "json":
        page = None if shown.html is None else str(shown.html)
        more = {"saved": saved, "html": page, "exit_code": code}
        text = json_line(json_object(comparison, flips=shown.flips) | more)
    else:
        text = ""
    if shown.out is not None:
        replace_file(shown.out, lambda path: _write(path, comparison, shown, text=text))
        for path in (shown.out, shown.html):
            _say(path)
    elif text:
        sys.stdout.write(text)
        sys.stdout.flush()
        if form == "markdown":
            _say(shown.html)
    else:
        console = stdout_console()
        console.print(_rendered(comparison, flips=shown.flips, width=console.width))
        _say(shown.html)


def _write(path: Path, comparison: RunComparison, shown: Shown, *, text: str) -> None:
    with path.open("w", encoding="utf-8") as stream:
        if text:
            stream.write(text)
        else:
            console = Console(file=stream, width=WIDTH_OF_A_FILE, highlight=False)
            console.print(_rendered(comparison, flips=shown.flips, width=WIDTH_OF_A_FILE))


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _say(path: Path | None) -> None:
    if path is not None:
        Console(stderr=True, highlight=False).print(str(path), markup=False, soft_wrap=True)


def _rendered(comparison: RunComparison, *, flips: int, width: int) -> Group:
    parts: list[RenderableType] = [
        _side("candidate", comparison.candidate),
        _side("baseline", comparison.baseline),
        Text(f"{'arm':<10}{comparison.arms or 'each with itself'}, margin {comparison.margin:g}"),
        *(["", _results(comparison, width=width)] if comparison.results else []),
        *(["", *_speed(comparison, width=width)] if comparison.speed else []),
        "",
        Text(visible(words.sentence(comparison)), style="bold"),
    ]
    parts += [Text(f"! {visible(note)}", style="yellow") for note in comparison.notes]
    shown = _first(comparison, most=flips)
    if shown:
        parts += ["", _heading(f"{len(shown)} of {len(comparison.flips)} samples that changed"), _flips(shown)]
    if comparison.differences:
        parts += ["", _heading("What else differs"), _differences(comparison)]
    times = _times(comparison)
    if times.row_count:
        parts += ["", _heading("Times"), times, Text(words.NO_VERDICT, style="dim")]
    return Group(*parts)


def _side(title: str, side: Side) -> Text:
    started = "" if side.started_at is None else f", started {side.started_at:%Y-%m-%d %H:%M:%S} UTC"
    model = "" if side.model is None else f", {visible(side.model)}"
    return Text(f"{title:<10}{side.label}  {visible(side.name)}{model}{started}")


def _heading(text: str) -> Text:
    return Text(text, style="bold")


def _table(*heads: str, right: Sequence[int] = ()) -> Table:
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0))
    for place, head in enumerate(heads):
        table.add_column(head, justify="right" if place in right else "left", overflow="fold")
    return table


def _results(comparison: RunComparison, *, width: int) -> Table:
    """With the arm where there are several, and as many of the less telling columns as there is room for."""
    heads = ["candidate", "baseline", "difference", "95 % interval"]
    heads += ["p (Holm)", "won / lost / tied", "pairs", "would decide"] if width >= _WIDE else ["pairs"]
    first = ["verdict", "metric", *([] if comparison.arms else ["arm"])]
    table = _table(*first, *heads, right=range(len(first), len(first) + len(heads)))
    for result in comparison.results:
        own = result.comparison
        cells = {
            "arm": escape(visible(result.arms)),
            "p (Holm)": words.p_value(own.p_adjusted),
            "won / lost / tied": words.changed(result),
            "pairs": words.count(own.n_pairs),
            "would decide": words.count(own.n_needed),
            **dict(zip(("candidate", "baseline"), words.means(result), strict=True)),
            "difference": words.effect(result),
            "95 % interval": words.interval(result),
        }
        row = [cells[head] for head in (*first[2:], *heads)]
        table.add_row(Text(own.verdict, style=_COLORS[own.verdict]), escape(visible(result.name)), *row)
    return table


def _speed(comparison: RunComparison, *, width: int) -> list[RenderableType]:
    """A line a point and number, and what they rest on."""
    heads = ["candidate", "baseline", "change", "95 % interval"]
    heads += ["p (Holm)", "repeats", "would decide"] if width >= _WIDE else ["repeats"]
    table = _table("verdict", "load", "speed", *heads, right=range(3, 3 + len(heads)))
    for each in comparison.speed:
        found = each.found
        cells = {
            **dict(zip(("candidate", "baseline"), words.speed_medians(each), strict=True)),
            "change": words.speed_effect(each),
            "95 % interval": words.speed_interval(each),
            "p (Holm)": words.p_value(each.p_adjusted),
            "repeats": words.count(found.repeats),
            "would decide": words.count(found.n_needed),
        }
        load = each.point_id if each.candidate_arm == each.baseline_arm else f"{each.name}, {each.arms}"
        table.add_row(
            Text(found.word, style=_COLORS[found.word]),
            _cell(load),
            _cell(each.figure),
            *(cells[head] for head in heads),
        )
    told = [words.speed_basis(comparison), *words.speed_reasons(comparison)]
    return [_heading("Speed under load"), table, Text(" ".join(told), style="dim")]


def _first(comparison: RunComparison, *, most: int) -> list[Flip]:
    found = []
    for result in comparison.results:
        own = comparison.flips_of(result)
        for change in ("lost", "won"):
            found += [flip for flip in own if flip.change == change][:most]
    return found


def _flips(flips: Sequence[Flip]) -> Table:
    table = _table("", "sample", "metric", "target", "candidate", "its answer", "baseline", "its answer", right=(4, 6))
    for flip in flips:
        table.add_row(
            Text(flip.change, style="red" if flip.change == "lost" else "green"),
            _cell(flip.sample_id),
            _cell(f"{flip.dataset}.{flip.metric}"),
            _cell(flip.target),
            words.value(flip.candidate),
            _said(flip.candidate_answers),
            words.value(flip.baseline),
            _said(flip.baseline_answers),
        )
    return table


def _said(answers: Sequence[Answer]) -> str:
    first = answers[0]
    more = f" and {len(answers) - 1} more" if len(answers) > 1 else ""
    return _cell(first.output if first.extracted is None else first.extracted) + more


def _differences(comparison: RunComparison) -> Table:
    table = _table("", "candidate", "baseline")
    for each in comparison.differences[:_DIFFERENCES]:
        table.add_row(_cell(each.what), _cell(each.candidate), _cell(each.baseline))
    left = len(comparison.differences) - _DIFFERENCES
    if left > 0:
        table.add_row(f"and {left} more (--json has all)", "", "")
    return table


def _times(comparison: RunComparison) -> Table:
    table = _table("timing", "arm", "candidate", "baseline", "unit", "ratio", right=(2, 3, 5))
    for timing in words.shown_times(comparison):
        table.add_row(
            escape(timing.name.removeprefix("timing.")),
            _cell(timing.arm or ""),
            words.value(timing.candidate),
            words.value(timing.baseline),
            escape(timing.unit),
            words.ratio(timing),
        )
    return table


def _cell(text: str | None) -> str:
    """Text of a model or a config for a terminal: control characters made visible, long text cut."""
    if text is None:
        return "–"
    shown = visible(text[: _TEXT + 1])
    return escape(shown if len(text) <= _TEXT else shown[: _TEXT - 1] + "…")
