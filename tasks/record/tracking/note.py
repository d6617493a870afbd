"""A run's description in MLflow, and its plan as a page: markdown for people."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schemas.metric import is_score
from tasks.record.tracking.publication import RUN_PAGE

NOTE_CHARACTERS = 7500
"""MLflow cuts a description at 8,000."""
_ROWS = 30
_WITHOUT_ENGINE = ("score", "import")
"""Flows of runs whose answers another program made: there is no log, and nothing to go on with."""

Row = Mapping[str, Any]


def describe(run: Row, metrics: Sequence[Row], *, prefect_page: str | None) -> str:
    """How the run ended and where the rest is, the headline, what to do if it failed, what to ask next. Markdown.

    MLflow shows the first lines and hides the rest until it is asked: they carry the links."""
    parts = [_first_line(run, prefect_page), _failure(run), _headline(metrics), _questions(run), _warnings(run)]
    text = "\n\n".join(part for part in parts if part)
    return text if len(text) <= NOTE_CHARACTERS else text[: NOTE_CHARACTERS - 1] + "…"


def describe_cells(run: Row, cells: Sequence[Row], *, prefect_page: str | None) -> str:
    """The same of a sweep, an ablation or a tuning: how it ended, where its page is, its runs. Markdown."""
    shown = [f"**{run['status']}**"]
    if run["status"] == "running":
        shown.append("its page and its table come when it ends")
    else:
        shown += [f"[report]({RUN_PAGE}/artifacts/report.html)", f"[table]({RUN_PAGE}/artifacts/cells.csv)"]
    shown += _prefect(run, prefect_page)
    parts = [" · ".join(shown), f"SQL: `assay sql \"FROM sweep_results WHERE run_id = '{run['run_id']}'\"`"]
    if run["status"] not in ("running", "finished"):
        parts.append(f"Why: {_text(run['error'] or 'no reason was written')}")
        parts.append(f"Go on where it stopped: `assay {run['flow']} --resume {run['run_id']}`.")
    if cells:
        lines = ["| cell | repeat | state | seconds | run |", "| --- | ---: | --- | ---: | --- |"]
        for row in sorted(cells, key=lambda each: each["order_index"])[:_ROWS]:
            seconds = "–" if row["seconds"] is None else f"{row['seconds']:.1f}"
            told = (_cell(row["name"]), row["repeat"] + 1, row["state"], seconds, row["cell_run_id"] or "")
            lines.append(f"| {' | '.join(map(str, told))} |")
        parts.append("\n".join([*lines, *([f"… and {len(cells) - _ROWS} more"] if len(cells) > _ROWS else [])]))
    parts.append(_warnings(run))
    text = "\n\n".join(part for part in parts if part)
    return text if len(text) <= NOTE_CHARACTERS else text[: NOTE_CHARACTERS - 1] + "…"


def plan_page(run: Row, plans: Iterable[Row]) -> str:
    """plan.md: each engine option, what it is instead of, who chose it and why."""
    lines = [f"# Plan of {_cell(run['name'])}, run {run['run_id']}", ""]
    lines += [
        "| option | value | engine's default | chosen by | why | evidence |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    columns = ("option", "value", "default_value", "source", "reason", "evidence")
    lines += ["| " + " | ".join(_cell(row[name]) for name in columns) + " |" for row in plans]
    return "\n".join(lines) + "\n"


def _first_line(run: Row, prefect_page: str | None) -> str:
    shown = [f"**{run['status']}**"]
    if run["status"] == "running":
        shown.append("numbers, report and log come when it ends")
    else:
        shown.append(f"[report]({RUN_PAGE}/artifacts/report.html)")
        if run["flow"] not in _WITHOUT_ENGINE:
            shown.append(f"[engine log]({RUN_PAGE}/artifacts/engine.log)")
    shown += _prefect(run, prefect_page)
    sql = f"assay sql \"FROM leaderboard WHERE run_id = '{run['run_id']}'\""
    return " · ".join(shown) + f"\n\nSQL: `{sql}`"


def _prefect(run: Row, page: str | None) -> list[str]:
    if page is not None:
        return [f"[Prefect]({page})"]
    flow_run = run["prefect_flow_run_id"]
    return [] if flow_run is None else [f"Prefect flow run `{flow_run}`"]


def _failure(run: Row) -> str:
    """Why it failed and what to do; nothing for a run that did not."""
    run_id, status = run["run_id"], run["status"]
    if status in ("running", "finished"):
        return ""
    why = f"Why: {_text(run['error'] or 'no reason was written')}"
    if run["flow"] in _WITHOUT_ENGINE:
        return why
    return (
        f"{why}\n\n"
        f"Go on where it stopped: `assay run --resume {run_id}`. "
        f"What failed: `assay sql \"FROM failures WHERE run_id = '{run_id}'\"`. "
        "The engine's own words are in its log."
    )


def _headline(metrics: Sequence[Row]) -> str:
    shown = [row for row in metrics if row["scope"] in ("dataset", "group") and is_score(row["name"])]
    if not shown:
        return ""
    lines = ["| metric | arm | value | 95 % interval | n |", "| --- | --- | ---: | ---: | ---: |"]
    # Groups first: with many datasets they are what is looked for.
    for row in sorted(shown, key=lambda each: (each["scope"] != "group", each["name"], each["arm"] or ""))[:_ROWS]:
        bounds = "–" if row["lo"] is None or row["hi"] is None else f"{row['lo']:.3f} to {row['hi']:.3f}"
        value = "–" if row["value"] is None else f"{row['value']:.3f}"
        lines.append(f"| {_cell(row['name'])} | {row['arm'] or ''} | {value} | {bounds} | {row['n']} |")
    if len(shown) > _ROWS:
        lines.append(f"\n{len(shown) - _ROWS} more in the report.")
    return "\n".join(lines)


def _questions(run: Row) -> str:
    run_id = run["run_id"]  # checked as a folder's name: nothing in it can close a quote
    return (
        "Ask next:\n\n```sh\n"
        f"assay sql \"FROM leaderboard WHERE run_id = '{run_id}'\"\n"
        f"assay sql \"FROM failures WHERE run_id = '{run_id}'\"\n"
        f"assay sql \"FROM scores WHERE run_id = '{run_id}' ORDER BY value LIMIT 20\"\n```"
    )


def _warnings(run: Row) -> str:
    warned = run["warnings"] or []
    return "" if not warned else "Warnings:\n\n" + "\n".join(f"* {_text(warning)}" for warning in warned[:10])


def _text(value: Any) -> str:
    """One line of plain text: an error may quote a model's answer, and markup in it must stay text."""
    text = " ".join(str(value).split())[:600]
    for mark in "\\`*[]<>|":
        text = text.replace(mark, f"\\{mark}" if mark != "<" else "&lt;")
    return text


def _cell(value: Any) -> str:
    return _text("" if value is None else value)
