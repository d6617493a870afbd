"""The `assay` command. Each command imports what it needs when it runs, so that `assay --help` is there at once."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from schemas.errors import AssayError, ConfigError

app = typer.Typer(
    name="assay",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Did a model, a prompt, an engine setting or an upgrade make answers worse, less well-formed, slower, dearer?"
    " One YAML file describes the experiment; assay runs it, scores it, and keeps every sample and timing for SQL.",
    epilog="Start with: assay run quickstart",
)
models_app = typer.Typer(help="The models that configs know; `models prepare NAME` downloads or converts one.")
datasets_app = typer.Typer(help="The datasets that configs know.")
import_app = typer.Typer(help="Bring in what another assay recorded: `assay import warehouse DIR|ZIP`.")
app.add_typer(import_app, name="import")
app.add_typer(models_app, name="models")
app.add_typer(datasets_app, name="datasets")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, last, on stdout.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key, as in --set engine.prefill.policy=off. Repeatable."),
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="The most samples of each dataset.")]
Experiment = Annotated[str, typer.Argument(metavar="FILE", help="An experiment's YAML file, or its name in configs.")]
PrefectPort = Annotated[int, typer.Option("--prefect-port", help="Where Prefect's pages are.")]
MlflowPort = Annotated[int, typer.Option("--mlflow-port", help="Where MLflow's pages are.")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, as `assay runs` lists them, or `last`.")]


@app.command()
def run(
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="An experiment's YAML file, or its name in configs.")
    ] = None,
    overrides: Overrides = None,
    limit: Limit = None,
    max_time: Annotated[
        str | None, typer.Option("--max-time", metavar="T", help="Stop generating after T: 90, 90s, 15m, 2h.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="RUN", help="Go on with an interrupted run (its id, or `last`).")
    ] = None,
    json_: Json = False,
) -> None:
    """Run an experiment: profile, plan, build the engine, generate and validate, score, report.

    Exit codes: 0 done, 1 the run failed, 2 bad usage or config, 130 and 143 interrupted (it can be resumed).

    Examples: `assay run quickstart`, `assay run my.yaml --limit 20 --set sampling.max_tokens=20`,
    `assay run --resume last`
    """
    from flows.commands.run import run_experiment  # noqa: PLC0415

    code = run_experiment(
        file=file, overrides=overrides or [], limit=limit, max_time=max_time, resume=resume, as_json=json_
    )
    raise typer.Exit(code)


@app.command()
def plan(file: Experiment, overrides: Overrides = None, limit: Limit = None, json_: Json = False) -> None:
    """Print what `assay run` would do: requests, tokens, each engine option and why, the time. Runs nothing."""
    from flows.commands.plan import show_plan  # noqa: PLC0415

    show_plan(file=file, overrides=overrides or [], limit=limit, as_json=json_)


@app.command()
def validate(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Experiment files.")], json_: Json = False
) -> None:
    """Check experiment files and the data they name; say file, line, key and the nearest right one."""
    from flows.commands.inspect import validate_files  # noqa: PLC0415

    raise typer.Exit(validate_files(files=files, as_json=json_))


@app.command()
def sql(  # noqa: PLR0913, PLR0917 - a parameter for each option
    query: Annotated[
        str | None, typer.Argument(metavar="[QUERY]", help='One SELECT, as in "FROM leaderboard"; - reads stdin.')
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read the query from it.")] = None,
    example: Annotated[int | None, typer.Option("--example", metavar="N", help="Ask question N of --examples.")] = None,
    examples: Annotated[bool, typer.Option("--examples", help="List 25 questions with their SQL.")] = False,
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
    json_: Json = False,
) -> None:
    """Write one run as a folder or a zip that another assay can import: tables, report, config, log, checksums.

    The folder can be asked as it is: `ASSAY_HOME=that-folder assay sql "FROM leaderboard"`.

    Examples: `assay export last`, `assay export last --out for-ana.zip`, `assay export last --out run-of-monday`
    """
    from flows.commands.warehouse import export as export_one  # noqa: PLC0415

    export_one(run_id=run, out=out, as_json=json_)


@import_app.callback(invoke_without_command=True)
def import_(context: typer.Context) -> None:
    """Bring in what another assay recorded: `assay import warehouse DIR|ZIP`."""
    if context.invoked_subcommand is None:
        raise ConfigError.one("say what to import", suggestion="assay import warehouse DIR|ZIP")


@import_app.command("warehouse")
def import_warehouse(
    source: Annotated[Path, typer.Argument(metavar="DIR|ZIP", help="Another ASSAY_HOME, or what export wrote.")],
    json_: Json = False,
) -> None:
    """Merge another host's warehouse, or one exported run, into this one.

    A run that is here already stays as it is, so that importing twice is importing once; one of the same id with other
    rows is refused by name. Each run appears as a whole or not at all, whatever is killed.

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
    has not got yet. MLflow's and Prefect's own records stay. --status and --tag narrow what is spoken of.

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
def runs(json_: Json = False) -> None:
    """List the runs, newest first."""
    from flows.commands.inspect import list_runs  # noqa: PLC0415

    list_runs(as_json=json_)


@app.command()
def show(run: RunId, json_: Json = False) -> None:
    """Show one run: what it was, its metrics, where its report is."""
    from flows.commands.inspect import show_run  # noqa: PLC0415

    show_run(run_id=run, as_json=json_)


@app.command()
def report(run: RunId, open_: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False) -> None:
    """Write a run's report again from the warehouse, and print its path."""
    from flows.commands.inspect import make_report  # noqa: PLC0415

    make_report(run_id=run, open_=open_)


@app.command()
def sync(json_: Json = False) -> None:
    """Bring to MLflow what it missed while it was down, slow or full. Exit codes: 0 nothing is left, 1 something is.

    A run does that too, for the runs before it, within seconds; this takes as long as it takes.
    """
    from flows.commands.sync import sync_tracking  # noqa: PLC0415

    raise typer.Exit(sync_tracking(as_json=json_))


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


@app.command()
def doctor(json_: Json = False) -> None:
    """Say what works on this machine: CPU, GPU, vLLM, disk, ports, settings; each with the cure."""
    from flows.commands.doctor import examine  # noqa: PLC0415

    raise typer.Exit(examine(as_json=json_))


@app.command()
def schema() -> None:
    """Print the JSON Schema of the experiment file, for editors."""
    from flows.commands.inspect import print_schema  # noqa: PLC0415

    print_schema()


@app.command()
def ui(
    mlflow_port: MlflowPort = 5000,
    prefect_port: PrefectPort = 4200,
) -> None:
    """Serve the recorded runs in MLflow's and Prefect's pages, on this machine only, until Ctrl-C."""
    from flows.commands.ui import serve  # noqa: PLC0415

    raise typer.Exit(serve(mlflow_port=mlflow_port, prefect_port=prefect_port))


@app.command()
def up(
    prefect_port: PrefectPort = 4200,
    mlflow_port: MlflowPort = 5000,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return when all is healthy; it goes on.")] = False,
    status: Annotated[bool, typer.Option("--status", help="Only say what is up; exit code 1 if nothing is.")] = False,
    json_: Json = False,
) -> None:
    """Start the Prefect server, the MLflow server and a worker for each pool, on this machine only.

    Registers the deployments of prefect.yaml: launch them from Prefect's pages, or let their schedules do it. While it
    is up, `assay run` reports to the same servers. Ctrl-C or `assay down` stops all; a run in progress can be resumed.
    """
    from flows.commands import up as command  # noqa: PLC0415

    if status:
        raise typer.Exit(command.status(as_json=json_))
    raise typer.Exit(command.up(prefect_port=prefect_port, mlflow_port=mlflow_port, detach=detach))


@app.command()
def down() -> None:
    """Stop what `assay up` started, and wait until it has."""
    from flows.commands import up as command  # noqa: PLC0415

    raise typer.Exit(command.down())


@app.command()
def worker(pool: Annotated[str, typer.Argument(metavar="POOL", help="gpu or cpu.")]) -> None:
    """Become Prefect's worker for a pool: what a service on a GPU host runs. ASSAY_PREFECT_API_URL names the server."""
    from flows.commands.worker import work  # noqa: PLC0415

    work(pool=pool)


@app.command()
def deploy(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Another prefect.yaml than the one here.")
    ] = None,
) -> None:
    """Register pools, limits, deployments and automations with a Prefect server; again after configs were added.

    The server is the one that ASSAY_PREFECT_API_URL names, else that of `assay up`. The form's choices of experiments,
    models and datasets are those that stand here now.
    """
    from flows.commands.worker import deploy as register  # noqa: PLC0415

    raise typer.Exit(register(file=file))


@models_app.callback(invoke_without_command=True)
def models(context: typer.Context, json_: Json = False) -> None:
    """List the models that configs know."""
    if context.invoked_subcommand is None:
        from flows.commands.inspect import list_models  # noqa: PLC0415

        list_models(as_json=json_)


@models_app.command("prepare")
def prepare_model(name: Annotated[str, typer.Argument(metavar="NAME", help="A model's name, path or hub id.")]) -> None:
    """Get a model ready: download it, or turn its GGUF into a Hugging Face folder. Done once."""
    from flows.commands.inspect import prepare  # noqa: PLC0415

    prepare(name=name)


@datasets_app.callback(invoke_without_command=True)
def datasets(context: typer.Context, json_: Json = False) -> None:
    """List the datasets that configs know."""
    if context.invoked_subcommand is None:
        from flows.commands.inspect import list_datasets  # noqa: PLC0415

        list_datasets(as_json=json_)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415

        typer.echo(version("assay"))
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print assay's version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Nothing to do before a command."""


def main() -> None:
    """The entry point: assay's own errors become a message and their exit code, an interrupt 130 or 143."""
    from flows.signals import Terminated, raise_on_sigterm  # noqa: PLC0415

    raise_on_sigterm()
    try:
        app(standalone_mode=True)
    except AssayError as error:
        typer.echo(f"error: {error}", err=True)
        for note in getattr(error, "__notes__", []):
            typer.echo(note, err=True)
        sys.exit(error.exit_code)
    except Terminated:
        typer.echo("terminated", err=True)
        sys.exit(143)


if __name__ == "__main__":
    main()
