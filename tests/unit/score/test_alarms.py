"""A metric at zero, or without a single score, is said aloud."""

from dataclasses import replace

import pytest

from schemas.metric import Aggregate
from tasks.score.alarms import FEWEST, alarms

ZERO = Aggregate(
    scope="dataset",
    name="humaneval.exact_match",
    arm="free",
    value=0.0,
    unit="share",
    direction="higher",
    n=FEWEST,
    n_failed=0,
)


def test_zero_over_enough_samples() -> None:
    (said,) = alarms([ZERO])
    assert said.startswith("humaneval.exact_match (free) is 0 over 20 samples: ")
    assert alarms([replace(ZERO, n=1319)])[0].startswith("humaneval.exact_match (free) is 0 over 1,319 samples")


@pytest.mark.parametrize(
    "change",
    [
        {"n": FEWEST - 1},
        {"value": 0.05},
        {"direction": "lower"},
        {"name": "humaneval.form.compliance"},
        {"scope": "run"},
        {"value": None, "n": 0},  # nothing was asked
    ],
)
def test_no_news(change: dict[str, object]) -> None:
    assert alarms([replace(ZERO, **change)]) == []  # type: ignore[arg-type]


def test_nothing_scored_says_the_most_frequent_reason() -> None:
    reasons = {"error: the engine died": 2, "refused": 1}
    row = replace(ZERO, value=None, n=0, n_failed=3, details={"reasons": reasons})
    assert alarms([row]) == ["humaneval.exact_match (free) scored none of 3 samples: error: the engine died"]
    assert alarms([replace(row, n_failed=1, details={}, arm=None)]) == ["humaneval.exact_match scored none of 1 sample"]
