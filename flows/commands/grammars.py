"""`assay grammars`: checks first, then the flow under a Prefect server, and the table of backends."""

from collections.abc import Callable, Sequence
from typing import Any

from flows.commands.flows import errors_as_json, flow_result
from flows.commands.output import print_json, rows_table, stdout_console
from flows.console import RunConsole
from flows.runtime import assay_home
from schemas.corpus import CorpusResult
from schemas.errors import ConfigError
from tasks.cells.record import stored_sweep
from tasks.corpus.answers import answers_table
from tasks.corpus.ask_for import Asked, checked
from tasks.corpus.read import read_corpus
from tasks.corpus.tables import backends_table
from tasks.record.open import check_disk


def run_grammars(
    *,
    corpus: str | None,
    backends: Sequence[str],
    splits: Sequence[str],
    options: dict[str, Any],
    resume: str | None,
    as_json: bool,
) -> int:
    """Runs it and gives the exit code. options: the flow's other parameters; those that are None keep its own value.

    What is wrong with the corpus or an option is said before anything starts. as_json: one object on stdout, however it
    ends."""
    home = assay_home()
    given = {name: value for name, value in options.items() if value is not None}
    with errors_as_json(as_json):
        check_disk(home)
        if resume is not None:
            if corpus is not None or backends or splits or given:
                raise ConfigError.one(
                    "a resumed run keeps its corpus and all of its options", suggestion=f"--resume {resume} alone"
                )
            stored_sweep(home, resume, flow="grammars")
        elif corpus is None:
            raise ConfigError.one("name a corpus, or a run to --resume", suggestion="assay grammars faults")
        else:
            _check(corpus, backends=backends, splits=splits, given=given)
        result = flow_result(
            _import_flow,
            {"corpus": corpus or "", "backends": list(backends), "splits": list(splits), "resume": resume or ""}
            | given,
            kind=CorpusResult,
            kept="what was answered is kept",
            resume="assay grammars --resume last",
            as_json=as_json,
        )
    if isinstance(result, int):
        return result
    if as_json:
        print_json(result.model_dump(mode="json"))
    else:
        _show(result)
    return result.exit_code


def _check(corpus: str, *, backends: Sequence[str], splits: Sequence[str], given: dict[str, Any]) -> None:
    read_corpus(corpus, splits=splits, limit=given.get("limit"), seed=given.get("seed", 0))
    model = given.get("model")
    for option in ("max_tokens", "max_prompt", "mask_only"):
        if given.get(option) and model is None:
            raise ConfigError.one(
                "says something of a model's answers, and there is no model",
                key=f"--{option.replace('_', '-')}",
                suggestion="--model NAME",
            )
    for option in ("max_tokens", "max_prompt"):
        if given.get("mask_only") and option in given:
            key = f"--{option.replace('_', '-')}"
            raise ConfigError.one("there are no answers with --mask-only", key=key, suggestion="leave one out")
    checked(Asked(corpus=corpus, backends=list(backends), tokenizer=model, python=given.get("python")))


def _show(result: CorpusResult) -> None:
    stdout_console().print(rows_table(backends_table(result.figures, versions=result.backends, narrow=True)))
    answers = answers_table(result.figures, narrow=True)
    if answers:
        stdout_console().print(rows_table(answers))
    where = f"WHERE run_id = '{result.run_id}'"
    RunConsole().lines(
        [
            *([("report", result.report)] if result.report else []),
            ("SQL", f"assay sql \"FROM corpus_schemas {where} AND verdict <> 'right'\""),
            ("run", f"{result.run_id}, {result.cases:,} schemas"),
        ]
    )


def corpus_names(incomplete: str) -> list[str]:
    """What Tab offers for CORPUS."""
    from tasks.config.locate import list_names  # noqa: PLC0415

    return [file.name for file in list_names("corpus") if file.name.startswith(incomplete)]


def split_names(corpus: str, incomplete: str) -> list[str]:
    """What Tab offers for --split, once the corpus is named."""
    try:
        splits = read_corpus(corpus).splits
    except (ConfigError, OSError):
        return []
    return [split for split in splits if split.startswith(incomplete)]


def _import_flow() -> Callable[..., Any]:
    from flows.grammars import grammars  # noqa: PLC0415 - imports Prefect, whose settings must stand before

    return grammars
