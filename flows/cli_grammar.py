"""The commands about grammars: what a backend makes of a schema."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import Json
from tasks.guide.backends.known import BACKENDS

app = typer.Typer()
grammar_app = typer.Typer(help="What the grammar backends make of a schema, without any engine.", no_args_is_help=True)
app.add_typer(grammar_app, name="grammar")

Backend = Enum("Backend", {name: name for name in BACKENDS}, type=str)  # type: ignore[misc] - the table is the source


@grammar_app.callback()
def grammar() -> None:
    """Nothing to do before a command."""


@grammar_app.command("lint")
def lint(
    schema: Annotated[str, typer.Argument(metavar="SCHEMA", help="A JSON Schema's file; - reads stdin.")],
    backends: Annotated[
        list[Backend] | None,
        typer.Option("--backend", metavar="B", help=f"Only this one: {', '.join(BACKENDS)}. Repeatable."),
    ] = None,
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

    Examples: `assay grammar lint schema.json`, `assay grammar lint schema.json --backend xgrammar --model my-model`,
    `assay grammar lint schema.json --instances answers.jsonl --json`

    Exit codes: 0 every backend that an engine can use is right, 1 one is not or does not take the schema, 2 something
    is wrong with the schema, the instances or an option.
    """
    from flows.commands.grammar import lint_schema  # noqa: PLC0415

    raise typer.Exit(
        lint_schema(
            schema=schema,
            backends=[each.value for each in backends or ()],
            model=model,
            instances=instances,
            whitespace=True if whitespace else None,
            seed=seed,
            limit_s=limit_s,
            as_json=json_,
        )
    )
