"""The commands over what was recorded: asking it, carrying it elsewhere, keeping it in bounds."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import Json, RunId
from schemas.errors import ConfigError


class ExportFormat(StrEnum):
    """How a run is written."""

    assay = "assay"
    vllm_bench = "vllm-bench"


app = typer.Typer()
import_app = typer.Typer(help="Bring in what another assay recorded, or the samples that another tool logged.")
app.add_typer(import_app, name="import")


@app.command()
def sql(  # noqa: PLR0913, PLR0917 - a parameter for each option
    query: Annotated[
        str | None, typer.Argument(metavar="[QUERY]", help='One SELECT, as in "FROM leaderboard"; - reads stdin.')
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read the query from it.")] = None,
    example: Annotated[int | None, typer.Option("--example", metavar="N", help="Ask question N of --examples.")] = None,
    examples: Annotated[bool, typer.Option("--examples", help="List questions with their SQL.")] = False,
    shell: Annotated[bool, typer.Option("--shell", help="Ask at a prompt that completes names.")] = False,
    format_: Annotated[
        str | None, typer.Option("--format", metavar="F", help="table, json, csv, markdown or parquet.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write there; its ending tells the format.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="The most rows to print.")] = None,
    at: Annotated[str | None, typer.Option("--at", metavar="URL", help="Ask what was pushed to s3://bucket/x.")] = None,
) -> None:
    """Ask the warehouse in SQL: every run, sample, request, score and timing.

    One statement that reads is taken; nothing can be written, and no other file read. Wrong names get the nearest one.

    Examples: `assay sql "FROM leaderboard"`, `assay sql "DESCRIBE requests"`, `assay sql -f question.sql --out a.csv`,
    `assay sql --examples`, `assay sql --example 3 --format markdown`, `assay sql --shell`

    Exit codes: 0 answered, 2 refused or wrong, 130 interrupted.
    """
    if at is not None and (examples or shell):
        raise typer.BadParameter("it takes one question", param_hint="--at")
    if examples:
        from flows.commands.sql import list_examples  # noqa: PLC0415

        list_examples()
    elif shell:
        from flows.commands.shell import run_shell  # noqa: PLC0415

        raise typer.Exit(run_shell())
    else:
        from flows.commands.sql import run_query  # noqa: PLC0415

        run_query(text=query, file=file, example=example, format_=format_, out=out, limit=limit, at=at)


@app.command()
def export(
    run: RunId,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR|FILE.zip", help="Where to; RUN.zip in this folder if left out."),
    ] = None,
    format_: Annotated[
        ExportFormat,
        typer.Option("--format", metavar="F", help="assay, or vllm-bench: a JSON file for each measured cell."),
    ] = ExportFormat.assay,
    json_: Json = False,
) -> None:
    """Write one run as a folder or a zip that another assay can import: tables, report, config, log, checksums.

    The folder can be asked as it is: `ASSAY_HOME=that-folder assay sql "FROM leaderboard"`. With --format vllm-bench, a
    folder with what `vllm bench serve --save-result --save-detailed` writes, for each cell of a measured load.

    Examples: `assay export last`, `assay export last --out for-ana.zip`, `assay export last --out run-of-monday`,
    `assay export last --format vllm-bench --out results`
    """
    if format_ is ExportFormat.vllm_bench:
        from flows.commands.load_export import export_load  # noqa: PLC0415

        export_load(run_id=run, out=out, as_json=json_)
        return
    from flows.commands.warehouse import export as export_one  # noqa: PLC0415

    export_one(run_id=run, out=out, as_json=json_)


@import_app.callback(invoke_without_command=True)
def import_(context: typer.Context) -> None:
    """Bring in what another assay recorded, or the samples that another tool logged.

    Examples: `assay import warehouse /mnt/gpu-host/assay`, `assay import lm-eval results/NAME/`
    """
    if context.invoked_subcommand is None:
        kinds = ", ".join(sorted(context.command.commands))  # type: ignore[attr-defined]
        raise ConfigError.one(f"say what to import: {kinds}", suggestion="assay import warehouse DIR|ZIP")


@import_app.command("warehouse")
def import_warehouse(
    source: Annotated[Path, typer.Argument(metavar="DIR|ZIP", help="Another ASSAY_HOME, or what export wrote.")],
    json_: Json = False,
) -> None:
    """Merge another host's warehouse, or one exported run, into this one.

    A run that is here already stays as it is, so that importing twice is importing once; what was added to it after its
    end (comparisons, baselines) is merged. One of the same id with other rows is refused by name. Each run appears as a
    whole or not at all, whatever is killed.

    Examples: `assay import warehouse /mnt/gpu-host/assay`, `assay import warehouse for-ana.zip`

    Exit codes: 0 done, 1 a run was refused or the data is of a newer assay, 2 no warehouse there, or it was changed.
    """
    from flows.commands.warehouse import import_one  # noqa: PLC0415

    raise typer.Exit(import_one(source=source, as_json=json_))


@app.command()
def prune(
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="AGE", help="Runs that ended so long ago: 90d, 12h, 2w.")
    ] = None,
    max_size: Annotated[
        str | None, typer.Option("--max-size", metavar="SIZE", help="Then the oldest, until all take at most: 50GB.")
    ] = None,
    status: Annotated[
        list[str] | None, typer.Option("--status", metavar="S", help="Only such: finished, failed, cancelled, crashed.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", metavar="K[=V]", help="Only runs with this tag.")] = None,
    keep_tag: Annotated[
        list[str] | None, typer.Option("--keep-tag", metavar="K[=V]", help="Never runs with this tag.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without, only say what would go.")] = False,
    json_: Json = False,
) -> None:
    """Say which runs would go and why the others stay; with --yes, delete them: tables, report, log.

    Never a baseline (the tag `baseline`, or what a run that stays was compared with), a running run, or one that MLflow
    has not got yet. MLflow's and Prefect's own records stay. --status and --tag narrow what is spoken of. A sweep, an
    ablation or a tuning goes with all of its runs, as do the runs of a noise band: its own status, tags and end count.

    Examples: `assay prune --older-than 90d`, `assay prune --max-size 50GB --keep-tag release --yes`,
    `assay prune --status failed --status crashed --yes`
    """
    from flows.commands.warehouse import prune_runs  # noqa: PLC0415

    prune_runs(
        older_than=older_than,
        max_size=max_size,
        statuses=status or [],
        tags=tag or [],
        keep_tags=keep_tag or [],
        yes=yes,
        as_json=json_,
    )


@app.command()
def vacuum(
    grace: Annotated[
        str | None,
        typer.Option("--grace", metavar="AGE", help="Keep what was replaced for readers at work: 1h if left out."),
    ] = None,
    json_: Json = False,
) -> None:
    """Tidy the warehouse up: join the parts of ended runs, delete what was replaced or left behind, rebuild the file.

    Runs and readers may go on meanwhile. No row is lost; `assay prune` is what deletes runs.

    Examples: `assay vacuum`, `assay vacuum --grace 0s --json`
    """
    from flows.commands.warehouse import vacuum_home  # noqa: PLC0415

    vacuum_home(grace=grace, as_json=json_)


@app.command()
def push(
    url: Annotated[
        str | None, typer.Argument(metavar="[URL]", help="s3://bucket/prefix; if left out, what ASSAY_PUSH says.")
    ] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="Only this run.")] = None,
    json_: Json = False,
) -> None:
    """Copy the tables to S3-compatible storage, where `assay sql --at URL` asks them. Only what changed is sent.

    The AWS_* variables say where and who: AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY.

    Examples: `assay push s3://results/team`, `assay sql --at s3://results/team "FROM leaderboard"`
    """
    from flows.commands.push import push_tables  # noqa: PLC0415

    push_tables(url=url, run_id=run, as_json=json_)
