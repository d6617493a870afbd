"""The commands that score without an engine: answers of other programs, a finished run again."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli_warehouse import import_app
from flows.commands.options import Json, RunId
from schemas.errors import ConfigError

app = typer.Typer()

Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="[AS=]M[:JSON]",
        help='In place of the dataset\'s own: exact_match, or number=exact_match:{"compare": "number"}. Repeatable.',
    ),
]


@app.command()
def score(  # noqa: PLR0913, PLR0917 - a parameter for each option
    dataset: Annotated[str, typer.Option("--dataset", metavar="NAME|YAML", help="Whose rows were asked.")],
    predictions: Annotated[
        Path, typer.Option("--predictions", metavar="FILE", help="JSON Lines, one answer a line; may be gzipped.")
    ],
    id_field: Annotated[
        str | None, typer.Option("--id-field", metavar="F", help="The field that names the row: id if left out.")
    ] = None,
    by_order: Annotated[
        bool, typer.Option("--by-order", help="The first answer belongs to the first row, and so on.")
    ] = False,
    output_field: Annotated[
        str, typer.Option("--output-field", metavar="F", help="The field of the answer; dots lead deeper.")
    ] = "output",
    arm: Annotated[str, typer.Option("--arm", metavar="ARM", help="The arm that the answers stand for.")] = "free",
    metrics: Metrics = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Only the first N rows.")] = None,
    parser: Annotated[
        str | None,
        typer.Option(
            "--reasoning-parser", metavar="P", help="Takes the reasoning off: think_tags; none: nothing does."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="The run's; the dataset's if left out.")
    ] = None,
    save: Annotated[bool, typer.Option("--save/--no-save", help="Write a run with its report, or only print.")] = True,
    json_: Json = False,
) -> None:
    """Score answers that another program made, over a dataset's rows. No model and no engine are needed.

    A line is {"id": "q1", "output": "42"}; `repeat` (0, 1, …) tells several answers to one row apart, and
    `finish_reason` "length" says that one was cut. Rows without an answer and answers without a row are listed and
    counted.

    Examples: `assay score --dataset arithmetic --predictions answers.jsonl`,
    `assay score --dataset mine.yaml --predictions out.jsonl.gz --output-field response.text --no-save`

    Exit codes: 0 scored, 2 something is wrong with the dataset, the answers or an option.
    """
    from flows.commands.score import score_predictions  # noqa: PLC0415
    from tasks.predictions.offline import Asked  # noqa: PLC0415

    if by_order and id_field is not None:
        raise ConfigError.one("answers are joined by their ids or by their order, not by both", key="--by-order")
    asked = Asked(
        dataset=dataset,
        predictions=predictions,
        id_field=None if by_order else id_field or "id",
        output_field=output_field,
        arm=arm,
        metrics=metrics or [],
        limit=limit,
        parser=parser,
    )
    score_predictions(asked, name=name, save=save, as_json=json_)


@app.command()
def rescore(
    run: RunId,
    metrics: Metrics = None,
    dataset: Annotated[
        str | None, typer.Option("--dataset", metavar="D", help="Only this one of the run's datasets.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change; write nothing.")] = False,
    json_: Json = False,
) -> None:
    """Score a recorded run again from its stored answers: with its own metrics, or with others. No engine is needed.

    The new scores are a new revision of the run, its numbers and its report are made anew. Where a metric has another
    version by now, the scores of the old one stay beside those of the new one, and the table says so.

    What guiding and repairing did (`guide.*`, `repair.*`) is computed again too, as far as the run's rows hold tokens,
    times and validity. Not computed again: whether an answer is valid and `form.*`, times and the machine (`timing.*`),
    `engine.*` and `grammar.*`; they stay as they are.

    Examples: `assay rescore last --dry-run`, `assay rescore last --metric contains --dataset arithmetic`

    Exit codes: 0 done, 2 no such run, or the metrics do not fit.
    """
    from flows.commands.rescore import rescore_run  # noqa: PLC0415

    rescore_run(run_id=run, metrics=metrics or [], dataset=dataset, dry_run=dry_run, as_json=json_)


@app.command("metrics")
def list_metrics(json_: Json = False) -> None:
    """List the metrics that datasets can name, and who brings each: assay, or an installed plugin."""
    from flows.commands.score import list_metrics as list_all  # noqa: PLC0415

    list_all(as_json=json_)


@import_app.command("lm-eval")
def import_lm_eval(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="results_*.json, or the folder that holds it.")],
    json_: Json = False,
) -> None:
    """Bring in a run of lm-evaluation-harness 0.4 that was logged with --log_samples.

    Its samples, answers and values become a run that is compared and asked in SQL; its metrics are named
    `lm_eval.<metric>`. A run that is here already stays as it is.

    Examples: `assay import lm-eval out/my-model`, `assay import lm-eval out/results_2026-01-31T12-00-00.123456.json`

    Exit codes: 0 done, 2 no results there, or without samples.
    """
    from flows.commands.score import import_lm_eval as import_one  # noqa: PLC0415

    import_one(path=path, as_json=json_)


@import_app.command("inspect")
def import_inspect(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A log, .eval or .json, or a folder with one in it.")],
    name: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="DATASET", help="Its dataset's name here, to pair it with a run of that dataset by id."
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """Bring in a log of Inspect (inspect_ai).

    Its samples, epochs, answers, tokens and scores become a run that is compared, asked in SQL and shown in a report;
    its metrics are named `inspect.<scorer>`. `assay rescore` computes assay's own metrics over its answers. A log that
    is here already stays as it is.

    Examples: `assay import inspect logs/2026-01-31T12-00-00_gsm8k_abc.eval`, `assay import inspect logs --as gsm8k`

    Exit codes: 0 done, 2 no log there, without samples, or damaged.
    """
    from flows.commands.score import import_inspect as import_one  # noqa: PLC0415

    import_one(path=path, name=name, as_json=json_)


@import_app.command("lm-eval-task")
def import_lm_eval_task(
    path: Annotated[Path, typer.Argument(metavar="FILE.yaml", help="A task of lm-evaluation-harness.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write it there, as configs/datasets/NAME.yaml.")
    ] = None,
    json_: Json = False,
) -> None:
    """Make a dataset of a task of lm-evaluation-harness, as far as it goes, and list what it could not take.

    The rows, the prompt with its examples, the target, the options, the metrics and their filters are taken. Python
    code (`!function`) is never run: it is listed, with the line where it stands, and so is whatever belongs into the
    experiment.

    Examples: `assay import lm-eval-task lm_eval/tasks/gsm8k/gsm8k.yaml --out configs/datasets/gsm8k.yaml`,
    `assay import lm-eval-task mine.yaml`

    Exit codes: 0 made (what is missing is listed), 2 no task, or nothing useful can be made of it.
    """
    from flows.commands.lm_eval_task import import_task  # noqa: PLC0415

    import_task(path=path, out=out, as_json=json_)
