"""`assay grammar lint`: reads the schema and the instances, asks the backends, prints what they make of it."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from flows.commands.grammar_report import print_lint
from flows.commands.output import print_json
from flows.console import RunConsole
from flows.runtime import assay_home
from schemas.errors import ConfigError, RunError
from tasks.config.json_faults import json_faults
from tasks.config.layers import Layer, Layers
from tasks.config.models import load_model
from tasks.corpus.ask_for import known_backends
from tasks.dataset.guide import schema_problems
from tasks.guide.backends import BACKENDS, Backends, BackendsError
from tasks.guide.check import check_schema
from tasks.guide.lint.lint import lint
from tasks.model.resolve import model_folder


def lint_schema(
    *,
    schema: str,
    backends: Sequence[str],
    model: str | None,
    instances: Path | None,
    whitespace: bool | None,
    seed: int,
    limit_s: float,
    as_json: bool,
) -> int:
    """Lints and prints; gives the exit code. Raises ConfigError for a schema, instances or a model that are wrong."""
    known_backends(backends)
    read = _schema(schema)
    given = [] if instances is None else _instances(instances)
    folder = None if model is None else _folder(model)
    names = list(dict.fromkeys(backends)) or list(BACKENDS)
    errors = Console(stderr=True, highlight=False)
    try:
        with Backends(model=folder, names=names) as asked, errors.status("loading vLLM's grammar backends …") as status:
            found = lint(
                read,
                backends=asked,
                names=names,
                given=given,
                seed=seed,
                whitespace=whitespace,
                limit_s=limit_s,
                on_backend=lambda name: status.update(f"asking {name} …"),
            )
    except BackendsError as error:
        raise RunError(f"{error} (`assay doctor` says what is missing)") from error
    if as_json:
        told = asdict(found) | {"clean": found.is_clean}
        for row, backend in zip(told["backends"], found.backends, strict=True):
            row["verdict"] = backend.verdict
        print_json(told)
    else:
        print_lint(found, name=schema)
    return 0 if found.is_clean else 1


def _schema(path: str) -> dict[str, Any]:
    file = None if path == "-" else Path(path)
    if file is not None and not file.is_file():
        raise ConfigError.one("there is no such file", file=file, suggestion="assay grammar lint SCHEMA.json")
    text = sys.stdin.read() if file is None else _text(file)
    with json_faults(file=file or Path("stdin")):
        found = json.loads(text)
    if not isinstance(found, dict):
        raise ConfigError.one(
            "a guided answer's schema is an object", file=file or Path("stdin"), suggestion='as in {"type": "object"}'
        )
    wrong = check_schema(found)
    if wrong is not None:
        raise ConfigError(schema_problems(found, file=file or Path("stdin"), otherwise=wrong))
    return found


def _instances(file: Path) -> list[Any]:
    if not file.is_file():
        raise ConfigError.one("there is no such file", file=file, key="--instances")
    text = _text(file)
    try:
        whole = json.loads(text)
    except json.JSONDecodeError:
        given = []
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                with json_faults(file=file, line=number, suggestion="one instance a line, or one JSON list"):
                    given.append(json.loads(line))
        return given
    return whole if isinstance(whole, list) else [whole]


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except UnicodeDecodeError as wrong:
        raise ConfigError.one(f"is not UTF-8 (byte {wrong.start})", file=file) from wrong


def _folder(model: str) -> Path:
    try:
        named = load_model(model, Layers([Layer({"model": model}, None)]), {})
    except ConfigError as error:
        problem = error.problems[0]
        raise ConfigError.one(problem.message, key="--model", suggestion=problem.suggestion) from error
    return model_folder(named, cache=assay_home() / "cache", on_progress=RunConsole().note)
