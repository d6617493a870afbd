"""What a benchmark reads, looked at before anything starts."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from schemas.benchmark import Benchmark, TraceLoad
from schemas.errors import ConfigError, Problem
from schemas.experiment import Experiment
from schemas.prompts import ShareGptPrompts
from tasks.load.sharegpt import read_pairs
from tasks.load.traces import read_trace


def check_asked(experiment: Experiment) -> None:
    """Raises ConfigError with the first fault of each file: of a trace with its line, of conversations with their
    entry."""
    benchmark, problems = experiment.benchmark, list[Problem]()
    for read in [] if benchmark is None else _readers(benchmark):
        try:
            read()
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)


def _readers(benchmark: Benchmark) -> Iterator[Callable[[], object]]:
    for load in benchmark.load:
        if isinstance(load, TraceLoad):
            yield partial(read_trace, Path(load.path), load.format)
    if isinstance(benchmark.prompts, ShareGptPrompts):
        yield partial(read_pairs, Path(benchmark.prompts.path))
