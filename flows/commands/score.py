"""`assay score`: answers that another program made, scored like a run's own; `assay metrics`: what can be computed."""

import datetime
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flows.commands.judge_slot import judge_slot
from flows.commands.output import print_json, stdout_console, visible
from flows.commands.tracking import tell_mlflow
from flows.runtime import assay_home
from schemas.errors import ConfigError
from schemas.metric import Aggregate
from tasks.predictions.offline import Asked, Offline, score_file
from tasks.record.open import check_disk
from tasks.score.registry import metric, metric_doc, metric_names, metric_source

if TYPE_CHECKING:
    from tasks.predictions.imported import Imported


def score_predictions(asked: Asked, *, name: str | None, save: bool, as_json: bool) -> None:
    """Scores the file, prints the table, and writes a run unless `save` is False."""
    started_at = datetime.datetime.now(datetime.UTC)
    if save:
        check_disk(assay_home())
    offline = score_file(asked, home=assay_home(), slot=judge_slot)
    saved: dict[str, Any] = {}
    if save:
        saved, warnings = _saved(offline, name=name or offline.dataset.name, started_at=started_at)
        offline.warnings.extend(warnings)
    if as_json:
        print_json(_object(offline) | saved)
        return
    _say(offline)
    print_metrics(offline.metrics)
    _print_lines(saved)


def _saved(offline: Offline, *, name: str, started_at: datetime.datetime) -> tuple[dict[str, Any], list[str]]:
    from tasks.predictions.record import record_offline  # noqa: PLC0415 - brings the warehouse, which --no-save spares

    home = assay_home()
    run_id = record_offline(offline, home=home, name=name, started_at=started_at)
    return saved_run(run_id)


def saved_run(run_id: str) -> tuple[dict[str, Any], list[str]]:
    """Writes a recorded run's report and brings the run to MLflow; gives what to print, and warnings."""
    report = write_report_of(run_id)
    told = tell_mlflow(assay_home(), run_id)
    saved = {"run_id": run_id, "report": report, "mlflow_run_id": told.mlflow_run_id}
    return saved, [] if told.warning is None else [told.warning]


def import_lm_eval(*, path: Path, as_json: bool) -> None:
    """Brings in a run of lm-evaluation-harness."""
    from tasks.predictions.lm_eval import read_lm_eval  # noqa: PLC0415 - each command imports what it needs

    check_disk(assay_home())
    _import(read_lm_eval(path), as_json=as_json)


def import_inspect(*, path: Path, name: str | None, as_json: bool) -> None:
    """Brings in a log of Inspect. name: of its dataset here; None for the task's."""
    from tasks.predictions.inspect_ai import read_inspect  # noqa: PLC0415 - each command imports what it needs

    check_disk(assay_home())
    _import(read_inspect(path, name=name), as_json=as_json)


def _import(made: "Imported", *, as_json: bool) -> None:
    """Writes the run; one that is here already stays as it is."""
    from tasks.predictions.record import record_import  # noqa: PLC0415 - brings the warehouse

    new = record_import(made, home=assay_home())
    saved, warnings = saved_run(made.run_id)
    warnings = made.warnings + warnings
    if as_json:
        metrics = [asdict(row) for row in made.metrics]
        print_json(saved | {"imported": new, "metrics": metrics, "warnings": warnings})
        return
    for warning in warnings:
        Console(stderr=True, highlight=False).print(f"! {visible(warning)}", markup=False, soft_wrap=True)
    print_metrics(made.metrics)
    stdout_console().print("imported" if new else "here already", style="bold")
    _print_lines(saved)


def write_report_of(run_id: str) -> str:
    """Writes a run's report; gives its path."""
    from tasks.report.stage import report_run  # noqa: PLC0415 - draws figures: slow to import

    home = assay_home()
    path, _ = report_run(home=home, run_id=run_id, path=home / "runs" / run_id / "report.html")
    return str(path)


def list_metrics(*, as_json: bool) -> None:
    """Every metric that a dataset can name: assay's own and those of plugins. One that cannot be used says why."""
    rows = [_metric_facts(name) for name in metric_names()]
    if as_json:
        print_json({"metrics": rows})
        return
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0))
    for column in ("metric", "version", "reads", "better is", "unit", "source", "what it is"):
        table.add_column(column, overflow="fold")
    for row in rows:
        cells = (row[key] for key in ("name", "version", "needs", "direction", "unit", "source", "description"))
        table.add_row(*("–" if cell is None else escape(visible(str(cell))) for cell in cells))
    stdout_console().print(table)


def _metric_facts(name: str) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": name, "source": metric_source(name)}
    try:
        found = metric(name)
    except ConfigError as error:
        return facts | dict.fromkeys(("version", "needs", "direction", "unit")) | {"description": str(error)}
    info = found.info
    return facts | {
        "version": info.version,
        "needs": info.needs,
        "direction": info.direction,
        "unit": info.unit,
        "description": metric_doc(name) or None,
    }


def print_metrics(metrics: Sequence[Aggregate]) -> None:
    """Each number with its interval, what it rests on, and what failed."""
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0))
    for name in ("metric", "arm", "value", "95 % interval", "n", "failed", "unit"):
        table.add_column(name, justify="left" if name in ("metric", "arm", "unit") else "right", no_wrap=True)
    for row in metrics:
        table.add_row(
            escape(visible(row.name)),
            row.arm or "",
            "–" if row.value is None else f"{row.value:.4f}",
            "–" if row.lo is None or row.hi is None else f"[{row.lo:.4f}, {row.hi:.4f}]".replace("[", r"\["),
            f"{row.n:,}",
            f"{row.n_failed:,}",
            row.unit,
        )
    stdout_console().print(table)


def _say(offline: Offline) -> None:
    errors = Console(stderr=True, highlight=False)
    for warning in offline.warnings:
        errors.print(f"! {visible(warning)}", markup=False, soft_wrap=True)
    counts = _counts(offline)
    words = ", ".join(f"{count:,} {what}" for what, count in counts.items())
    stdout_console().print(f"{offline.dataset.name}: {words}", markup=False, soft_wrap=True)


def _counts(offline: Offline) -> dict[str, int]:
    return {
        "rows": len(offline.samples),
        "scored": len({score.sample_id for score in offline.scores if score.value is not None}),
        "missing": len(offline.joined.missing),
        "unknown": len(offline.joined.unknown),
    }


def _print_lines(saved: dict[str, Any]) -> None:
    if not saved:
        return
    console = stdout_console()
    question = f"assay sql \"FROM leaderboard WHERE run_id = '{saved['run_id']}'\""
    lines = [("run", saved["run_id"]), ("report", saved["report"]), ("SQL", question)]
    if saved["mlflow_run_id"] is not None:
        lines.insert(2, ("MLflow", f"run {saved['mlflow_run_id']}, `assay ui` shows it"))
    for word, text in lines:
        console.print(f"{word:<10}{text}", markup=False, soft_wrap=True)


def _object(offline: Offline) -> dict[str, Any]:
    return {
        "dataset": offline.dataset.name,
        "arm": offline.asked.arm,
        **_counts(offline),
        "missing_ids": offline.joined.missing,
        "unknown_ids": offline.joined.unknown,
        "metrics": [asdict(row) for row in offline.metrics],
        "warnings": offline.warnings,
    }
