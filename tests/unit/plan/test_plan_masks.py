"""Who makes the masks of guided answers."""

import pytest
from pydantic import ValidationError

from schemas.engine import Grammar, Speculative, VllmEngine
from schemas.errors import ConfigError
from tests.unit.plan.test_plan_engine import plan


def masks(**engine):
    return next(option for option in plan(**engine).options if option.option == "grammar_masks")


def test_they_are_made_together_where_that_can_be():
    own = masks()
    assert (own.value, own.default_value, own.source) == ("batched", "vllm", "plan")
    assert masks(grammar={"backend": "guidance"}).value == "batched"
    asked = masks(grammar={"masks": "vllm"})
    assert (asked.value, asked.source) == ("vllm", "user")
    assert "you asked for it" in asked.reason
    assert masks(choose="vllm").value == "vllm"


@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        ({"core": "multiprocess"}, "in a process of its own"),
        ({"grammar": {"backend": "outlines"}}, "outlines makes one mask at a time"),
        ({"speculative": Speculative(method="ngram", tokens=2, lookup=(2, 3))}, "guessed token"),
    ],
)
def test_elsewhere_vllm_makes_each_and_the_plan_says_why(engine, reason):
    own = masks(**engine)
    assert own.value == "vllm" and reason in own.reason


def test_asking_for_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match=r"engine\.grammar\.masks.*process of its own"):
        plan(core="multiprocess", grammar={"masks": "batched"})
    with pytest.raises(ValidationError, match="`masks: batched` is for xgrammar and guidance"):
        Grammar(backend="lm-format-enforcer", masks="batched")
    assert VllmEngine(grammar={"masks": "batched", "backend": "auto"}).grammar.masks == "batched"
