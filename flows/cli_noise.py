"""The command over one experiment at several batch sizes."""

from typing import Annotated

import typer

from flows.commands.options import Json

app = typer.Typer()


@app.command()
def noise(
    file: Annotated[str, typer.Argument(metavar="FILE", help="An experiment's YAML file, or its name in configs.")],
    concurrency: Annotated[
        str, typer.Option("--concurrency", metavar="N,M", help="Requests that run at once, in each of the runs.")
    ] = "1,16",
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change a key, as in --set sampling.temperature=0. Repeatable."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="The most samples of each dataset.")
    ] = None,
    json_: Json = False,
) -> None:
    """Measure how far each metric moves when nothing changes but how many requests the engine runs at once.

    The same greedy experiment runs once for each number, with the same settings otherwise; its answers are never taken
    from an earlier run. Of each metric: its value at each, the samples that changed both ways, the answers whose text
    differs, and the band, which is the largest difference. `assay compare` then says how large it was.

    Exit codes: 0 measured, 1 a run failed, 2 bad usage or config, 130 and 143 interrupted.

    Examples: `assay noise quickstart --limit 20`, `assay noise my.yaml --concurrency 1,8,64`
    """
    from flows.commands.noise import measure_noise  # noqa: PLC0415

    raise typer.Exit(
        measure_noise(file=file, concurrency=concurrency, overrides=overrides or [], limit=limit, as_json=json_)
    )
