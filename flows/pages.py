"""What a run leaves in Prefect's pages: how far it is, what came out, where to look, and what to do when it failed.

Nothing here may stop a run: a server that cannot be reached costs the pages, and the run says so once."""

import contextlib
import contextvars
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import httpx
from prefect.artifacts import (
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.exceptions import PrefectException

from flows.links import mlflow_report_url, mlflow_run_url
from schemas.errors import ConfigError
from schemas.run import RunContext, RunResult
from schemas.summary import ScoredSummary
from tasks.generate import Update
from tasks.report.text import plain

EVERY_S = 3.0
_UNREACHABLE = (PrefectException, httpx.HTTPError, OSError, RuntimeError)


class Progress:
    """The progress artifact, kept up to date from a thread of its own, so that no answer waits for the server.

    what: what is done, and of what there is so much."""

    def __init__(self, total: int, *, what: tuple[str, str] = ("answers", "requests")) -> None:
        self._total = total
        self._what = what
        self._done = 0
        self._stop = threading.Event()
        # Prefect finds the run that an artifact belongs to by the context, which a thread does not inherit.
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._run,), name="progress", daemon=True)

    def update(self, update: Update) -> None:
        self._total = max(self._total, update.total)  # retries come to be known on the way
        self.done(update.done)

    def done(self, done: int) -> None:
        """So much is done."""
        self._done = done

    def of(self, done: int, total: int) -> None:
        """So much is done, of so much."""
        self._total = total
        self._done = done

    def _run(self) -> None:
        artifact: UUID | None = None
        shown = -1.0
        try:
            while True:
                last = self._stop.wait(EVERY_S if artifact is not None else 0.0)
                progress = round(100 * self._done / max(1, self._total), 1)
                if artifact is None:
                    artifact = create_progress_artifact(
                        progress=progress,
                        key="progress",
                        description=f"{self._what[0]}, of {self._total:,} {self._what[1]}"
                        if self._total
                        else f"{self._what[0]}, in {self._what[1]}",
                    )
                elif progress != shown:
                    update_progress_artifact(artifact_id=artifact, progress=progress)
                shown = progress
                if last:
                    return
        except _UNREACHABLE:
            return  # the server is away: Prefect's own log says so

    def __enter__(self) -> "Progress":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=EVERY_S)


@contextlib.contextmanager
def pages_may_fail(warnings: list[str]) -> Iterator[None]:
    """A page that could not be written is a warning."""
    try:
        yield
    except _UNREACHABLE as error:
        warnings.append(f"Prefect's pages of this run are not complete: {error}")


@contextlib.contextmanager
def refusal_explained() -> Iterator[None]:
    """A config that is refused leaves a page that names the field, and what to write there instead."""
    try:
        yield
    except ConfigError as error:
        with contextlib.suppress(*_UNREACHABLE):
            lines = "\n".join(f"- {_md(str(problem))}" for problem in error.problems)
            text = f"# Not started\n\n{lines}\n\nNothing ran. Change these fields and launch again."
            create_markdown_artifact(text, key="what-to-do", description="why it did not start")
        raise


def write_result(run: RunContext, result: RunResult, scored: ScoredSummary) -> None:
    """The table of results, and where to look next."""
    create_table_artifact(table=_result_table(scored), key="result", description=_summary(run, result))
    _links(result.mlflow_run_id)
    create_markdown_artifact(_next_steps(run, result), key="next", description="where to look, what to ask")
    if result.status != "finished":
        write_failure(run, reason=str(result.error), mlflow_run_id=result.mlflow_run_id)


def write_failure(run: RunContext, *, reason: str, mlflow_run_id: str | None, resumable: bool = True) -> None:
    """The page that says what went wrong, and what to do. resumable: whether to go on could end better."""
    logs = sorted(run.folder.glob("engine*.log"), key=lambda path: path.stat().st_mtime)
    log = _tail(logs[-1]) if logs else ""
    if resumable:
        steps = [f"`assay run --resume {run.run_id}` goes on with it; **Retry** on this page does the same."]
    else:
        steps = ["Change what the message names, and launch again: to go on with this run would end in the same way."]
    parts = [
        f"# {run.experiment.name} did not finish",
        f"```\n{reason.replace('```', '` ` `')}\n```",
        "## What to do",
        "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1)),
        f"What failed, by request: `assay sql \"FROM failures WHERE run_id = '{run.run_id}'\"`.",
        "`assay doctor` looks at this machine: memory, GPU, disk, settings.",
    ]
    if log:
        parts += ["## The end of the engine's log", f"```\n{log.replace('```', '` ` `')}\n```"]
    create_markdown_artifact("\n\n".join(parts), key="what-to-do", description="why it did not finish, what to do")
    _links(mlflow_run_id)


def _links(mlflow_run_id: str | None) -> None:
    if mlflow_run_id is None:
        return
    run_url, report_url = mlflow_run_url(mlflow_run_id), mlflow_report_url(mlflow_run_id)
    if run_url is not None and report_url is not None:
        create_link_artifact(link=run_url, link_text="the run in MLflow", key="mlflow", description="compare it there")
        create_link_artifact(
            link=report_url, link_text="the report", key="report", description="the whole report, in MLflow"
        )


def _summary(run: RunContext, result: RunResult) -> str:
    state = result.status if result.error is None else f"{result.status}: {result.error}"
    return f"{run.experiment.name}, run {run.run_id}: {state}"


def _result_table(scored: ScoredSummary) -> list[dict[str, object]]:
    several = len({(row["candidate_arm"], row["baseline_arm"]) for row in scored.verdicts}) > 1
    rows: dict[str, dict[str, object]] = {}
    for row in scored.headline:
        name = str(row["metric"])
        line = rows.setdefault(name, {"metric": name})
        line[str(row["arm"] or "all")] = _interval(row["value"], row["lo"], row["hi"])
    for verdict in scored.verdicts:
        line = rows[str(verdict["metric"])]
        pair = f"{verdict['candidate_arm']} − {verdict['baseline_arm']}"
        line[pair] = _interval(verdict["effect"], verdict["lo"], verdict["hi"], sign="+")
        line[f"{pair}: verdict" if several else "verdict"] = str(verdict["verdict"])
    columns = list(dict.fromkeys(key for line in rows.values() for key in line))
    return [{column: line.get(column, "") for column in columns} for line in rows.values()]


def _interval(value: object, low: object, high: object, *, sign: str = "") -> str:
    if not isinstance(value, float | int):
        return "–"
    text = f"{value:{sign}.3f}"
    if isinstance(low, float | int) and isinstance(high, float | int):
        text += f" [{low:{sign}.3f}, {high:{sign}.3f}]"
    return text


def _next_steps(run: RunContext, result: RunResult) -> str:
    where = f"run_id = '{run.run_id}'"
    lines = [
        f"# {_md(run.experiment.name)}",
        f"{result.requests:,} requests, {result.failed:,} failed, {result.generate_s:.1f} s of generating.",
        f"The report lies at `{result.report}` and among MLflow's artifacts.",
        "## Ask next",
        f'- `assay sql "FROM leaderboard WHERE {where}"`',
        f'- `assay sql "FROM guided_lift WHERE {where}"`',
        f'- `assay sql "FROM failures WHERE {where}"`',
    ]
    if result.warnings:
        lines += ["## Warnings", *(f"- {_md(warning)}" for warning in result.warnings)]
    return "\n\n".join(lines[:4]) + "\n\n" + "\n".join(lines[4:])


def _md(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_{}\[\]()#|<>~])", r"\\\1", plain(text))


def _tail(path: Path, *, lines: int = 25) -> str:
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - 16_000))
        text = file.read().decode("utf-8", errors="replace")
    return "\n".join(text.splitlines()[-lines:])
