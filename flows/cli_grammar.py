"""The commands about grammars: what a backend makes of a schema."""

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import Json
from tasks.guide.backends.known import BACKENDS

app = typer.Typer()
grammar_app = typer.Typer(help="What the grammar backends make of a schema, without any engine.", no_args_is_help=True)
app.add_typer(grammar_app, name="grammar")


def _corpora(incomplete: str) -> list[str]:
    from flows.commands.grammars import corpus_names  # noqa: PLC0415

    return corpus_names(incomplete)


def _backend_lists(incomplete: str) -> list[str]:
    """Each backend that may come next in a list of them."""
    before, comma, begun = incomplete.rpartition(",")
    named = before.split(",")
    return [f"{before}{comma}{name}" for name in BACKENDS if name.startswith(begun) and name not in named]


def _splits(context: typer.Context, incomplete: str) -> list[str]:
    from flows.commands.grammars import split_names  # noqa: PLC0415

    corpus = context.params.get("corpus")
    return split_names(corpus, incomplete) if corpus else []


BackendList = Annotated[
    str,
    typer.Option(
        "--backends", metavar="A,B", help=f"Only these: {', '.join(BACKENDS)}.", autocompletion=_backend_lists
    ),
]


def _names(backends: str) -> list[str]:
    return [name.strip() for name in backends.split(",") if name.strip()]


@grammar_app.callback()
def grammar() -> None:
    """Nothing to do before a command."""


@grammar_app.command("lint")
def lint(
    schema: Annotated[str, typer.Argument(metavar="SCHEMA", help="A JSON Schema's file; - reads stdin.")],
    backends: BackendList = "",
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="M", help="Whose tokenizer is used; without it, one of single bytes."),
    ] = None,
    instances: Annotated[
        Path | None,
        typer.Option("--instances", metavar="FILE", help="Instances to ask with too: JSON Lines, or one JSON list."),
    ] = None,
    whitespace: Annotated[
        bool, typer.Option("--whitespace", help="Allow white space, as `engine.grammar.whitespace: true` does.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of the instances that are made.")] = 0,
    limit_s: Annotated[
        float, typer.Option("--limit-s", min=1, metavar="S", help="The most seconds for each backend.")
    ] = 60.0,
    json_: Json = False,
) -> None:
    """Find out what each grammar backend makes of a JSON Schema: right, refused, or silently wrong.

    Instances are made from the schema, valid ones and ones a step beside it. Each backend, set up as vLLM sets it up,
    is asked whether it would let a model write them, and its answers are compared with the validator's. What it gets
    wrong is shown by the smallest instance found, with the keyword responsible and a rewrite that was tried and helps.

    Under-constrained: it takes what the schema rejects; over-constrained: it rejects what the schema allows. Notes
    (order of keys, closed objects, cost) are no faults. A backend that hangs or crashes costs only its own line.

    Examples: `assay grammar lint schema.json`, `assay grammar lint schema.json --backends xgrammar --model my-model`,
    `assay grammar lint schema.json --instances answers.jsonl --json`

    Exit codes: 0 every backend that an engine can use is right, 1 one is not or does not take the schema, 2 something
    is wrong with the schema, the instances or an option.
    """
    from flows.commands.grammar import lint_schema  # noqa: PLC0415

    raise typer.Exit(
        lint_schema(
            schema=schema,
            backends=_names(backends),
            model=model,
            instances=instances,
            whitespace=True if whitespace else None,
            seed=seed,
            limit_s=limit_s,
            as_json=json_,
        )
    )


@app.command()
def grammars(  # noqa: PLR0913, PLR0917 - one an option
    corpus: Annotated[
        str | None,
        typer.Argument(
            metavar="[CORPUS]",
            help="A name in configs/corpora, its YAML file, or a file of schemas: .jsonl, or a .json list.",
            autocompletion=_corpora,
        ),
    ] = None,
    backends: BackendList = "",
    splits: Annotated[
        list[str] | None,
        typer.Option("--split", metavar="S", help="Only this part. Repeatable.", autocompletion=_splits),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="The most schemas of each split.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", help="Of the draw of --limit. Default: 0.")] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="M", help="The model that answers; without it, no engine is started."),
    ] = None,
    mask_only: Annotated[
        bool, typer.Option("--mask-only", help="No answers: the model's tokenizer alone is used, for the masks.")
    ] = False,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=1, metavar="N", help="The most tokens of an answer. Default: 128.")
    ] = None,
    max_prompt: Annotated[
        int | None,
        typer.Option(
            "--max-prompt",
            min=1,
            metavar="N",
            help="Skip schemas whose prompt has more tokens. Default: as many as fit.",
        ),
    ] = None,
    python: Annotated[
        Path | None,
        typer.Option("--python", metavar="FILE", help="Another environment's interpreter: its vLLM and its backends."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, metavar="N", help="Schemas worked on at once. Default: one a core."),
    ] = None,
    limit_s: Annotated[
        float | None,
        typer.Option("--limit-s", min=0.1, metavar="S", help="Seconds to compile one schema. Default: 30."),
    ] = None,
    memory_gb: Annotated[
        float | None,
        typer.Option("--memory-gb", min=0.1, metavar="G", help="GiB that one schema may take. Default: 4."),
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="RUN", help="Go on with an interrupted run: its id, or last.")
    ] = None,
    json_: Json = False,
) -> None:
    """Ask every grammar backend for every schema of a corpus: does it take it, is it right, what does it cost?

    A schema's instances, whose verdicts the corpus knows, are put to the backend's own matcher, set up as vLLM sets it
    up. over: it rejects a valid instance, in every order of keys; under: it takes an invalid one. Compiling and each
    token's mask are timed. A schema that hangs, crashes or eats the memory costs its own line.

    Without --model no engine is started. With it, each backend gets an engine of its own, which answers every schema
    that the backend takes, guided by it; the validator judges the answers.

    Every answer is a row: `corpus_schemas`, `corpus_tests` and `corpus_answers` in SQL. `assay compare A B` holds two
    runs against each other, such as two releases of a backend (--python).

    Exit codes: 0 all was asked, whatever came of it, 1 it could not be, or a backend's run with the model failed, 2 bad
    usage or corpus, 130 and 143 interrupted.

    Examples: `assay grammars faults`, `assay grammars schemas.jsonl --backends xgrammar,guidance --limit 50`,
    `assay grammars faults --model smollm2-135m-instruct --backends xgrammar,guidance`,
    `assay grammars faults --python other/bin/python`, `assay grammars --resume last`
    """
    from flows.commands.grammars import run_grammars  # noqa: PLC0415

    raise typer.Exit(
        run_grammars(
            corpus=corpus,
            backends=_names(backends),
            splits=splits or [],
            options={
                "limit": limit,
                "seed": seed,
                "model": model,
                "mask_only": mask_only or None,
                "max_tokens": max_tokens,
                "max_prompt": max_prompt,
                "python": None if python is None else str(python),
                "jobs": jobs,
                "limit_s": limit_s,
                "memory_gb": memory_gb,
            },
            resume=resume,
            as_json=json_,
        )
    )
