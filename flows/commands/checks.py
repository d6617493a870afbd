"""What is looked at before anything starts: the config, the model's files, the data. Takes a second, loads no model."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from schemas.errors import ConfigError, Problem
from schemas.experiment import Experiment
from schemas.model import DummySource, GgufSource, PathSource
from tasks.config.locate import Place, relative_to_here
from tasks.config.resolve import load_experiment, place_in_experiment, place_in_model
from tasks.dataset.stage import check_datasets
from tasks.gate.check import check_gates
from tasks.load.check import check_asked
from tasks.model.dummy import check_shape
from tasks.model.folder import check_model_folder
from tasks.model.resolve import gguf_file


def checked_experiment(
    file: str, *, overrides: Sequence[str] = (), limit: int | None = None, home: Path | None = None
) -> Experiment:
    """The experiment of a file, its model's files and its data found in order. home: where the runs are that its gates
    name; None where nothing is to be run.

    Raises ConfigError: with every fault of the config, else with every fault of the model's files and the data."""
    experiment = load_experiment(file, overrides=overrides, limit=limit)
    problems: list[Problem] = []

    def where(gate: int) -> Place:
        return place_in_experiment(file, ("gates", gate, "against"), overrides=overrides)

    for check in (
        partial(check_model, experiment, file=file, overrides=overrides),
        partial(check_datasets, experiment),
        partial(check_asked, experiment),
        *([] if home is None else [partial(check_gates, home, experiment, where=where)]),
    ):
        try:
            check()
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return experiment


def check_model(experiment: Experiment, *, file: str, overrides: Sequence[str] = ()) -> None:
    """Raises ConfigError, at the line that names it, for a model folder that is not whole or a GGUF file that is not
    there. What a hub has is only known once it is asked."""
    source = experiment.model.config.source
    try:
        if isinstance(source, DummySource):
            check_shape(source.config)
            source = source.tokenizer
        if isinstance(source, PathSource):
            check_model_folder(relative_to_here(Path(source.path)), key="model.source.path")
        elif isinstance(source, GgufSource):
            gguf_file(source)
    except ConfigError as error:
        problems = []
        for problem in error.problems:
            keypath = tuple((problem.key or "model.source").removeprefix("model.").split("."))
            at = place_in_model(file, keypath, overrides=overrides)
            in_config = problem.file is None
            problems.append(
                replace(problem, file=at.file, line=at.line, key=at.key) if in_config else replace(problem, key=None)
            )
        raise ConfigError(problems) from error
