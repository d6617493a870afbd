"""The command that measures load."""

from typing import Annotated

import typer

from flows.commands.options import Json

app = typer.Typer()


@app.command()
def bench(  # noqa: PLR0913, PLR0917 - a parameter for each option
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="An experiment's YAML file, or its name in configs."),
    ] = None,
    concurrency: Annotated[
        str | None, typer.Option("--concurrency", metavar="N,M", help="Requests in flight: a closed load of each.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option("--rate", metavar="R,S", help="Requests a second: an open load (Poisson) of each.")
    ] = None,
    requests: Annotated[
        int | None, typer.Option("--requests", min=1, metavar="N", help="Measured requests of each cell.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0.1, metavar="S", help="Or: how long each cell sends.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option("--repeats", min=1, metavar="N", help="How often each is measured, in turns.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key, as in --set benchmark.warmup=16. Repeatable."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="The most samples of each dataset.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="RUN", help="Go on with an interrupted run (its id, or `last`).")
    ] = None,
    json_: Json = False,
) -> None:
    """Measure the load of an experiment's `benchmark:` block, and nothing else: latencies, throughput, goodput, energy.

    `assay run FILE` answers and scores first, and measures then; this leaves that out. --concurrency and --rate put
    other loads in place of the file's, and need no block in it. Each cell warms up first; repeats are measured in turns
    (A B B A). `assay compare A B` says whether one is slower, beyond noise.

    Exit codes: 0 done, 1 the run failed, 2 bad usage or config, 3 a gate failed, 130 and 143 interrupted.

    Examples: `assay bench quickstart --concurrency 1,8`, `assay bench my.yaml --rate 2,4 --seconds 30 --repeats 5`,
    `assay bench service --set benchmark.slo.ttft_ms=300`
    """
    from flows.commands.bench import run_bench  # noqa: PLC0415

    raise typer.Exit(
        run_bench(
            file=file,
            concurrency=concurrency,
            rate=rate,
            requests=requests,
            seconds=seconds,
            repeats=repeats,
            overrides=overrides or [],
            limit=limit,
            resume=resume,
            as_json=json_,
        )
    )
