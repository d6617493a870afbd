"""`assay run`: checks first, then the flow under a Prefect server, and what is printed at the end."""

import contextlib
import errno
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from flows import early_engine
from flows.commands.checks import checked_experiment
from flows.commands.output import print_json
from flows.console import RunConsole
from flows.duration import parse_duration
from flows.runtime import assay_home, prefect_server, prepare_environment
from flows.signals import Terminated
from schemas.errors import AssayError, ConfigError, RunError
from schemas.experiment import Experiment
from schemas.gate import gate_exit_code
from schemas.run import RunResult
from tasks.gate.keep import verdicts_of
from tasks.gate.words import summary
from tasks.record.open import check_disk, check_same_config, resumable_run
from warehouse.parquet import read_rows


def run_experiment(
    *,
    file: str | None,
    overrides: Sequence[str],
    limit: int | None,
    max_time: str | None,
    resume: str | None,
    as_json: bool,
) -> int:
    """Runs it and gives the exit code. What is wrong with the config or the data is said before anything starts.

    as_json: one object on stdout, however it ends."""
    try:
        ended = _run(file=file, overrides=overrides, limit=limit, max_time=max_time, resume=resume)
    except AssayError as error:
        if as_json:
            print_json({"status": "failed", "exit_code": error.exit_code, "error": str(error)})
        raise
    if as_json:
        print_json(ended)
    return int(ended["exit_code"])


def _run(
    *, file: str | None, overrides: Sequence[str], limit: int | None, max_time: str | None, resume: str | None
) -> dict[str, Any]:
    started = time.monotonic()
    home = assay_home()
    if max_time is not None:
        parse_duration(max_time)
    check_disk(home)
    if resume is not None:
        stored = _resumable(home, resume, changed=file is None and bool(overrides or limit is not None))
        resume = str(stored["run_id"])
        if stored["status"] == "finished":
            return _nothing_left(home, resume)
    elif file is None:
        raise ConfigError.one("name an experiment file, or a run to --resume", suggestion="assay run quickstart")
    checked = None
    if file is not None:
        checked = checked_experiment(file, overrides=overrides, limit=limit, home=home)
        if resume is not None:
            check_same_config(home, resume, experiment=checked, file=Path(file))
    with started_flow(home, experiment=checked) as flow:
        return run_flow(
            flow,
            home=home,
            file=file,
            overrides=overrides,
            limit=limit,
            max_time=max_time,
            resume=resume,
            started=started,
        )


@contextlib.contextmanager
def started_flow(
    home: Path, load: Callable[[], Callable[..., Any]] | None = None, *, experiment: Experiment | None = None
) -> Iterator[Callable[..., Any]]:
    """The flow that `load` imports, that of an experiment if left out, with a Prefect server that it can report to.

    experiment: what it runs first; its engine's process is started beside a server that has to start too."""
    prepare_environment(home)
    with prefect_server(home) as prefect, early_engine.started(home, experiment if prefect.starts else None):
        with RunConsole().step("start Prefect"):
            flow = (load or _import_flow)()
            prefect.wait()
        yield flow


def run_flow(
    flow: Callable[..., RunResult],
    *,
    home: Path,
    file: str | None,
    overrides: Sequence[str],
    limit: int | None,
    max_time: str | None,
    resume: str | None = None,
    started: float,
) -> dict[str, Any]:
    """Runs the flow to its end, prints where everything is, and gives that with the exit code. started: the monotonic
    time since when it takes. Raises what the flow raises, but for an interrupt and a run that only does not count."""
    console = RunConsole()
    try:
        result = flow(
            config=file or "",
            overrides=list(overrides),
            limit=limit or 0,
            max_time=max_time or "",
            resume=resume or "",
        )
    except KeyboardInterrupt as error:
        return _interrupted(console, error, 130)
    except Terminated as error:
        return _interrupted(console, error, 143)
    except Exception as error:
        found = getattr(error, "result", None)
        if not isinstance(found, RunResult):
            _say_if_full(error, home)
            raise
        result = found
    seconds = time.monotonic() - started
    if result.error is not None:
        console.warn(f"{result.status}: {result.error}")
    console.lines(
        [
            ("report", str(result.report)),
            *_gate_files(result),
            ("MLflow", f"run {result.mlflow_run_id}, `assay ui` shows it" if result.mlflow_run_id else "not recorded"),
            ("SQL", f"assay sql \"FROM {_asked_of(result)} WHERE run_id = '{result.run_id}'\""),
            ("run", f"{result.run_id}, {result.status}, {_counted(result)}, {seconds:.0f} s in all"),
        ]
    )
    if result.status == "cancelled":
        console.lines([("resume", f"assay run --resume {result.run_id}")])
    return result.model_dump(mode="json") | {"seconds": seconds}


def _asked_of(result: RunResult) -> str:
    """The view that tells most of it."""
    return "load_points" if result.measured and not result.requests else "leaderboard"


def _counted(result: RunResult) -> str:
    measured = f"{result.measured:,} measured requests" if result.measured else None
    return ", ".join(
        filter(None, [f"{result.requests} requests" if result.requests or not measured else None, measured])
    )


def _gate_files(result: RunResult) -> list[tuple[str, str]]:
    if not result.gates or result.report is None:
        return []
    return [("gates", f"{result.report.parent / 'gates.md'} for a pull request, gates.xml beside it for CI (JUnit)")]


def _resumable(home: Path, run_id: str, *, changed: bool) -> dict[str, Any]:
    if changed:
        raise ConfigError.one(
            "a resumed run keeps its config: --set and --limit would change it", suggestion="start a new run"
        )
    return resumable_run(home, run_id)


def _nothing_left(home: Path, run_id: str) -> dict[str, Any]:
    """With the exit code that it ended with: its gates may have failed."""
    gates = verdicts_of(read_rows(home, "gates", run_id))
    console = RunConsole()
    if gates:
        console.lines([("gates", summary(gates))])
    console.lines([("run", f"{run_id} is finished: nothing is left to do")])
    return {"run_id": run_id, "status": "finished", "exit_code": gate_exit_code(gates)}


def _import_flow() -> Callable[..., RunResult]:
    from flows.experiment import experiment  # noqa: PLC0415 - imports Prefect, whose settings must stand before

    return experiment


def _say_if_full(error: BaseException, home: Path) -> None:
    """Raises RunError in place of an error that came of a full disk, now or while another one was dealt with."""
    chain = [error]
    while (before := chain[-1].__cause__ or chain[-1].__context__) is not None and before not in chain:
        chain.append(before)
    if any(isinstance(each, OSError) and each.errno in (errno.ENOSPC, errno.EDQUOT) for each in chain):
        resume = next((note for each in chain for note in getattr(each, "__notes__", [])), "assay run --resume last")
        raise RunError(
            f"the disk under {home} is full; what was answered before is kept. Make room, then: {resume}"
        ) from error


def _interrupted(console: RunConsole, error: BaseException, code: int) -> dict[str, Any]:
    console.warn("interrupted; what was answered is kept")
    for note in getattr(error, "__notes__", []):
        console.lines([("resume", note)])
    return {"status": "cancelled", "exit_code": code, "error": "interrupted"}
