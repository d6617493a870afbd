"""Lengths of a benchmark's prompts, as they are written."""

import math
from typing import Any

import pytest
from pydantic import ValidationError

from schemas.prompts import Length, MixPrompts, RandomPrompts


def test_a_bare_number_is_always_that_one() -> None:
    prompts = RandomPrompts.model_validate({"kind": "random", "prompt_tokens": 128, "output_tokens": 16})
    assert (prompts.prompt_tokens.kind, prompts.prompt_tokens.longest) == ("fixed", 128)
    assert prompts.output_tokens.longest == 16


@pytest.mark.parametrize(
    ("written", "longest"),
    [
        ({"kind": "uniform", "least": 5, "most": 50}, 50),
        ({"kind": "normal", "mean": 100, "sd": 10.1}, 141),
        ({"kind": "lognormal", "mean": 500, "sd": 800}, 3700),
        ({"kind": "lognormal", "mean": 500, "sd": 800, "most": 900}, 900),
        ({"mean": 12.4}, 12),
    ],
)
def test_there_is_always_a_longest(written: dict[str, Any], longest: int) -> None:
    assert Length.model_validate(written).longest == longest


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"kind": "normal", "mean": 5}, "`kind: normal` needs `sd`"),
        ({"kind": "fixed"}, "`kind: fixed` needs `mean`"),
        ({"kind": "uniform", "least": 5}, "`kind: uniform` needs `most`"),
        ({"kind": "uniform", "most": 5, "mean": 3}, "`kind: uniform` has no `mean`"),
        ({"kind": "uniform", "least": 6, "most": 5}, "`least` is above `most`"),
        ({"kind": "normal", "mean": 5, "sd": 1, "least": 10}, "`least` is above the longest, 9"),
        ({"kind": "fixed", "mean": 0.3}, "`least` is above the longest, 0"),
        ({"kind": "fixed", "mean": 500, "most": 100}, "hardly any length of this kind lies from 1 to 100 tokens"),
        ({"kind": "normal", "mean": 5, "sd": 1, "least": 8, "most": 20}, "hardly any length"),
        ({"kind": "lognormal", "mean": 100, "sd": 1e6, "least": 99, "most": 101}, "hardly any length"),
    ],
)
def test_what_cannot_be_drawn_is_said_before_the_run(written: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as error:
        Length.model_validate(written)
    assert said in str(error.value)


def test_the_share_within_the_bounds_is_that_of_the_distribution() -> None:
    """Bounds that leave a little more than a twentieth are taken, a little less are not."""
    tail = 1.6449  # deviations above which 5 % of a normal distribution lie
    for deviations, fits in ((tail - 0.02, True), (tail + 0.02, False)):
        least = 10_000 + 1000 * deviations
        written = {"kind": "normal", "mean": 10_000, "sd": 1000, "least": round(least), "most": 1_000_000}
        assert _is_valid(written) == fits
        spread = math.sqrt(math.log1p(0.25))
        least = 10_000 * math.exp(spread * deviations - spread * spread / 2)
        written = {"kind": "lognormal", "mean": 10_000, "sd": 5000, "least": round(least), "most": 1_000_000}
        assert _is_valid(written) == fits


def _is_valid(written: dict[str, Any]) -> bool:
    try:
        Length.model_validate(written)
    except ValidationError:
        return False
    return True


def test_shares_add_up() -> None:
    parts = [
        {"share": 0.5, "prompt_tokens": 1, "output_tokens": 1},
        {"share": 0.4, "prompt_tokens": 1, "output_tokens": 1},
    ]
    with pytest.raises(ValidationError, match=r"add up to 0\.9, not to 1"):
        MixPrompts.model_validate({"kind": "mix", "parts": parts})
