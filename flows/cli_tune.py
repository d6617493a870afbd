"""The command that searches for the best engine."""

from typing import Annotated

import typer

from flows.commands.options import Json

app = typer.Typer()


@app.command()
def tune(
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="A tuning's YAML file, or its name in configs/tunings.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option("--trials", min=3, metavar="N", help="How many settings are run.")
    ] = None,
    time_limit: Annotated[
        str | None,
        typer.Option("--time-limit", metavar="T", help="No trial begins after this time of them all: 90s, 15m, 2h."),
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="RUN", help="Go on with a tuning: its id, or last.")
    ] = None,
    json_: Json = False,
) -> None:
    """Search engine options (`tune:` in the file) for the best throughput, latency or goodput.

    The plan's own engine and vLLM's defaults are measured first. A setting that does not run, or misses the SLO, is
    recorded with its reason, and the search goes on. The winner is held against both under the full load, in turns. The
    engine to use is then a file for `assay run FILE --set engine=PATH`. Every trial is a run of its own, with the tag
    tuning=ID.

    Exit codes: 0 there is an answer, 1 no setting ran, 2 bad usage or config, 130 and 143 interrupted.

    Examples: `assay tune quickstart-engine`, `assay tune my.yaml --trials 50`, `assay tune --resume last`
    """
    from flows.commands.tune import run_tuning  # noqa: PLC0415

    raise typer.Exit(run_tuning(file=file, trials=trials, time_limit=time_limit, resume=resume, as_json=json_))
