"""The `assay` command. Each command imports what it needs when it runs, so that `assay --help` is there at once."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from flows import (
    cli_bench,
    cli_compare,
    cli_grammar,
    cli_noise,
    cli_score,
    cli_servers,
    cli_sweep,
    cli_tune,
    cli_warehouse,
)
from flows.commands.options import Json, RunId
from schemas.errors import AssayError

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
app.add_typer(models_app, name="models")
app.add_typer(datasets_app, name="datasets")

Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key, as in --set engine.prefill.policy=off. Repeatable."),
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="The most samples of each dataset.")]


def known_names(incomplete: str) -> list[str]:
    """What Tab offers for a dataset: the datasets and the suites that begin so."""
    from tasks.config.locate import list_names  # noqa: PLC0415
    from tasks.config.suites import suite_names  # noqa: PLC0415

    names = [*(file.name for file in list_names("dataset")), *suite_names()]
    return [name for name in names if name.startswith(incomplete)]


DatasetName = Annotated[
    str,
    typer.Argument(metavar="NAME", help="A dataset's name or path, or that of a suite's.", autocompletion=known_names),
]
LocalRows = Annotated[
    Path | None,
    typer.Option("--path", metavar="PATH", help="Local rows in place of its own: a file, or a folder."),
]
LocalShots = Annotated[
    Path | None, typer.Option("--shots", metavar="FILE", help="Local rows for its few-shot examples.")
]
Experiment = Annotated[str, typer.Argument(metavar="FILE", help="An experiment's YAML file, or its name in configs.")]


@app.command()
def run(  # noqa: PLR0913, PLR0917 - a parameter for each option
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE]...", help="An experiment's YAML file, or its name in configs."),
    ] = None,
    overrides: Overrides = None,
    limit: Limit = None,
    max_time: Annotated[
        str | None, typer.Option("--max-time", metavar="T", help="Stop generating after T: 90, 90s, 15m, 2h.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="RUN", help="Go on with an interrupted run (its id, or `last`).")
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare the first of two files with the second when both have run.")
    ] = False,
    margin: cli_compare.Margin = None,
    fail_on: cli_compare.FailsOn = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the comparison as Markdown.")] = False,
    json_: Json = False,
) -> None:
    """Run an experiment: profile, plan, build the engine, generate and validate, score, report.

    Several files run one after another, each a run of its own; one that fails does not keep the next from running.
    With --compare the first is the candidate and the second the baseline, as in `assay compare A B`, and the comparison
    is kept; it is not made where one of the two did not finish.

    Exit codes: 0 done, 1 a run failed (of several, the first one's code), 2 bad usage or config, 3 a gate failed
    or what --fail-on says, 130 and 143 interrupted (it can be resumed).

    Examples: `assay run quickstart`, `assay run my.yaml --limit 20 --set sampling.max_tokens=20`,
    `assay run new.yaml old.yaml --compare --fail-on worse`, `assay run --resume last`
    """
    from flows.commands.run import run_experiment  # noqa: PLC0415
    from flows.commands.run_files import Comparing, check_usage, run_files  # noqa: PLC0415

    named = files or []
    comparing = None
    if compare:
        comparing = Comparing(margin=margin, fail_on=None if fail_on is None else fail_on.value, markdown=markdown)
    check_usage(
        files=named,
        resume=resume,
        comparing=comparing,
        as_json=json_,
        alone={"--margin": margin is not None, "--fail-on": fail_on is not None, "--markdown": markdown},
    )
    if len(named) > 1:
        code = run_files(
            files=named, overrides=overrides or [], limit=limit, max_time=max_time, comparing=comparing, as_json=json_
        )
    else:
        code = run_experiment(
            file=named[0] if named else None,
            overrides=overrides or [],
            limit=limit,
            max_time=max_time,
            resume=resume,
            as_json=json_,
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
def doctor(json_: Json = False) -> None:
    """Say what works on this machine: CPU, GPU, vLLM, disk, ports, settings; each with the cure."""
    from flows.commands.doctor import examine  # noqa: PLC0415

    raise typer.Exit(examine(as_json=json_))


@app.command()
def schema() -> None:
    """Print the JSON Schema of the experiment file, for editors."""
    from flows.commands.inspect import print_schema  # noqa: PLC0415

    print_schema()


app.add_typer(cli_bench.app)
app.add_typer(cli_compare.app)
app.add_typer(cli_noise.app)
app.add_typer(cli_sweep.app)
app.add_typer(cli_tune.app)
app.add_typer(cli_score.app)
app.add_typer(cli_grammar.app)
app.add_typer(cli_warehouse.app)
app.add_typer(cli_servers.app)


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


@app.command()
def suites(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One suite: all that it states.", autocompletion=known_names)
    ] = None,
    json_: Json = False,
) -> None:
    """List the suites, ready datasets of published benchmarks: licence, source, how many datasets.

    Examples: `assay suites`, `assay suites gsm8k`
    """
    from flows.commands.suites import list_suites, show_suite  # noqa: PLC0415

    if name is None:
        list_suites(as_json=json_)
    else:
        show_suite(name=name, as_json=json_)


@datasets_app.command("show")
def show_dataset(
    name: DatasetName,
    n: Annotated[int, typer.Option("--n", min=1, metavar="N", help="How many samples.")] = 3,
    model: Annotated[str | None, typer.Option("--model", metavar="M", help="A model's name, path or hub id.")] = None,
    arm: Annotated[str, typer.Option("--arm", metavar="ARM", help="free or guided.")] = "free",
    tokens: Annotated[bool, typer.Option("--tokens", help="Print the token ids too.")] = False,
    path: LocalRows = None,
    shots: LocalShots = None,
    json_: Json = False,
) -> None:
    """Print prompts exactly as the engine gets them, with target, choices, grammar, and what was cut.

    Without --model: the messages as the dataset writes them, without a chat template.
    """
    from flows.commands.datasets import show_samples  # noqa: PLC0415
    from flows.commands.local_rows import given_rows  # noqa: PLC0415

    rows = given_rows(path=path, shots=shots)
    show_samples(name=name, n=n, model=model, arm=arm, tokens=tokens, as_json=json_, rows=rows)


@datasets_app.command("profile")
def profile_one_dataset(
    name: DatasetName,
    model: Annotated[str, typer.Option("--model", metavar="M", help="A model's name, path or hub id.")],
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="The most samples.")] = None,
    png: Annotated[Path | None, typer.Option("--png", metavar="FILE", help="Draw the histogram too.")] = None,
    path: LocalRows = None,
    shots: LocalShots = None,
    json_: Json = False,
) -> None:
    """Count a dataset's prompts in a model's tokens; print the histogram and the engine options that follow."""
    from flows.commands.datasets import show_profile  # noqa: PLC0415
    from flows.commands.local_rows import given_rows  # noqa: PLC0415

    rows = given_rows(path=path, shots=shots)
    show_profile(name=name, model=model, limit=limit, as_json=json_, png=png, rows=rows)


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
    from flows import garbage  # noqa: PLC0415
    from flows.signals import Terminated, raise_on_sigterm  # noqa: PLC0415

    garbage.seldom()
    raise_on_sigterm()
    try:
        app(standalone_mode=True)
    except AssayError as error:
        from flows.commands.output import visible_lines  # noqa: PLC0415

        for text in (f"error: {error}", *getattr(error, "__notes__", [])):
            typer.echo(visible_lines(text), err=True)
        sys.exit(error.exit_code)
    except Terminated:
        typer.echo("terminated", err=True)
        sys.exit(143)
    finally:
        garbage.not_at_the_end()


if __name__ == "__main__":
    main()
