"""`engine.failures`: its bounds and defaults."""

import pytest
from pydantic import ValidationError

from schemas.engine import Failures, VllmEngine


def test_the_defaults() -> None:
    assert VllmEngine().failures == Failures(restarts=3, rungs=6, hang_s="auto")


@pytest.mark.parametrize(
    ("key", "inside", "outside"),
    [
        ("restarts", (0, 100), (-1, 101)),
        ("rungs", (0, 20), (-1, 21)),
        ("hang_s", (5, 86_400, "auto"), (4.9, 0, "never")),
    ],
)
def test_each_bound(key: str, inside: tuple[object, ...], outside: tuple[object, ...]) -> None:
    for value in inside:
        assert getattr(VllmEngine(failures={key: value}).failures, key) == value
    for value in outside:
        with pytest.raises(ValidationError, match=key):
            VllmEngine(failures={key: value})
