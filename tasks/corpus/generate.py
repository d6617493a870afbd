"""From a corpus to experiments that ask a model for an answer to each schema, guided by it: the files of each backend's
run, and what became of its requests."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas.corpus import Case
from schemas.errors import AssayError, ConfigError
from schemas.experiment import Experiment
from schemas.sweep import CellSpec
from tasks.cells.expand import override
from tasks.config.disk import is_dir, is_file
from tasks.config.document import yaml_text
from tasks.config.locate import absolute_path
from tasks.config.suites import find_suite, load_suite
from tasks.config.yaml_file import read_yaml
from tasks.corpus.ask_for import Asked
from tasks.corpus.read import Corpus
from tasks.dataset.stage import render_datasets
from tasks.model.facts import read_model_facts
from warehouse.parquet import read_rows

Row = dict[str, Any]
_BACKEND = "engine.grammar.backend"
_DATASET = "schemas"
"""The name of the dataset in every backend's run, so that its samples have the same ids there."""
_SUITE = "jsonschemabench"
"""Whose prompt the schemas are put into."""
_SCHEMA = "json_schema"
"""The column that this prompt reads."""
_OF_THE_REQUEST = (
    "request_id",
    "finish_reason",
    "valid",
    "prompt_tokens",
    "output_tokens",
    "e2e_ms",
    "tpot_ms",
    "error",
)
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+|^[^A-Za-z0-9]+")


def write_experiment(folder: Path, *, asked: Asked, corpus: Corpus) -> Path:
    """Writes the experiment that every backend's run is made of, over all schemas of the corpus, and gives its file.

    What an earlier session has written stays. Raises ConfigError for a suite of the prompt that is out of order."""
    path = folder / "experiment.yaml"
    if path.exists():
        return path
    write_rows(folder, corpus.cases)
    (folder / f"{_DATASET}.yaml").write_text(yaml_text(_dataset(asked)), encoding="utf-8")
    # The matchers have looked at every schema already, in processes of their own and under this run's limits.
    engine: dict[str, Any] = {"extends": "vllm", "grammar": {"preflight": "off"}}
    engine |= {} if asked.python is None else {"python": asked.python}
    whole = {
        "name": _NO_NAME.sub("-", corpus.name).lstrip("-._")[:64] or "corpus",
        "description": f"An answer to each schema of the corpus {corpus.name}, guided by it",
        "model": _from_anywhere(str(asked.tokenizer)),
        "engine": engine,
        "datasets": [f"./{_DATASET}.yaml"],
        "arms": ["guided"],
        "sampling": {"temperature": 0, "seed": asked.seed},
        "max_failed": 1.0,  # a schema that is refused is a result
    }
    path.write_text(yaml_text(whole), encoding="utf-8")
    return path


def _dataset(asked: Asked) -> Row:
    file = find_suite(_SUITE)
    if file is None:
        raise ConfigError.one(f"there is no suite `{_SUITE}`, whose prompt the schemas are put into")
    return {
        "source": {"kind": "jsonl", "path": f"./{_DATASET}.jsonl"},
        "id_field": "case_id",
        "prompt": load_suite(read_yaml(file)).members[0].data["prompt"],
        "guide": {"kind": "json_schema", "schema_field": _SCHEMA},
        "metrics": ["json_valid"],
        "max_tokens": asked.max_tokens,
        "on_overflow": "skip",
    }


def write_rows(folder: Path, cases: Sequence[Case]) -> Path:
    """Writes the dataset's rows, one a schema, and gives their file. What an earlier session has written stays."""
    path = folder / f"{_DATASET}.jsonl"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8") as lines:
        for case in cases:
            row = {"case_id": case.case_id, "split": case.split, "name": case.name}
            # As a text: the prompt then has it as JSON, with its keys in their order.
            lines.write(json.dumps(row | {_SCHEMA: json.dumps(case.content, ensure_ascii=False)}) + "\n")
    part.replace(path)
    return path


def _from_anywhere(model: str) -> str:
    """The model as the experiment's file can name it: a path, which starts from this folder, as a whole one."""
    return str(absolute_path(Path(model))) if is_file(Path(model)) or is_dir(Path(model)) else model


def prompts_that_fit(experiment: Experiment, *, most: int | None, folder: Path, cache: Path) -> set[str]:
    """The case_ids of those schemas whose prompt fits the model, with room for the answer, and has no more tokens than
    `most`. folder: the model's.

    It is asked of all schemas and not of those alone that a backend takes, so that what is left out is the same for
    every backend. Raises ConfigError."""
    samples, _ = render_datasets(experiment, model=read_model_facts(folder, cache=cache), folder=folder)
    return {
        sample.sample_id.removeprefix(f"{_DATASET}:")
        for sample in samples
        if most is None or len(sample.prompt_token_ids) <= most
    }


def backend_cell(experiment: Path, *, rows: Path, backend: str, index: int) -> CellSpec:
    """The run of one backend. rows: the file of those schemas that it is asked."""
    dataset = {"use": str(experiment.parent / f"{_DATASET}.yaml"), "source": {"kind": "jsonl", "path": str(rows)}}
    return CellSpec(
        index=index,
        name=backend,
        settings={_BACKEND: backend},
        overrides=[override(_BACKEND, backend), override("datasets", [dataset])],
    )


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one backend's run. run_id: None where it had none; answers: the last row of `requests` of each
    schema, by case_id; lost: why a schema that was to be answered has no answer; unusable: why no engine can use the
    backend."""

    run_id: str | None = None
    answers: Mapping[str, Row] = field(default_factory=dict)
    lost: str | None = None
    unusable: str | None = None


def outcome(home: Path, *, run_id: str | None, error: str | None) -> Outcome:
    """Reads it from the backend's run. error: how that failed. Raises AssayError for tables that cannot be read."""
    if run_id is None:
        return Outcome(lost=error)
    columns = ["sample_id", "attempt", "status", "revision", *_OF_THE_REQUEST]
    rows = sorted(read_rows(home, "requests", run_id, columns=columns), key=lambda row: row["attempt"])
    answers = {row["sample_id"].removeprefix(f"{_DATASET}:"): row for row in rows}
    return Outcome(run_id=run_id, answers=answers, lost=error)


def answer_rows(
    cases: Sequence[Case], *, backend: str, statuses: Mapping[str, str], fits: Collection[str], found: Outcome
) -> list[Row]:
    """The rows of `corpus_answers` of one backend. statuses: by case_id, what its matcher made of the schema; fits: the
    schemas whose prompt fits the model.

    Raises AssayError where a run that is finished has no request for a schema."""
    return [_answer_row(case, backend, statuses[case.case_id], case.case_id in fits, found) for case in cases]


def _answer_row(case: Case, backend: str, status: str, fits: bool, found: Outcome) -> Row:
    row: Row = {
        "case_id": case.case_id,
        "backend": backend,
        "split": case.split,
        "child_run_id": found.run_id,
        "grammar_status": status,
        **dict.fromkeys(("request_status", *_OF_THE_REQUEST)),
    }
    answer = found.answers.get(case.case_id)
    if not fits:
        return row | {"request_status": "skipped", "error": "the prompt is too long for the model, or for the run"}
    if found.unusable is not None:
        return row | {"error": found.unusable}
    if answer is not None:
        return row | {"request_status": answer["status"]} | {key: answer[key] for key in _OF_THE_REQUEST}
    if status != "accepted":
        return row | {"request_status": "not_asked"}
    if found.lost is None:
        raise AssayError(f"run {found.run_id} is finished and has no request for the schema {case.case_id}")
    return row | {"error": found.lost}
