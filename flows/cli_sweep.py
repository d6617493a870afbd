"""The command over many settings of one experiment."""

import re
from typing import Annotated

import typer

from flows.commands.options import Json

app = typer.Typer()


@app.command()
def sweep(
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="A sweep's YAML file, or its name in configs/sweeps.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the experiment in every cell. Repeatable."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="The most samples of each dataset.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option("--repeats", min=1, max=100, metavar="N", help="How often each cell runs.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only print the runs in order, and run nothing.")] = False,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="RUN", help="Go on with an interrupted sweep: its id, or last.")
    ] = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="With --resume: run cells that failed or took too long once more.")
    ] = False,
    json_: Json = False,
) -> None:
    """Run one experiment under every combination of some settings (`matrix:` in the file).

    Cells whose plans ask for the same engine share one: it is built once, and forgets its cached prefixes in between.
    Every cell is a run of its own, in MLflow and in SQL too, with the tag sweep=ID. A cell that fails, or takes longer
    than `cell_time_limit_s`, is recorded, and the next one begins.

    Exit codes: 0 every cell finished, 1 one did not, 2 bad usage or config, 130 and 143 interrupted.

    Examples: `assay sweep engine-matrix`, `assay sweep my.yaml --repeats 3`, `assay sweep --resume last`
    """
    from flows.commands.sweep import run_sweep, show_sweep_plan  # noqa: PLC0415

    if plan and file is not None:
        show_sweep_plan(file=file, overrides=overrides or [], limit=limit, repeats=repeats, as_json=json_)
        return
    raise typer.Exit(
        run_sweep(
            file=file,
            overrides=overrides or [],
            limit=limit,
            repeats=repeats,
            resume=resume,
            retry=retry,
            as_json=json_,
        )
    )


@app.command()
def ablate(  # noqa: PLR0913, PLR0917 - one an option
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="An experiment's YAML file, or its name in configs.")
    ] = None,
    over: Annotated[
        str,
        typer.Option(
            "--over",
            metavar="KEY,KEY=V|V",
            help="What is changed, one after another: keys of the engine, with values of your own or without.",
        ),
    ] = "",
    rounds: Annotated[
        int, typer.Option("--rounds", min=1, max=50, metavar="N", help="How often everything runs, in turns.")
    ] = 3,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="The most samples of each dataset.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the experiment in every run. Repeatable."),
    ] = None,
    engines: Annotated[
        int,
        typer.Option(
            "--engines", min=1, max=64, metavar="N", help="Engines that may stand at once. 1: built anew each round."
        ),
    ] = 1,
    time_limit: Annotated[
        int, typer.Option("--cell-time-limit", min=1, metavar="S", help="Seconds to start an engine, and to answer.")
    ] = 3600,
    whole: Annotated[bool, typer.Option("--all", help="Every figure, with its interval and verdict.")] = False,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="RUN", help="Go on with an interrupted ablation: its id, or last.")
    ] = None,
    json_: Json = False,
) -> None:
    """Measure what each choice of the engine is worth: one changed at a time against the planned engine.

    Everything runs once a round, in turns, with engines built anew each time. The table has, for each changed choice,
    latency, throughput, memory, start-up and energy as multiples of the planned engine's, with 95 % intervals over the
    rounds, and how many answers are other ones. Without --over: CUDA graphs, compiling, the prefill policy, the prefix
    cache, and everything left to vLLM at once.

    Exit codes: 0 every run finished, 1 one did not, 2 bad usage or config, 130 and 143 interrupted.

    Examples: `assay ablate quickstart --limit 20`, `assay ablate my.yaml --over engine.cudagraph`,
    `assay ablate my.yaml --over "engine.max_num_seqs=8|64" --rounds 5`
    """
    from flows.commands.ablate import run_ablation  # noqa: PLC0415

    parameters = {
        "config": file or "",
        # A comma inside of brackets belongs to a value.
        "over": [each.strip() for each in re.split(r",(?![^\[{]*[\]}])", over) if each.strip()],
        "rounds": rounds,
        "limit": limit or 0,
        "overrides": overrides or [],
        "engines_at_once": engines,
        "cell_time_limit_s": time_limit,
        "resume": resume or "",
    }
    raise typer.Exit(run_ablation(parameters=parameters, resume=resume, whole=whole, as_json=json_))
