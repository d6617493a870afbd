"""`assay bench`: the run of an experiment that only measures load."""

from collections.abc import Sequence

from flows.commands.run import run_experiment
from schemas.errors import ConfigError
from tasks.config.resolve import find_experiment
from tasks.config.yaml_file import read_yaml
from tasks.load.override import Changes, numbers


def run_bench(  # noqa: PLR0913 - a parameter for each option
    *,
    file: str | None,
    concurrency: str | None,
    rate: str | None,
    requests: int | None,
    seconds: float | None,
    repeats: int | None,
    overrides: Sequence[str],
    limit: int | None,
    resume: str | None,
    as_json: bool,
) -> int:
    """Runs it and gives the exit code. Raises ConfigError where there is no load to measure."""
    if file is None:
        return run_experiment(
            file=None, overrides=overrides, limit=limit, max_time=None, resume=resume, as_json=as_json
        )
    changes = Changes(
        concurrency=[]
        if concurrency is None
        else [int(n) for n in numbers(concurrency, name="--concurrency", whole=True)],
        rate=[] if rate is None else numbers(rate, name="--rate", whole=False),
        requests=requests,
        seconds=seconds,
        repeats=repeats,
    )
    own = changes.overrides()
    check_has_load(file, [*own, *overrides])
    return run_experiment(
        file=file, overrides=[*own, *overrides], limit=limit, max_time=None, resume=resume, as_json=as_json
    )


def check_has_load(file: str, overrides: Sequence[str]) -> None:
    """Raises ConfigError for an experiment without a benchmark, to which no load was given either."""
    if any(each.startswith(("benchmark.load", "benchmark={")) for each in overrides):
        return
    found = read_yaml(find_experiment(file))
    if "benchmark" not in found.data:
        raise ConfigError.one(
            "has no `benchmark`, so that there is no load to measure",
            file=found.path,
            suggestion="--concurrency 1,8 or --rate 2,4, or `benchmark: {load: {kind: closed, concurrency: [1, 8]}}`",
        )
