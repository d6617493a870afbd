"""The commands over runs: comparing two, judging one by its gates, pinning the one that later runs are held against."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import Json

app = typer.Typer()


class FailOn(StrEnum):
    """Which verdicts make the exit code 3."""

    worse = "worse"
    undecided = "undecided"


def _runs(incomplete: str) -> list[str]:
    """What Tab offers for a run: ids, newest first, `last` and the baselines."""
    from flows.runtime import assay_home  # noqa: PLC0415
    from tasks.compare.names import BASELINE, holders, run_list  # noqa: PLC0415

    rows = run_list(assay_home())
    ids = [str(row["run_id"]) for row in reversed(rows)]
    named = [f"{BASELINE}{name}" for name in sorted(holders(rows))]
    return [name for name in ("last", *named, *ids) if name.startswith(incomplete)]


def _baselines(incomplete: str) -> list[str]:
    return [name for name in _runs("baseline:") if name.startswith(incomplete)]


_RUN = "a run's id, the beginning of one, `last` or baseline:NAME; with :ARM behind it, one arm of it."
FailsOn = Annotated[
    FailOn | None,
    typer.Option("--fail-on", help="Exit with 3 where a metric is worse; `undecided`: or is not decided."),
]
Margin = Annotated[
    float | None, typer.Option("--margin", metavar="X", help="A loss up to it still counts as the same; 0.02.")
]
Candidate = Annotated[str, typer.Argument(metavar="A", help=f"The candidate: {_RUN}", autocompletion=_runs)]
Baseline = Annotated[str, typer.Argument(metavar="B", help=f"The baseline: {_RUN}", autocompletion=_runs)]


@app.command()
def compare(  # noqa: PLR0913, PLR0917 - a parameter for each option
    candidate: Candidate,
    baseline: Baseline,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", "-m", metavar="M", help="Only this one: exact_match, or gsm8k.exact_match. Repeatable."
        ),
    ] = None,
    margin: Annotated[
        float, typer.Option("--margin", metavar="X", help="A loss up to it still counts as the same.")
    ] = 0.02,
    speed_margin: Annotated[
        float,
        typer.Option("--speed-margin", metavar="X", help="So much slower under load is not worse yet; 0.05 is 5 %."),
    ] = 0.0,
    flips: Annotated[
        int, typer.Option("--flips", min=0, metavar="N", help="Show so many changed samples a metric and way.")
    ] = 5,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a pull request.")] = False,
    json_: Json = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write there; .md and .json tell the format.")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page of its own, too.")] = None,
    fail_on: FailsOn = None,
    no_save: Annotated[bool, typer.Option("--no-save", help="Do not keep it for SQL and `regressions`.")] = False,
) -> None:
    """Compare run A with run B, or two arms of one run, sample by sample: is A better, worse, or the same?

    Samples join by their id. Each metric gets the paired difference with its interval, a p value (Holm over all) and a
    verdict; the samples that changed are listed. Another prompt, model, engine or version is reported. Another target,
    or another version of a metric, is refused.

    Where both measured the same load, its times and rates are compared too, point by point over their repeats.

    Two runs of `assay grammars` are compared schema by schema, a backend with itself or with the one named: coverage by
    split, times, and as many schemas that came out otherwise as --flips says.

    Exit codes: 0 compared (whatever the verdict), 2 refused, 3 what --fail-on says.

    Examples: `assay compare last baseline:main`, `assay compare last:guided last:free`,
    `assay compare 20261128T0021 20261127 --metric exact_match --markdown --out pr.md`
    """
    from flows.commands.compare import Asked, Shown, compare_and_show  # noqa: PLC0415

    asked = Asked(
        candidate=candidate,
        baseline=baseline,
        metrics=metric or [],
        margin=margin,
        save=not no_save,
        speed_margin=speed_margin,
    )
    shown = Shown(flips=flips, markdown=markdown, as_json=json_, out=out, html=html)
    raise typer.Exit(compare_and_show(asked, shown, fail_on=None if fail_on is None else fail_on.value))


@app.command()
def gate(  # noqa: PLR0913, PLR0917 - a parameter for each option
    run: Annotated[
        str, typer.Argument(metavar="[RUN]", help="A run's id, the beginning of one, or `last`.", autocompletion=_runs)
    ] = "last",
    file: Annotated[
        str | None, typer.Option("--file", metavar="FILE", help="The gates of this experiment, not the run's own.")
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against",
            metavar="RUN",
            help="Hold it against these, not what the gates name: last_green, baseline:NAME or an id. Repeatable.",
            autocompletion=_baselines,
        ),
    ] = None,
    flips: Annotated[
        int, typer.Option("--flips", min=0, metavar="N", help="Markdown: so many changed samples a metric and way.")
    ] = 10,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a pull request.")] = False,
    json_: Json = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write there; .md and .json tell the format.")
    ] = None,
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML, too, for CI.")] = None,
    no_save: Annotated[bool, typer.Option("--no-save", help="Do not keep the verdicts.")] = False,
) -> None:
    """Judge the gates of a finished run, from what is stored: is it good enough to release?

    `assay run` does the same at its end. The verdicts take the place of earlier ones, unless the gates are not the
    run's own (--file, --against).

    Exit codes: 0 none failed, 2 refused, or a gate cannot be judged, 3 a gate failed.

    Examples: `assay gate`, `assay gate last --against baseline:main`,
    `assay gate last --file release-gate.yaml --markdown --junit gates.xml`
    """
    from flows.commands.gate import Asked, Shown, judge_and_show  # noqa: PLC0415

    asked = Asked(run=run, file=file, against=against or [], save=not no_save)
    shown = Shown(flips=flips, markdown=markdown, as_json=json_, out=out, junit=junit)
    raise typer.Exit(judge_and_show(asked, shown))


@app.command()
def promote(
    run: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="A run's id, the beginning of one, or `last`.", autocompletion=_runs),
    ] = None,
    as_: Annotated[
        str | None,
        typer.Option("--as", metavar="baseline:NAME", help="The name it gets.", autocompletion=_baselines),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take the name of --as from it; without --as, all.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the baselines.")] = False,
    json_: Json = False,
) -> None:
    """Pin a finished run as a baseline by a name, for `assay compare last baseline:NAME` and for gates.

    One run has a name at a time: giving it to another takes it from the first. A baseline is never pruned. The name is
    the run's tag `baseline`, here and in MLflow.

    Examples: `assay promote last --as baseline:main`, `assay promote --list`,
    `assay promote 20261128T0021 --remove --as baseline:main`

    Exit codes: 0 done, 2 refused.
    """
    from flows.commands.promote import demote_run, list_baselines, promote_run  # noqa: PLC0415
    from schemas.errors import ConfigError  # noqa: PLC0415

    if list_:
        if run is not None or as_ is not None or remove:
            raise ConfigError.one("--list goes alone", suggestion="assay promote --list")
        list_baselines(as_json=json_)
    elif run is None:
        raise ConfigError.one("name a run", suggestion="assay promote last --as baseline:main")
    elif remove:
        demote_run(given=run, name=as_, as_json=json_)
    elif as_ is None:
        raise ConfigError.one("name what it becomes", suggestion=f"assay promote {run} --as baseline:main")
    else:
        promote_run(given=run, name=as_, as_json=json_)
