"""What an experiment must be for the noise of its batch size to be measured."""

from collections.abc import Sequence

from schemas.errors import ConfigError
from schemas.experiment import Experiment
from tasks.config.resolve import load_experiment, place_in_experiment

AT_ONCE = "engine.max_num_seqs"


def checked(
    config: str, *, concurrency: Sequence[int], overrides: Sequence[str] = (), limit: int | None = None
) -> Experiment:
    """The experiment, fit to measure noise. Raises ConfigError for one that draws at random, and for batch sizes that
    are none, one only, or set by the overrides too."""
    if len(set(concurrency)) != len(concurrency) or len(concurrency) <= 1 or min(concurrency) < 1:
        given = ",".join(str(each) for each in concurrency)
        raise ConfigError.one(
            f"takes two or more different batch sizes of at least 1, not {given or 'none'}",
            key="concurrency",
            suggestion="1,16",
        )
    asked = load_experiment(config, overrides=overrides, limit=limit)
    own = [each for each in overrides if each.partition("=")[0].strip() in (AT_ONCE, "engine")]
    if own:
        raise ConfigError.one(
            f"`{own[0]}` sets how many requests run at once, which `concurrency` does here", key="overrides"
        )
    warm = {dataset.sampling.temperature for dataset in asked.datasets} - {0.0}
    if warm:
        raise place_in_experiment(config, ("sampling", "temperature"), overrides=overrides).error(
            f"noise of the batch size is measured greedily: at temperature {max(warm):g} answers differ by the draw",
            "set sampling.temperature=0",
        )
    return asked
