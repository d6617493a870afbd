"""A corpus of schemas against every grammar backend: coverage, faults, cost; with a model, its answers too."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from prefect.runtime import flow_run
from pydantic import Field

from flows import pages
from flows.begin import before_it_begins, going_on_with
from flows.cells import recorded
from flows.console import RunConsole
from flows.context import this_flow_run
from flows.corpus_progress import CorpusProgress
from flows.form import Corpora, Limit, Resume, Shown
from flows.grammar_answers import AnswersNotFinished, answer, to_be_answered
from flows.hooks import after_crash
from flows.runtime import assay_home
from flows.signals import keep_sigterm
from schemas.corpus import CorpusResult
from schemas.errors import ConfigError, RunError
from tasks.cells.record import CellsRecord, stored_sweep
from tasks.corpus.answers import stored_answers, with_answers
from tasks.corpus.ask_for import Asked, check_answers, checked, checked_backends, model_of
from tasks.corpus.figures import figures, metric_rows, stored_masks, stored_schemas
from tasks.corpus.read import Corpus, read_corpus
from tasks.corpus.tables import backends_table
from tasks.corpus.work import Batch, Options, Workers
from tasks.guide.backends import BACKENDS, BackendFacts, BackendsError
from tasks.record.step import try_artifact
from warehouse.ids import new_run_id

Backend = Annotated[str, Shown(lambda: {"enum": list(BACKENDS)})]
Backends = Annotated[list[Backend], Shown(lambda: {"uniqueItems": True})]
Jobs = Annotated[int, Field(ge=0, le=1024)]
MaxTokens = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]


def _flow_run_name() -> str:
    if flow_run.parameters.get("resume"):
        return f"resume {flow_run.parameters['resume']}"
    names = ", ".join(flow_run.parameters.get("backends") or [])
    return f"{Path(str(flow_run.parameters.get('corpus'))).stem}: {names or 'every backend'}"


@flow(name="grammars", flow_run_name=_flow_run_name, persist_result=False, on_crashed=[after_crash])
def grammars(  # noqa: PLR0913, PLR0917 - the fields of the launch form
    corpus: Corpora = "faults",
    backends: Backends = [],  # noqa: B006 - the form shows it, nothing changes it
    splits: list[str] = [],  # noqa: B006
    limit: Limit = 0,
    seed: int = 0,
    model: str = "",
    mask_only: bool = False,
    max_tokens: MaxTokens = 128,
    max_prompt: Limit = 0,
    python: str = "",
    jobs: Jobs = 0,
    limit_s: Seconds = 30.0,
    memory_gb: Seconds = 4.0,
    resume: Resume = "",
) -> CorpusResult:
    """Ask every grammar backend for every schema of a corpus: is it taken, are its instances told apart, at what cost?
    With a model: does an answer that it guides obey the schema?

    Args:
        corpus: The corpus: a name in configs/corpora.
        backends: Only these. None chosen: all of them.
        splits: Only these parts of the corpus. None: all of it.
        limit: The most schemas of each split, drawn by the seed. 0: all of them.
        seed: Of the draw.
        model: The model that answers each schema that a backend takes, guided by it, and whose tokenizer the masks are
            made for. Empty: no answers, and a tokenizer of single bytes.
        mask_only: No answers, only the model's tokenizer: no engine is started.
        max_tokens: The most tokens of an answer.
        max_prompt: Schemas whose prompt has more tokens are not asked of the model. 0: all that it can read are.
        python: The interpreter of another environment, whose vLLM and backends are asked. Empty: this one.
        jobs: How many schemas are worked on at once, each by a process of its own. 0: one a core. Times of masks can be
            compared between runs only where each job had a core for itself.
        limit_s: Seconds that a backend may take to compile one schema.
        memory_gb: GiB that a backend may take for one schema.
        resume: The id of an interrupted run to go on with, or last. Empty: a new one.

    Raises ConfigError before anything runs, RunError where the backends cannot be loaded, and AnswersNotFinished where
    the run of one failed.
    """
    keep_sigterm()
    console = RunConsole(log=get_run_logger().info)
    home, warnings = assay_home(), before_it_begins()
    with pages.refusal_explained():
        begun = going_on_with(home, resume)
        if begun is not None:
            run_id, stored = stored_sweep(home, begun, flow="grammars")
            asked = Asked.model_validate({key: stored[key] for key in Asked.model_fields if key in stored})
        else:
            run_id = new_run_id()
            asked = checked(
                Asked(
                    corpus=corpus,
                    backends=backends,
                    splits=splits,
                    limit=limit or None,
                    seed=seed,
                    tokenizer=model or None,
                    max_tokens=max_tokens if model and not mask_only else None,
                    max_prompt=max_prompt or None,
                    python=python or None,
                    jobs=jobs or len(os.sched_getaffinity(0)),
                    limit_s=limit_s,
                    memory_gb=memory_gb,
                )
            )
        read = _same(read_corpus(asked.corpus, splits=asked.splits, limit=asked.limit, seed=asked.seed), asked, run_id)
        folder = model_of(asked, cache=home / "cache", on_progress=console.note)
        check_answers(asked, folder=folder, cache=home / "cache")
    console.title(f"{read.name}  {run_id}{'  (resumed)' if begun else ''}")
    record = CellsRecord(
        home=home,
        run_id=run_id,
        flow="grammars",
        name=read.name,
        config=_config(asked, read),
        tags={},
        prefect_flow_run_id=str(this_flow_run().id),
    )
    with recorded(record, warnings):
        answers = None
        if folder is not None and asked.max_tokens is not None:
            answers = to_be_answered(record, asked, read, folder=folder, console=console)
        facts = _ask(record, asked, read, folder=folder, console=console, warnings=warnings)
        rows = stored_schemas(home, run_id)
        ended = [] if answers is None else answer(record, answers, rows=rows, facts=facts, console=console)
        with console.step("count and report") as said:
            found = figures(rows, stored_masks(home, run_id), backends=asked.backends)
            answered = stored_answers(home, run_id)
            found = with_answers(found, answered)
            record.write("metrics", metric_rows(found))
            report = _page(record, read, asked, rows=rows, found=found, answered=answered, warnings=warnings)
            said.append(f"{len(rows):,} verdicts")
    try_artifact(
        create_table_artifact, key="grammars", table=backends_table(found), description=f"{read.name}, run {run_id}"
    )
    lost = [each for each in ended if each.state != "finished"]
    result = CorpusResult(
        run_id=run_id,
        name=read.name,
        status="finished",
        exit_code=1 if lost else 0,
        report=report,
        cases=len(read.cases),
        backends={name: fact.version for name, fact in facts.items()},
        figures=found,
        warnings=list(dict.fromkeys(warnings)),
    )
    if lost:
        raise AnswersNotFinished(result, lost)
    return result


def _ask(
    record: CellsRecord,
    asked: Asked,
    corpus: Corpus,
    *,
    folder: Path | None,
    console: RunConsole,
    warnings: list[str],
) -> dict[str, BackendFacts]:
    """Asks what an earlier session has not. Gives each backend as it is installed."""
    done: dict[str, set[str]] = {}
    before = stored_schemas(record.home, record.run_id) if record.resumed else []
    for row in before:
        done.setdefault(row["case_id"], set()).add(row["backend"])
    options = Options(
        backends=asked.backends,
        model=folder,
        python=None if asked.python is None else Path(asked.python),
        limit_s=asked.limit_s,
        memory_bytes=int(asked.memory_gb * (1 << 30)),
        jobs=asked.jobs,
    )
    try:
        with Workers(options) as workers:
            with console.step("load backends") as said:
                facts = workers.facts()
                said.append(", ".join(f"{name} {fact.version}" for name, fact in facts.items()))
                warnings += checked_backends(facts)
            for warning in warnings:
                console.warn(warning)
            with (
                console.step("ask") as said,
                CorpusProgress(corpus, done=done, backends=asked.backends, console=console) as progress,
            ):

                def keep(batch: Batch) -> None:
                    # The instances first: a schema whose own row is there is done, and is not asked again.
                    record.write("corpus_tests", batch.tests)
                    record.write("corpus_schemas", batch.schemas)
                    progress.update(batch)

                workers.run(corpus.cases, done=done, on_batch=keep)
                said.append(progress.said())
    except BackendsError as error:
        raise RunError(f"{error} (`assay doctor` says what is missing)") from error
    return facts


def _page(
    record: CellsRecord,
    corpus: Corpus,
    asked: Asked,
    *,
    rows: Sequence[dict[str, Any]],
    found: list[Any],
    answered: Sequence[dict[str, Any]],
    warnings: list[str],
) -> str | None:
    """Writes report.html and gives its path; None, with a warning more, where that failed: the rows are kept."""
    from tasks.report.corpus import corpus_page  # noqa: PLC0415 - draws figures: slow to import

    path = record.folder / "report.html"
    try:
        page = corpus_page(
            home=record.home,
            run_id=record.run_id,
            corpus=corpus,
            rows=rows,
            found=found,
            notes=warnings,
            answers=answered,
            max_tokens=asked.max_tokens,
        )
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        warnings.append(f"the report could not be written: {error}")
        return None
    return str(path)


def _same(corpus: Corpus, asked: Asked, run_id: str) -> Corpus:
    """Raises ConfigError where a run goes on and the file is another one now."""
    if asked.fingerprint not in (None, corpus.fingerprint):
        raise ConfigError.one(
            f"run {run_id} began with another content of this file",
            file=corpus.path,
            suggestion="put back what it was, or begin a new run",
        )
    return corpus


def _config(asked: Asked, corpus: Corpus) -> dict[str, Any]:
    """All that a session which goes on with this run must find again, and what a reader wants to know."""
    known = {"fingerprint": corpus.fingerprint, "path": str(corpus.path), "schemas": len(corpus.cases)}
    told = {"description": corpus.description, "license": corpus.license, "of": corpus.of}
    return {**asked.model_dump(mode="json"), **known, **told}
