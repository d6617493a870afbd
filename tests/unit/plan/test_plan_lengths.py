"""max_model_len: multiples of 16, the model's cap, and who does not fit."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning import a_model

from schemas.errors import ConfigError
from schemas.plan import PlannedLoad
from tasks.plan.lengths import plan_max_model_len


def planned(prompts, outputs, *, asked="auto", limit=8_192):
    load = PlannedLoad(prompt_tokens=prompts, output_tokens=outputs)
    return plan_max_model_len(load=load, model=a_model(max_position_embeddings=limit), asked=asked)


@pytest.mark.parametrize(
    ("prompts", "outputs", "expected"),
    [
        ([10], [6], 16),
        ([10], [7], 32),
        ([100, 20], [10, 200], 224),  # the longest sum, not the longest prompt
        ([8_000], [192], 8_192),
        ([1], [1], 16),
    ],
)
def test_the_smallest_multiple_of_16_that_holds_every_request(prompts, outputs, expected):
    option = planned(prompts, outputs)
    assert option.value == expected
    assert option.source == "plan"
    assert f"{max(p + o for p, o in zip(prompts, outputs, strict=True)):,}" in option.reason


def test_the_model_caps_it_where_the_multiple_would_be_more():
    assert planned([990], [5], limit=1_000).value == 1_000
    assert planned([995], [5], limit=1_000).value == 1_000


def test_a_request_longer_than_the_model_takes_is_refused_by_name():
    with pytest.raises(ConfigError) as error:
        planned([10, 990, 20], [5, 11, 5], limit=1_000)
    assert "1 request does not fit (of 3)" in str(error.value)
    assert "request 2: 990 prompt + 11 output = 1,001 tokens" in str(error.value)
    assert "on_overflow" in str(error.value)


def test_a_users_number_too_small_is_refused_with_the_longest_that_do_not_fit():
    with pytest.raises(ConfigError) as error:
        planned([100 + 10 * n for n in range(10)], [10] * 10, asked=120)
    message = str(error.value)
    assert message.startswith("engine.max_model_len: 8 requests do not fit (of 10)")
    assert message.index("request 10: 190 prompt") < message.index("request 9: 180 prompt")
    assert "and 3 more" in message
    assert "auto would choose 208" in message


def test_a_users_number_that_fits_stands_as_it_is():
    option = planned([100], [10], asked=111)
    assert (option.value, option.source) == (111, "user")
    assert planned([100], [11], asked=111).value == 111


def test_a_users_number_above_the_models_limit_is_refused():
    with pytest.raises(ConfigError, match="more than the model takes"):
        planned([100], [10], asked=1_001, limit=1_000)


def test_an_empty_load_is_refused():
    with pytest.raises(ConfigError, match="no request"):
        planned([], [])


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(min_value=1, max_value=3_000), st.integers(min_value=1, max_value=1_000)),
        min_size=1,
        max_size=30,
    )
)
def test_it_always_holds_the_longest_request_and_never_wastes_16_tokens(requests):
    value = planned([p for p, _ in requests], [o for _, o in requests]).value
    longest = max(p + o for p, o in requests)
    assert value % 16 == 0
    assert longest <= value < longest + 16
