"""What a benchmark reads, looked at before anything starts."""

from pathlib import Path

from schemas.benchmark import TraceLoad
from schemas.errors import ConfigError, Problem
from schemas.experiment import Experiment
from schemas.prompts import ShareGptPrompts
from tasks.load.sharegpt import read_pairs
from tasks.load.traces import read_trace


def check_asked(experiment: Experiment) -> None:
    """Raises ConfigError with the first fault of each file: of a trace with its line, of conversations with the entry."""
    benchmark, problems = experiment.benchmark, list[Problem]()
    if benchmark is None:
        return
    for load in benchmark.load:
        if isinstance(load, TraceLoad):
            try:
                read_trace(Path(load.path), load.format)
            except ConfigError as error:
                problems += error.problems
    if isinstance(benchmark.prompts, ShareGptPrompts):
        try:
            read_pairs(Path(benchmark.prompts.path))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
