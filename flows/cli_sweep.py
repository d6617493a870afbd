"""The command over many settings of one experiment."""

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
