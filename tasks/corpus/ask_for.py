"""What a run over a corpus is told, checked before anything is loaded."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pydantic import Field

from schemas.base import Config
from schemas.errors import ConfigError
from schemas.experiment import NamedModel
from tasks.config.disk import is_dir, is_file
from tasks.config.layers import Layer, Layers
from tasks.config.locate import absolute_path, is_path
from tasks.config.models import load_model
from tasks.config.nearest import did_you_mean_or_list
from tasks.guide.backends import BACKENDS, BackendFacts
from tasks.model.facts import read_model_facts
from tasks.model.resolve import model_folder


class Asked(Config):
    """All that a run over a corpus is made from. tokenizer: the model that has it; fingerprint: of the corpus's file,
    once it is known; max_tokens: the most of an answer of that model, None: it is not asked;
    max_prompt: the most of a prompt, None: what the model reads."""

    corpus: str
    backends: list[str] = Field(default_factory=list)
    splits: list[str] = Field(default_factory=list)
    limit: int | None = None
    seed: int = 0
    tokenizer: str | None = None
    max_tokens: int | None = None
    max_prompt: int | None = None
    python: str | None = None
    jobs: int = 1
    limit_s: float = 30.0
    memory_gb: float = 4.0
    fingerprint: str | None = None


def known_backends(names: Sequence[str]) -> None:
    """Raises ConfigError for the first that is none."""
    for name in names:
        if name not in BACKENDS:
            raise ConfigError.one(
                f"there is no backend `{name}`", key="--backends", suggestion=did_you_mean_or_list(name, BACKENDS)
            )


def checked(asked: Asked) -> Asked:
    """What is asked, with whole paths, so that it can be gone on with from any folder, and all backends where none is
    named.

    Raises ConfigError for a backend or a model that there is not, and for an interpreter that is no file."""
    known_backends(asked.backends)
    if asked.tokenizer is not None:
        _model(asked.tokenizer)
    python = None if asked.python is None else absolute_path(Path(asked.python))
    if python is not None and not python.is_file():
        raise ConfigError.one("there is no such file", file=python, key="--python")
    return asked.model_copy(
        update={
            "corpus": _whole(asked.corpus),
            "tokenizer": None if asked.tokenizer is None else _whole(asked.tokenizer),
            "backends": list(dict.fromkeys(asked.backends)) or list(BACKENDS),
            "splits": list(dict.fromkeys(asked.splits)),
            "python": None if python is None else str(python),
        }
    )


def _whole(reference: str) -> str:
    """A path that is there as a whole one; anything else is a name, and stays."""
    path = Path(reference)
    there = is_file(path) or (is_path(reference) and is_dir(path))
    return str(absolute_path(path)) if there else reference


def model_of(asked: Asked, *, cache: Path, on_progress: Callable[[str], None]) -> Path | None:
    """The folder of the model whose tokenizer is used. Raises ConfigError."""
    return (
        None if asked.tokenizer is None else model_folder(_model(asked.tokenizer), cache=cache, on_progress=on_progress)
    )


def check_answers(asked: Asked, *, folder: Path | None, cache: Path) -> None:
    """Raises ConfigError where answers are asked for that the model has no room for. folder: the model's."""
    if asked.max_tokens is None or folder is None:
        return
    room = read_model_facts(folder, cache=cache).max_position_embeddings
    if asked.max_tokens >= room:
        raise ConfigError.one(
            f"{asked.max_tokens:,} tokens for an answer leave no room for a prompt: {asked.tokenizer} reads {room:,}",
            key="--max-tokens",
            suggestion="128",
        )


def _model(name: str) -> NamedModel:
    try:
        return load_model(name, Layers([Layer({"model": name}, None)]), {})
    except ConfigError as error:
        problem = error.problems[0]
        raise ConfigError.one(problem.message, key="--model", suggestion=problem.suggestion) from error


def checked_backends(facts: Mapping[str, BackendFacts]) -> list[str]:
    """What is to be said of the backends before they are asked."""
    return [
        f"{name}: {'no engine can use it' if fact.usable else 'it cannot be asked'}: {fact.engine_fault}"
        for name, fact in facts.items()
        if fact.engine_fault is not None
    ]
