"""A tuning's trials as rows of the table `trials`."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from schemas.tune import Trial


def trial_rows(
    trials: Iterable[Trial], *, front: Sequence[int] = (), winner: int | None = None, over: bool = False
) -> list[dict[str, Any]]:
    """One row a trial. front and winner are known, and written, only when the search is over."""
    return [
        {
            "trial": trial.number,
            "reference": trial.reference,
            "settings": json.dumps(trial.settings),
            "state": trial.state,
            "why": trial.why,
            "reason": trial.reason,
            "same_as": trial.same_as,
            "value": trial.value,
            "first_value": trial.first_value,
            "violations": json.dumps(trial.violations) if trial.violations else None,
            "figures": json.dumps(trial.figures) if trial.figures else None,
            "parts": trial.rungs,
            "trial_run_ids": trial.run_ids,
            "on_front": trial.number in front if over else None,
            "winner": trial.number == winner if over else None,
            "started_at": None if trial.started_at is None else datetime.fromisoformat(trial.started_at),
            "seconds": trial.seconds,
        }
        for trial in trials
    ]
