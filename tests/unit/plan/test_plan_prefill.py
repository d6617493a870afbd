"""The prefill rule at its boundaries, and what the engine's limits make of its number."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning import a_cpu, a_model

from schemas.engine import Prefill
from schemas.errors import ConfigError
from schemas.plan import PlannedOption
from tasks.plan.prefill import percentile_floor, plan_prefill, prefill_rule
from tasks.plan.yields import plan_yields, with_yields


def a_budget(value, *, source="plan"):
    return PlannedOption(
        option="max_num_batched_tokens", value=value, default_value=value, reason="r.", evidence="e", source=source
    )


def options(prompts, *, max_model_len=100_000, token_budget=100_000, core="inprocess", **prefill):
    prefill.setdefault("policy", "rule")
    planned = plan_prefill(
        prompt_tokens=prompts,
        prefill=with_yields(Prefill(**prefill), core=core),
        budget=a_budget(token_budget),
        max_model_len=max_model_len,
        max_num_seqs=min(256, len(prompts)),
        kv_tokens=1_000_000,
        model=a_model(),
        device=a_cpu(),
    )
    planned.append(plan_yields(prefill=Prefill(**prefill), threshold=planned[1].value, core=core))
    assert planned[0] == a_budget(token_budget) or prefill["policy"] == "auto"
    return {option.option: option for option in planned}


def threshold_of(prompts, **arguments):
    return options(prompts, **arguments)["long_prefill_token_threshold"]


@pytest.mark.parametrize(
    ("prompts", "expected"),
    [
        ([999], 0),
        ([1_000], 2_048),
        ([10] * 99 + [999], 0),
        ([10] * 99 + [1_000], 2_048),
        ([2_047], 2_048),
        ([2_048], 1_638),
        ([2_047] * 100 + [9_000], 2_048),
        ([2_048] * 100 + [9_000], 1_638),
        ([10_000], 8_000),
        ([2_049], 1_639),
    ],
)
def test_the_rule_at_its_boundaries(prompts, expected):
    assert prefill_rule(prompts).threshold == expected
    assert threshold_of(prompts).value == expected


def test_the_percentile_interpolates_and_is_rounded_down_before_it_is_compared():
    # Rank 0.95 of two values: 2,047 + 0.95 x 1 = 2,047.95, which is 2,047 and so under 2,048.
    assert percentile_floor([2_047, 2_048], 95) == 2_047
    assert prefill_rule([2_047, 2_048]).threshold == 2_048
    # 100 + 0.95 x 100 is exactly 195, which binary fractions would miss.
    assert percentile_floor([100, 200], 95) == 195
    # 0.8 x 2,048.95 would be 1,639; of the rounded 2,048 it is 1,638.
    assert prefill_rule([2_048, 2_049]).threshold == 1_638


@settings(deadline=None)
@given(st.lists(st.integers(min_value=0, max_value=200_000), min_size=1, max_size=60))
def test_the_percentile_agrees_with_exact_fractions(values):
    ordered = sorted(values)
    rank = Fraction(95, 100) * (len(ordered) - 1)
    low = rank.numerator // rank.denominator
    high = min(low + 1, len(ordered) - 1)
    exact = ordered[low] + (rank - low) * (ordered[high] - ordered[low])
    assert percentile_floor(values, 95) == exact.numerator // exact.denominator


def test_a_percentile_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        percentile_floor([], 95)


def test_a_number_above_max_model_len_is_zero_with_that_reason_and_the_rules_number_kept():
    option = threshold_of([1_500], max_model_len=1_600)
    assert option.value == 0
    assert "max_model_len (1,600)" in option.reason
    assert "2,048" in option.evidence
    assert threshold_of([1_500], max_model_len=2_048).value == 2_048
    assert threshold_of([1_500], max_model_len=2_047).value == 0


def test_a_number_at_the_budget_is_zero_and_one_below_it_stands():
    at = threshold_of([1_500], token_budget=2_048)
    assert at.value == 0
    assert "token budget (2,048)" in at.reason
    assert "2,048" in at.evidence
    assert threshold_of([1_500], token_budget=2_049).value == 2_048
    assert threshold_of([1_500], token_budget=2_047).value == 0


def test_off_is_zero_whatever_the_prompts():
    planned = options([50_000], policy="off")
    assert planned["long_prefill_token_threshold"].value == 0
    assert planned["long_prefill_token_threshold"].source == "user"
    assert "40,000" in planned["long_prefill_token_threshold"].evidence
    assert planned["prefill_policy"].value == "off"


def test_a_fixed_number_stands_within_the_limits_and_is_dropped_outside_them():
    assert threshold_of([50], policy="fixed", threshold=256).value == 256
    assert threshold_of([50], policy="fixed", threshold=256).source == "user"
    dropped = threshold_of([50], policy="fixed", threshold=256, token_budget=256)
    assert (dropped.value, dropped.source) == (0, "plan")
    assert threshold_of([50], policy="fixed", threshold=256, max_model_len=255).value == 0
    assert threshold_of([50], policy="fixed", threshold=0).value == 0


def test_the_reasons_name_the_numbers_they_rest_on():
    assert "999" in threshold_of([999]).reason
    assert "1,000" in threshold_of([999]).reason
    assert "0.8 x 10,000 = 8,000" in threshold_of([10_000]).reason
    for name in ("long_prefill_token_threshold", "prefill_policy"):
        option = options([3_000])[name]
        assert option.reason
        assert option.evidence
        assert option.default_value in (0, "off")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            {"prompts": [999]},
            "a prompt of 1,000 tokens or more turns splitting on; engine.prefill.policy: auto, off or",
        ),
        ({"prompts": [1_000]}, "a 95th percentile of 2,048 or more: 0.8 of it"),
        ({"prompts": [5_000]}, "another 95th percentile"),
        ({"prompts": [1_500], "token_budget": 2_048}, "an engine.max_num_batched_tokens above 2,048"),
        ({"prompts": [1_500], "max_model_len": 1_600}, "an engine.max_model_len of at least 2,048"),
        ({"prompts": [5_000], "policy": "off"}, "engine.prefill.policy: rule, auto or fixed"),
        ({"prompts": [5_000], "policy": "fixed", "threshold": 256}, "engine.prefill.threshold"),
        ({"prompts": [5_000], "policy": "auto"}, "short prompts that come after long ones"),
    ],
)
def test_what_would_change_the_threshold(arguments, says):
    assert says in threshold_of(**arguments).would_change


def test_the_rule_says_what_its_number_gains():
    assert "No short prompt comes after a long one, so it gains nothing" in threshold_of([50] * 20 + [6_000]).reason
    ahead = threshold_of([6_000] + [50] * 30, token_budget=4_096)
    assert ahead.value == 2_048
    assert "30 short prompts behind long ones are predicted to be read" in ahead.reason
    fills = threshold_of([6_000] * 2 + [50] * 60, token_budget=4_096)
    assert fills.value == 2_048
    assert "2 long prompts run at once, and their pieces fill a step's 4,096 tokens" in fills.reason
    fixed = threshold_of([6_000] * 2 + [50] * 60, token_budget=4_096, policy="fixed", threshold=256)
    assert "times as soon" in fixed.reason


def test_auto_is_named_and_the_rules_number_stands_beside_its_own():
    planned = options([6_000] + [50] * 20, policy="auto", token_budget=4_096)
    assert planned["long_prefill_token_threshold"].value == 128
    assert planned["long_prefill_token_threshold"].source == "plan"
    assert "the rule's own number 2,048" in planned["long_prefill_token_threshold"].evidence
    assert (planned["prefill_policy"].value, planned["prefill_policy"].source) == ("auto", "default")


def test_only_autos_threshold_yields_by_itself_and_only_within_reach_of_the_scheduler():
    mix = [6_000] + [50] * 20
    yields = options(mix, policy="auto", token_budget=4_096)["prefill_yields"]
    assert (yields.value, yields.source) == (True, "plan")
    assert "in which a short prompt waits" in yields.reason
    apart = options(mix, policy="auto", token_budget=4_096, core="multiprocess")
    assert apart["prefill_yields"].value is False
    assert "process of its own" in apart["prefill_yields"].reason
    assert apart["long_prefill_token_threshold"].value == 512  # it holds to the end, so it must not be too small
    assert options(mix, token_budget=4_096)["prefill_yields"].value is False
    assert options([50] * 20, policy="auto", token_budget=4_096)["prefill_yields"].value is False


def test_a_user_may_have_it_yield_or_not():
    mix = [6_000] + [50] * 20
    fixed = options(mix, policy="fixed", threshold=256, yields=True, token_budget=4_096)["prefill_yields"]
    assert (fixed.value, fixed.source) == (True, "user")
    held = options(mix, policy="auto", yields=False, token_budget=4_096)
    assert (held["prefill_yields"].value, held["long_prefill_token_threshold"].value) == (False, 512)
    with pytest.raises(ConfigError, match=r"engine\.prefill\.yields.*process of its own"):
        options(mix, policy="fixed", threshold=256, yields=True, token_budget=4_096, core="multiprocess")
