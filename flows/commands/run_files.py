"""`assay run A B`: several experiments one after another, and with `--compare` the first against the second."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from flows.commands import compare
from flows.commands.checks import checked_experiment
from flows.commands.output import print_json
from flows.commands.run import run_flow, started_flow
from flows.console import RunConsole
from flows.duration import parse_duration
from flows.runtime import assay_home
from schemas.errors import AssayError, ConfigError
from schemas.run import RunResult
from tasks.compare.runs import MARGIN, check_margin
from tasks.record.open import check_disk

_TWO = 2
_INTERRUPTED = (130, 143)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparing:
    """How the two runs are compared. margin: None for that of `assay compare`."""

    margin: float | None = None
    fail_on: str | None = None
    markdown: bool = False


def check_usage(
    *,
    files: Sequence[str],
    resume: str | None,
    comparing: Comparing | None,
    as_json: bool,
    alone: Mapping[str, bool],
) -> None:
    """Raises ConfigError for arguments that do not go together. alone: which options were given that say how to
    compare."""
    if comparing is None:
        given = [name for name, was in alone.items() if was]
        if given:
            raise ConfigError.one(
                f"{' and '.join(given)} goes with --compare only", suggestion="assay run A.yaml B.yaml --compare"
            )
    elif resume is not None:
        raise ConfigError.one(
            "--compare runs two files from their beginning, and --resume goes on with one run",
            suggestion="assay run --resume RUN, then assay compare A B",
        )
    elif len(files) != _TWO:
        raise ConfigError.one(
            f"--compare takes two files, the candidate and the baseline, not {len(files)}",
            suggestion="assay run A.yaml B.yaml --compare; `assay compare` takes runs that are there",
        )
    elif as_json and comparing.markdown:
        raise ConfigError.one("--markdown and --json are two formats", suggestion="give one of them")
    else:
        check_margin(MARGIN if comparing.margin is None else comparing.margin)
    if resume is not None and len(files) > 1:
        raise ConfigError.one(f"--resume goes on with one run, not with {len(files)} files", suggestion="one at a time")


def run_files(
    *,
    files: Sequence[str],
    overrides: Sequence[str],
    limit: int | None,
    max_time: str | None,
    comparing: Comparing | None,
    as_json: bool,
) -> int:
    """Runs them in their order and gives the exit code: of the first run that did not end well, else of the comparison.

    What is wrong with any of the files is said before the first one starts. A run that fails does not keep the next one
    from running; an interrupt does. as_json: one object on stdout, however it ends."""
    runs: list[dict[str, Any]] = []
    comparison: dict[str, Any] | None = None
    code = 0
    try:
        if max_time is not None:
            parse_duration(max_time)
        check_disk(assay_home())
        _check_all(files, overrides=overrides, limit=limit)
        with started_flow(assay_home()) as flow:
            for file in files:
                runs.append({"file": file} | _one(flow, file=file, overrides=overrides, limit=limit, max_time=max_time))
                if runs[-1]["exit_code"] in _INTERRUPTED:
                    break
        code = next((int(run["exit_code"]) for run in runs if run["exit_code"]), 0)
        if comparing is not None:
            comparison = _compared(runs, comparing, show=not as_json)
            code = code or (0 if comparison is None else int(comparison["exit_code"]))
    except AssayError as error:
        if as_json:
            print_json({"runs": runs, "comparison": None, "exit_code": error.exit_code, "error": str(error)})
        raise
    if as_json:
        print_json({"runs": runs, "comparison": comparison, "exit_code": code})
    return code


def _check_all(files: Sequence[str], *, overrides: Sequence[str], limit: int | None) -> None:
    problems = []
    for file in files:
        try:
            checked_experiment(file, overrides=overrides, limit=limit, home=assay_home())
        except ConfigError as error:
            problems += [problem for problem in error.problems if problem not in problems]
    if problems:
        raise ConfigError(problems)


def _one(
    flow: Callable[..., RunResult], *, file: str, overrides: Sequence[str], limit: int | None, max_time: str | None
) -> dict[str, Any]:
    try:
        return run_flow(
            flow,
            home=assay_home(),
            file=file,
            overrides=overrides,
            limit=limit,
            max_time=max_time,
            started=time.monotonic(),
        )
    except AssayError as error:
        typer.echo(f"error: {error}", err=True)
        for note in getattr(error, "__notes__", []):
            typer.echo(note, err=True)
        return {"status": "failed", "exit_code": error.exit_code, "error": str(error)}


def _compared(runs: Sequence[Mapping[str, Any]], comparing: Comparing, *, show: bool) -> dict[str, Any] | None:
    """The comparison for JSON, shown first where it is asked for; None where one of the two did not finish."""
    unfinished = [f"{run['file']} is {run['status']}" for run in runs if run["status"] != "finished"]
    if len(runs) < _TWO or unfinished:
        RunConsole().warn(f"not compared: {', '.join(unfinished)}")
        return None
    asked = compare.Asked(
        candidate=str(runs[0]["run_id"]),
        baseline=str(runs[1]["run_id"]),
        metrics=[],
        margin=MARGIN if comparing.margin is None else comparing.margin,
    )
    shown = compare.Shown(markdown=comparing.markdown)
    comparison = compare.compared(asked)
    code = compare.exit_code(comparison, fail_on=comparing.fail_on)
    if show:
        compare.show(comparison, shown, code=code, saved=True)
    return compare.json_object(comparison, flips=shown.flips) | {"saved": True, "exit_code": code}
