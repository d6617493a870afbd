"""`assay rescore`: a run's stored answers under its own metrics again, or under others."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flows.commands.judge_slot import judge_slot
from flows.commands.output import print_json, stdout_console, visible
from flows.commands.score import write_report_of
from flows.commands.tracking import tell_mlflow
from flows.runtime import assay_home
from tasks.predictions.rescore import Change, Rescored, rescore, write_rescored
from tasks.record.mlflow_run import is_tracked


def rescore_run(*, run_id: str, metrics: Sequence[str], dataset: str | None, dry_run: bool, as_json: bool) -> None:
    """Scores again and prints what changed; unless `dry_run`, writes it and the report."""
    home = assay_home()
    rescored = rescore(home, run_id, metrics=metrics, dataset=dataset, ask=not dry_run, slot=judge_slot)
    warnings = list(rescored.warnings)
    report, mlflow_run_id = None, None
    if not dry_run:
        warnings += write_rescored(home, rescored)
        report = write_report_of(rescored.run_id)
        if is_tracked(rescored.run):
            told = tell_mlflow(home, rescored.run_id)
            mlflow_run_id = told.mlflow_run_id
            warnings += [] if told.warning is None else [told.warning]
    if as_json:
        print_json(
            _object(rescored, warnings=warnings, report=report, dry_run=dry_run) | {"mlflow_run_id": mlflow_run_id}
        )
        return
    for warning in warnings:
        Console(stderr=True, highlight=False).print(f"! {visible(warning)}", markup=False, soft_wrap=True)
    changed = [change for change in rescored.guiding if not change.same]
    stdout_console().print(_table([*rescored.changes, *changed]))
    if same := len(rescored.guiding) - len(changed):
        stdout_console().print(f"{same:,} figures of guiding and repairing are the same", style="dim")
    _print_end(rescored, report=report, mlflow_run_id=mlflow_run_id)


def _print_end(rescored: Rescored, *, report: str | None, mlflow_run_id: str | None) -> None:
    console = stdout_console()
    if report is None:
        console.print("nothing was written (--dry-run)", style="bold")
        return
    words = f"{rescored.run_id}, {len(rescored.scores):,} scores as revision {rescored.revision}"
    lines = [("run", words), ("report", report)]
    if mlflow_run_id is not None:
        lines.append(("MLflow", f"run {mlflow_run_id} has the new numbers"))
    for word, text in lines:
        console.print(f"{word:<10}{text}", markup=False, soft_wrap=True)


def _table(changes: Sequence[Change]) -> Table:
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0))
    for name in ("metric", "arm", "before", "now", "change", "version", "n", "failed"):
        table.add_column(name, justify="left" if name in ("metric", "arm", "version") else "right", no_wrap=True)
    for change in changes:
        table.add_row(
            escape(visible(change.name)),
            change.arm or "",
            _number(change.old),
            _number(change.new),
            _difference(change),
            _versions(change),
            f"{change.new_n:,}",
            f"{change.new_failed:,}",
        )
    return table


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _difference(change: Change) -> str:
    if change.old_n is None:
        return "new"
    if change.same:
        return "same"
    if change.old is None or change.new is None:
        return "–"
    return f"{change.new - change.old:+.4f}"


def _versions(change: Change) -> str:
    if change.new_version is None:
        return ""
    if change.old_version in (None, change.new_version):
        return str(change.new_version)
    return f"{change.old_version} → {change.new_version}"


def _object(rescored: Rescored, *, warnings: Sequence[str], report: str | None, dry_run: bool) -> dict[str, Any]:
    return {
        "run_id": rescored.run_id,
        "dry_run": dry_run,
        "revision": None if dry_run else rescored.revision,
        "scores": len(rescored.scores),
        "changes": [asdict(change) | {"same": change.same} for change in rescored.changes],
        "guiding": [asdict(change) | {"same": change.same} for change in rescored.guiding],
        "warnings": list(warnings),
        "report": report,
    }
