"""A seed of its own for drawing: vLLM's CPU build dies of it, so it is refused before an engine starts."""

from pathlib import Path

import pytest
from planning import a_cpu, a_model

from schemas.errors import ConfigError
from tasks.config.resolve import load_experiment
from tasks.plan.stage import plan_run

SEEDED = ["datasets=[arithmetic]", "sampling.seed=3", "sampling.temperature=0.5"]


def test_a_seed_is_refused_on_a_cpu(tmp_path: Path) -> None:
    experiment = load_experiment("quickstart", overrides=SEEDED)
    with pytest.raises(ConfigError, match=r"sampling\.seed.*CPU.*arithmetic.*temperature: 0"):
        plan_run(experiment, home=tmp_path, requests=[], model=a_model(), device=a_cpu())
