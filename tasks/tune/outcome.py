"""What running a setting gives, and what every tuning starts from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from schemas.tune import SideName, Why


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """It ran. figures: by name, as tasks/cells/figures.py has them: of the generate phase alone, so that no start-up
    and no compiling is in any of them."""

    figures: Mapping[str, float]
    run_id: str | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Infeasible:
    """It does not run, and that is something learnt. why: out_of_memory, refused (by the plan or by vLLM), failed or
    timeout; message: in a sentence."""

    why: Why
    message: str
    run_id: str | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A setting that every tuning measures first. settings: what is set for it; values: what the space's keys are then,
    by key, as far as that is known, so that the search learns from it."""

    name: Literal["plan", "vllm"]
    settings: Mapping[str, Any]
    values: Mapping[str, Any] = field(default_factory=dict)


Outcome = Measured | Infeasible
RunTrial = Callable[[dict[str, Any], int | None, int], Outcome]
"""Runs a setting on so many samples of each dataset (None: all of them). The number is the part of the trial: 0 its
first samples, 1 the whole. Both run on one engine."""
RunSide = Callable[[dict[str, Any], SideName, int], Outcome]
"""Runs one side of the confirmation under the full load, in a round that counts from 0."""
