"""The commands that look: validate, runs, show, report, models, datasets, schema."""

import json
import webbrowser
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flows.commands.checks import checked_experiment
from flows.commands.output import print_json, stdout_console, visible
from flows.console import RunConsole
from flows.runtime import assay_home
from schemas.errors import ConfigError
from schemas.run import MADE_OF_RUNS
from tasks.config.document import experiment_json_schema
from tasks.config.locate import Kind, list_names
from tasks.config.suites import suite_names
from tasks.record.open import stored_run
from warehouse.parquet import read_rows


def validate_files(*, files: Sequence[str], as_json: bool) -> int:
    """Checks each file and its data; 0 if all are right, 2 if not."""
    problems: list[dict[str, Any]] = []
    for file in files:
        try:
            checked_experiment(file)
            if not as_json:
                stdout_console().print(f"{escape(file)}: ok")
        except ConfigError as error:
            problems += [
                {
                    "file": None if p.file is None else str(p.file),
                    "line": p.line,
                    "key": p.key,
                    "message": p.message,
                    "suggestion": p.suggestion,
                }
                for p in error.problems
            ]
            if not as_json:
                Console(stderr=True, highlight=False).print(str(error), markup=False, soft_wrap=True)
    if as_json:
        print_json({"ok": not problems, "problems": problems})
    return 2 if problems else 0


def list_runs(*, as_json: bool) -> None:
    """The runs, newest first."""
    columns = ["run_id", "name", "status", "started_at", "ended_at", "git_commit", "error", "revision"]
    rows = sorted(read_rows(assay_home(), "runs", columns=columns), key=lambda row: str(row["run_id"]), reverse=True)
    if as_json:
        print_json({"runs": rows})
        return
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0))
    for name in ("run", "name", "status", "started (UTC)", "seconds", "commit", "error"):
        table.add_column(name, justify="right" if name == "seconds" else "left")
    for row in rows:
        seconds = None if row["ended_at"] is None else (row["ended_at"] - row["started_at"]).total_seconds()
        table.add_row(
            row["run_id"],
            row["name"],
            row["status"],
            f"{row['started_at']:%Y-%m-%d %H:%M:%S}",
            "–" if seconds is None else f"{seconds:.0f}",
            "–" if row["git_commit"] is None else row["git_commit"][:9],
            escape(visible(str(row["error"]).splitlines()[0])) if row["error"] else "",
        )
    stdout_console().print(table if rows else "no runs yet; start one with: assay run quickstart")


def show_run(*, run_id: str, as_json: bool) -> None:
    """One run: its row and its metrics."""
    home = assay_home()
    row = stored_run(home, run_id)
    metrics = read_rows(home, "metrics", row["run_id"])
    if as_json:
        print_json({"run": row | {"config": json.loads(row["config"])}, "metrics": metrics})
        return
    console = stdout_console()
    for name in ("run_id", "name", "status", "started_at", "ended_at", "host", "git_commit", "git_dirty", "error"):
        console.print(
            f"{name:<12}{'–' if row[name] is None else visible(str(row[name]))}", markup=False, soft_wrap=True
        )
    console.print(f"{'report':<12}{home / 'runs' / row['run_id'] / 'report.html'}", markup=False, soft_wrap=True)
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0))
    for name in ("metric", "arm", "value", "95 % interval", "unit", "n", "failed"):
        table.add_column(name, justify="left" if name in ("metric", "arm", "unit") else "right")
    for metric in sorted(metrics, key=lambda m: (m["scope"] != "dataset", m["name"], m["arm"] or "")):
        interval = "" if metric["lo"] is None else f"{metric['lo']:.4g} to {metric['hi']:.4g}"
        value = "–" if metric["value"] is None else f"{metric['value']:.4g}"
        table.add_row(
            metric["name"],
            metric["arm"] or "",
            value,
            interval,
            metric["unit"],
            str(metric["n"]),
            str(metric["n_failed"]),
        )
    console.print(table)


def make_report(*, run_id: str, open_: bool) -> None:
    """Writes the report again; prints its path."""
    from tasks.report.stage import report_run  # noqa: PLC0415 - draws figures: slow to import

    home = assay_home()
    row = stored_run(home, run_id)
    path = home / "runs" / row["run_id"] / "report.html"
    if row["flow"] not in MADE_OF_RUNS:
        report_run(home=home, run_id=row["run_id"], path=path)
    elif not path.exists():
        raise ConfigError.one(
            f"run {row['run_id']} has no page yet", suggestion=f"assay {row['flow']} --resume {row['run_id']}"
        )
    stdout_console().print(str(path), markup=False, soft_wrap=True)
    if open_ and not webbrowser.open(path.as_uri()):
        raise ConfigError.one("no browser could be opened", suggestion=f"open {path} yourself")


def prepare(*, name: str) -> None:
    """Downloads or converts a model, once."""
    from tasks.config.layers import Layer, Layers  # noqa: PLC0415
    from tasks.config.models import load_model  # noqa: PLC0415
    from tasks.model.resolve import model_folder  # noqa: PLC0415

    model = load_model(name, Layers([Layer({"model": name}, None)]), {})
    if model is None:
        raise ConfigError.one(f"{name} is no model")
    folder = model_folder(model, cache=assay_home() / "cache", on_progress=RunConsole().warn)
    stdout_console().print(f"{model.name} is ready: {folder}", markup=False, soft_wrap=True)


def list_models(*, as_json: bool) -> None:
    """Every model that a config names."""
    _list("model", as_json=as_json)


def list_datasets(*, as_json: bool) -> None:
    """Every dataset that a config names."""
    _list("dataset", as_json=as_json)
    if not as_json:
        stdout_console().print(
            f"and the suites {', '.join(suite_names())}: see `assay suites`", markup=False, soft_wrap=True
        )


def print_schema() -> None:
    """The JSON Schema of an experiment file."""
    print_json(experiment_json_schema())


def _list(kind: Kind, *, as_json: bool) -> None:
    found = list_names(kind)
    if as_json:
        print_json({f"{kind}s": [{"name": f.name, "path": str(f.path), "description": f.description} for f in found]})
        return
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0))
    for name in ("name", "what it is", "file"):
        table.add_column(name, overflow="fold")
    for file in found:
        table.add_row(escape(file.name), escape(file.description or "–"), escape(str(file.path)))
    stdout_console().print(table)
