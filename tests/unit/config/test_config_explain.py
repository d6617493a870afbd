"""Plain words for what pydantic finds, on models made for it."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, Field, ValidationError

from schemas.base import Config
from tasks.config.explain import findings


class Near(Config):
    kind: Literal["near"]
    steps: Annotated[int, Field(ge=1, le=9)] = 1


class Far(Config):
    kind: Literal["far", "farther"]
    miles: float


class Inner(Config):
    size: int = 1
    other_size: int = 1


class Outer(Config):
    place: Annotated[Near | Far, Field(discriminator="kind")] | None = None
    places: list[Annotated[Near | Far, Field(discriminator="kind")]] = Field(default_factory=list)
    inner: Inner = Inner()
    either: list[Annotated[int, Field(ge=1)]] | Literal["auto", "all"] = "auto"
    word_or_inner: str | Inner | None = None
    checked: str | Annotated[Inner, AfterValidator(lambda inner: inner)] = ""
    shares: dict[str, Annotated[float, Field(gt=0, lt=1)]] = Field(default_factory=dict)
    switch: bool = False


def told(data: Any) -> list[tuple[Any, ...]]:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate(data, strict=True)
    return [(each.keypath, each.message, each.suggestion) for each in findings(caught.value, model=Outer, data=data)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"size": 1}, [(("size",), "is not a known key", "did you mean `inner.size`?")]),
        ({"iner": {}}, [(("iner",), "is not a known key", "did you mean `inner`?")]),
        (
            {"place": {"kind": "neer"}},
            [(("place", "kind"), "must be `near`, `far` or `farther`, not the text `neer`", "did you mean `near`?")],
        ),
        ({"place": {}}, [(("place", "kind"), "is missing: must be `near`, `far` or `farther`", None)]),
        ({"place": 3}, [(("place",), "must be a block of keys, not `3`", None)]),
        ({"place": {"kind": "farther"}}, [(("place", "miles"), "is missing", None)]),
        (
            {"places": [{"kind": "near"}, {"kind": "near", "steps": 12}]},
            [(("places", 1, "steps"), "must be at most 9, not `12`", None)],
        ),
        (
            {"place": {"kind": "near", "steps": "3"}},
            [(("place", "steps"), "must be a whole number (at least 1, at most 9), not the text `3`", None)],
        ),
        (
            {"either": "al"},
            [
                (
                    ("either",),
                    "must be a list of whole numbers or `auto` or `all`, not the text `al`",
                    "did you mean `all`?",
                )
            ],
        ),
        ({"either": [1, 0]}, [(("either", 1), "must be at least 1, not `0`", None)]),
        (
            {"word_or_inner": {"siz": 1}},
            [(("word_or_inner", "siz"), "is not a known key", "did you mean `size`?")],
        ),
        ({"word_or_inner": 4}, [(("word_or_inner",), "must be text or a block of keys, not `4`", None)]),
        ({"shares": {"a": 1}}, [(("shares", "a"), "must be less than 1, not `1`", None)]),
        ({"switch": "yes"}, [(("switch",), "must be `true` or `false`, not the text `yes`", "did you mean `true`?")]),
        ({"switch": None}, [(("switch",), "must be `true` or `false`, not empty", None)]),
        (
            {"inner": {"Trust-Remote-Code": 1}},
            [(("inner", "Trust-Remote-Code"), "is refused: nothing in a config runs code", None)],
        ),
        (
            {"switch": 1, "inner": []},
            [
                (("inner",), "must be a block of keys, not a list", None),
                (("switch",), "must be `true` or `false`, not `1`", None),
            ],
        ),
    ],
)
def test_each_fault_is_told_once_at_the_users_key(data: Any, expected: list[tuple[Any, ...]]) -> None:
    assert told(data) == expected


def test_a_fault_is_never_lost_where_a_branch_has_an_unknown_name() -> None:
    assert len(told({"checked": {"siz": 1}})) == 1


def test_long_values_are_cut_in_messages() -> None:
    message = told({"switch": "x" * 500})[0][1]
    assert message.endswith("x...`")
    assert len(message) < 120
