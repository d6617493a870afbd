"""Sequences, token budget and the memory for keys and values."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning import GIB, a_cpu, a_gpu, a_model

from schemas.errors import ConfigError
from schemas.plan import PlannedLoad
from tasks.plan.batch import (
    kv_bytes_per_token,
    plan_block_size,
    plan_gpu_share,
    plan_kv_cache_bytes,
    plan_max_num_batched_tokens,
    plan_max_num_seqs,
)

BLOCK = 128


def budget(prompts, *, asked="auto", device=None, max_num_seqs=256, max_model_len=8_192):
    return plan_max_num_batched_tokens(
        prompt_tokens=prompts,
        device=device or a_cpu(),
        asked=asked,
        max_num_seqs=max_num_seqs,
        max_model_len=max_model_len,
    )


def cache(prompts, outputs, *, asked="auto", device=None, max_num_seqs=256, max_model_len=None, dtype="bfloat16"):
    return plan_kv_cache_bytes(
        load=PlannedLoad(prompt_tokens=prompts, output_tokens=outputs),
        model=a_model(),
        device=device or a_cpu(),
        dtype=dtype,
        asked=asked,
        max_num_seqs=max_num_seqs,
        max_model_len=max_model_len or max(p + o for p, o in zip(prompts, outputs, strict=True)),
        block=BLOCK,
    )


@pytest.mark.parametrize(("requests", "expected"), [(1, 1), (255, 255), (256, 256), (257, 256)])
def test_sequences_are_the_requests_up_to_vllms_own_number(requests, expected):
    option = plan_max_num_seqs(requests=requests, device=a_cpu(), asked="auto")
    assert option.value == expected
    assert option.default_value == 256
    assert f"{requests:,}" in option.reason


def test_a_users_sequences_stand():
    option = plan_max_num_seqs(requests=3, device=a_cpu(), asked=7)
    assert (option.value, option.source) == (7, "user")


def test_vllms_own_numbers_differ_by_device():
    assert plan_max_num_seqs(requests=5_000, device=a_gpu(), asked="auto").value == 1_024
    assert plan_max_num_seqs(requests=5_000, device=a_gpu(memory_bytes=24 * GIB), asked="auto").value == 256
    assert budget([10], device=a_gpu()).default_value == 16_384
    assert budget([10], device=a_gpu(name="NVIDIA A100-SXM4-80GB")).default_value == 8_192
    assert budget([10]).default_value == 4_096


def test_a_long_prompt_does_not_raise_the_budget():
    option = budget([6_000, 50])
    assert option.value == 4_096
    assert "6,000" in option.reason
    assert "2 steps" in option.reason


def test_the_budget_is_no_more_than_the_requests_can_fill_and_no_less_than_a_token_each():
    assert budget([100], max_num_seqs=1, max_model_len=112).value == 112
    assert budget([100], max_num_seqs=5_000).value == 5_000


def test_a_budget_below_the_sequences_is_refused():
    with pytest.raises(ConfigError, match="less than one for each of 256"):
        budget([10], asked=255)
    assert budget([10], asked=256).value == 256


def test_bytes_of_one_token():
    assert kv_bytes_per_token(model=a_model(), dtype="bfloat16") == 2 * 30 * 3 * 64 * 2
    assert kv_bytes_per_token(model=a_model(), dtype="float32") == 2 * kv_bytes_per_token(
        model=a_model(), dtype="bfloat16"
    )


def test_kv_memory_holds_the_running_set_one_more_of_the_longest_and_the_empty_block():
    option, warnings = cache([100, 300, 20], [28, 84, 10], max_num_seqs=2)
    block_bytes = 23_040 * BLOCK
    # The two largest take 3 and 1 blocks; one more of the longest 3; vLLM keeps 1.
    assert option.value == (3 + 1 + 3 + 1) * block_bytes
    assert warnings == []
    assert "2 largest" in option.reason
    assert "23,040 bytes a token" in option.evidence


def test_kv_memory_is_capped_and_the_likely_preemption_said():
    option, warnings = cache([4_000] * 300, [96] * 300)
    assert 2 * GIB - 23_040 * BLOCK < option.value <= 2 * GIB
    assert any("of 256 requests at once" in warning for warning in warnings)
    assert "zeros" in option.reason


def test_kv_memory_takes_half_of_what_the_weights_leave():
    device = a_cpu(memory_bytes=269_060_552 + 400 * 23_040 * BLOCK)
    option, _ = cache([1_000] * 100, [24] * 100, device=device)
    assert option.value == 200 * 23_040 * BLOCK


def test_memory_too_small_for_one_request_is_said():
    option, warnings = cache([4_000], [96], device=a_cpu(memory_bytes=300_000_000))
    assert option.value == (32 + 1) * 23_040 * BLOCK
    assert any("will probably not start" in warning for warning in warnings)


def test_a_users_bytes_below_one_request_are_refused_with_the_least_that_works():
    least = (8 + 1) * 23_040 * BLOCK
    with pytest.raises(ConfigError, match=f"at least {least}"):
        cache([1_000], [24], asked=least - 1)
    option, _ = cache([1_000], [24], asked=least)
    assert (option.value, option.source) == (least, "user")


@settings(deadline=None)
@given(
    requests=st.lists(
        st.tuples(st.integers(min_value=1, max_value=6_000), st.integers(min_value=1, max_value=500)),
        min_size=1,
        max_size=40,
    ),
    max_num_seqs=st.integers(min_value=1, max_value=256),
    extra=st.integers(min_value=0, max_value=4_000),
    memory=st.integers(min_value=0, max_value=64 * GIB),
    dtype=st.sampled_from(["bfloat16", "float16", "float32"]),
)
def test_kv_memory_always_holds_one_request_of_max_model_len(requests, max_num_seqs, extra, memory, dtype):
    prompts, outputs = [p for p, _ in requests], [o for _, o in requests]
    max_model_len = max(p + o for p, o in requests) + extra
    option, _ = cache(
        prompts,
        outputs,
        device=a_cpu(memory_bytes=memory),
        max_num_seqs=max_num_seqs,
        max_model_len=max_model_len,
        dtype=dtype,
    )
    block_bytes = kv_bytes_per_token(model=a_model(), dtype=dtype) * BLOCK
    assert option.value % block_bytes == 0
    usable_tokens = (option.value // block_bytes - 1) * BLOCK
    assert usable_tokens >= max_model_len
    assert option.value <= max(2 * GIB, (-(-max_model_len // BLOCK) + 1) * block_bytes)


def test_weights_larger_than_the_gpus_share_are_said():
    _, warnings = plan_gpu_share(model=a_model(weights_bytes=75 * GIB), device=a_gpu(), share=0.9, default_share=0.9)
    assert "75.0 GiB" in warnings[0]
    option, warnings = plan_gpu_share(model=a_model(), device=a_gpu(), share=0.5, default_share=0.9)
    assert (option.value, option.default_value, option.source, warnings) == (0.5, 0.92, "user", [])


def test_blocks_are_small_on_a_cpu_so_that_short_prefixes_are_found_again():
    planned = plan_block_size(device=a_cpu(), prefix_caching=True, asked="auto")
    assert (planned.value, planned.default_value, planned.source) == (32, 128, "plan")
    assert "128" in planned.reason
    assert plan_block_size(device=a_cpu(), prefix_caching=False, asked="auto").value == 128
    assert plan_block_size(device=a_gpu(), prefix_caching=True, asked="auto").value == 16


def test_a_block_size_that_the_cpu_does_not_take_is_refused_with_the_next_one():
    with pytest.raises(ConfigError, match="multiple of 32") as refused:
        plan_block_size(device=a_cpu(), prefix_caching=True, asked=48)
    assert "64" in str(refused.value)
