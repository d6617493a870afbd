"""CUDA graphs and torch.compile, per device."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning import a_cpu, a_gpu

from schemas.errors import ConfigError
from tasks.plan.graphs import capture_sizes, plan_capture_sizes, plan_compile, plan_cudagraph_mode


def test_on_a_cpu_there_are_no_graphs_and_nothing_is_compiled_and_it_is_said():
    compiled = plan_compile(device=a_cpu(), asked="auto")
    mode, warnings = plan_cudagraph_mode(device=a_cpu(), asked="auto", compiled=compiled.value)
    assert (compiled.value, mode.value, warnings) == ("none", "none", [])
    assert "57 to 90 s" in compiled.reason
    assert "CPU" in mode.reason


def test_a_mode_asked_for_on_a_cpu_is_none_with_a_warning():
    mode, warnings = plan_cudagraph_mode(device=a_cpu(), asked="full", compiled="none")
    assert (mode.value, mode.source) == ("none", "plan")
    assert "engine.cudagraph.mode: full" in warnings[0]


def test_on_a_gpu_auto_records_full_and_piecewise_and_names_the_start_up_cost():
    compiled = plan_compile(device=a_gpu(), asked="auto")
    mode, _ = plan_cudagraph_mode(device=a_gpu(), asked="auto", compiled=compiled.value)
    assert (compiled.value, mode.value) == ("full", "full_and_piecewise")
    assert "30 s" in mode.reason


def test_without_compile_auto_takes_what_can_be_recorded_and_an_impossible_mode_is_refused():
    mode, _ = plan_cudagraph_mode(device=a_gpu(), asked="auto", compiled="none")
    assert mode.value == "full_decode_only"
    with pytest.raises(ConfigError, match=r"engine\.cudagraph\.mode: .*torch\.compile"):
        plan_cudagraph_mode(device=a_gpu(), asked="piecewise", compiled="none")


def test_compile_on_a_cpu_stays_the_users_choice_with_its_cost():
    option = plan_compile(device=a_cpu(), asked="full")
    assert (option.value, option.source) == ("full", "user")
    assert "57 to 90 s" in option.reason


@settings(deadline=None)
@given(st.integers(min_value=1, max_value=4_096))
def test_sizes_ascend_from_one_to_the_sequences_and_stay_few(max_num_seqs):
    sizes = capture_sizes(max_num_seqs)
    assert sizes == sorted(set(sizes))
    assert sizes[0] == 1
    assert sizes[-1] == min(max_num_seqs, 512)
    assert len(sizes) <= 40


@settings(deadline=None)
@given(st.integers(min_value=1, max_value=1_024), st.integers(min_value=1, max_value=8))
def test_sizes_count_the_guessed_tokens_of_every_answer(max_num_seqs, guessed):
    each = 1 + guessed
    sizes = capture_sizes(max_num_seqs, per_answer=each)
    assert sizes == sorted(set(sizes))
    assert all(size % each == 0 for size in sizes)
    assert sizes[0] == each
    assert sizes[-1] == min(max_num_seqs * each, 512 // each * each)


def test_a_speculating_engine_has_graphs_for_all_its_tokens():
    option, _ = plan_capture_sizes(mode="full", asked="auto", max_num_seqs=64, token_budget=8_192, guessed=4)
    assert option.value[-1] == 320
    assert "5 tokens each" in option.reason


def test_a_users_sizes_are_sorted_and_those_above_the_budget_left_out():
    option, warnings = plan_capture_sizes(mode="full", asked=[64, 8, 8, 9_000], max_num_seqs=64, token_budget=8_192)
    assert (option.value, option.source) == ([8, 64], "user")
    assert "9,000" in warnings[0]
    with pytest.raises(ConfigError, match="every size"):
        plan_capture_sizes(mode="full", asked=[9_000], max_num_seqs=64, token_budget=8_192)


def test_sizes_without_graphs_are_none_and_the_users_have_no_effect():
    option, warnings = plan_capture_sizes(mode="none", asked=[8], max_num_seqs=64, token_budget=8_192)
    assert option.value == []
    assert "no effect" in warnings[0]
