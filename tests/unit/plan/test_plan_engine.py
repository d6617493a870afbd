"""The whole plan: every option is there, with a reason, and the parts agree."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning import a_cpu, a_gpu, a_model

from schemas.engine import VllmEngine
from schemas.errors import ConfigError
from schemas.plan import PlannedLoad
from tasks.plan.engine import plan_engine
from tasks.plan.estimate import EarlierRun, estimate

FEW_SET = {
    "adapters",
    "attention_backend",
    "batch_invariant",
    "compile_cache",
    "cpu_offload_gb",
    "data_parallel_size",
    "executor",
    "extra",
    "hf_overrides",
    "kv_cache_dtype",
    "load_format",
    "pipeline_parallel_size",
    "python",
    "quantization",
    "sleep_mode",
    "speculative",
    "tensor_parallel_size",
    "trace_steps",
}
"""See test_plan_options.py; where the weights come from is the model's to say."""
ALWAYS = {
    "block_size",
    "dtype",
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "long_prefill_token_threshold",
    "prefill_policy",
    "prefill_yields",
    "enable_prefix_caching",
    "cudagraph_mode",
    "cudagraph_capture_sizes",
    "compile",
    "grammar_backend",
    "grammar_masks",
    "grammar_whitespace",
    "core",
}
LOAD = PlannedLoad(prompt_tokens=[150] * 100 + [3_000], output_tokens=[100] * 100 + [64])


def plan(*, load=LOAD, device=None, dtype="auto", earlier=None, model=None, **engine):
    return plan_engine(
        load=load,
        model=model or a_model(),
        device=device or a_cpu(),
        engine=VllmEngine(**engine),
        dtype=dtype,
        earlier=earlier,
    )


@pytest.mark.parametrize(
    ("device", "more"),
    [(a_cpu(), {"kv_cache_memory_bytes", "cores"}), (a_gpu(), {"gpu_memory_utilization"})],
)
def test_every_option_is_planned_once_with_a_reason_and_evidence(device, more):
    planned = plan(device=device)
    names = [option.option for option in planned.options]
    assert sorted(names) == sorted(ALWAYS | FEW_SET | more)
    for option in planned.options:
        assert option.reason.endswith(".")
        assert option.evidence
        assert option.would_change
        assert not option.would_change.endswith(".")


def test_the_values_of_a_small_run_on_two_cores():
    planned = plan()
    values = {option.option: option.value for option in planned.options}
    assert values["max_model_len"] == 3_072
    assert values["max_num_seqs"] == 101
    assert values["max_num_batched_tokens"] == 4_096
    assert values["long_prefill_token_threshold"] == 0  # the long one comes last
    assert values["dtype"] == "bfloat16"
    assert values["core"] == "inprocess"
    assert values["cores"] == [0, 1]
    assert values["grammar_whitespace"] is False
    assert planned.warnings == []


def test_what_the_user_wrote_is_marked_as_the_users():
    planned = plan(
        dtype="float32",
        max_model_len=4_096,
        max_num_seqs=8,
        max_num_batched_tokens=512,
        prefill={"policy": "fixed", "threshold": 128, "yields": False},
        prefix_caching=False,
        core="multiprocess",
        grammar={"backend": "guidance", "whitespace": True, "masks": "vllm"},
        memory={"kv_cache_bytes": 1 << 30, "block_size": 64},
    )
    by_name = {option.option: option for option in planned.options}
    for name in ALWAYS - {"cudagraph_mode", "cudagraph_capture_sizes", "compile"} | {"kv_cache_memory_bytes"}:
        assert by_name[name].source == "user", name
    assert planned.value("long_prefill_token_threshold") == 128
    assert planned.value("kv_cache_memory_bytes") == 1 << 30


def test_a_users_kv_bytes_reach_a_gpu_too():
    assert plan(device=a_gpu(), memory={"kv_cache_bytes": 1 << 30}).value("kv_cache_memory_bytes") == 1 << 30


def test_a_backend_that_cannot_forbid_white_space_allows_it_and_says_so():
    planned = plan(grammar={"backend": "outlines"})
    assert planned.value("grammar_whitespace") is True
    assert any("outlines" in warning for warning in planned.warnings)


def test_a_cpu_quota_limits_the_cores():
    assert plan(device=a_cpu(cores=[0, 1, 2, 3], cpu_quota=2.5)).value("cores") == [0, 1]
    assert plan(device=a_cpu(cores=[4, 5], cpu_quota=0.5)).value("cores") == [4]
    assert plan(device=a_cpu(cores=[4, 5], cpu_quota=8.0)).value("cores") == [4, 5]


def test_a_gpu_without_bfloat16_gets_float16_and_refuses_bfloat16():
    old = a_gpu(name="Tesla T4", compute_capability="7.5")
    assert plan(device=old).value("dtype") == "float16"
    with pytest.raises(ConfigError, match=r"model\.dtype"):
        plan(device=old, dtype="bfloat16")


def test_a_gpu_that_the_installed_vllm_cannot_use_is_said():
    assert any("CPU build" in warning for warning in plan(device=a_cpu(driver="580.1")).warnings)


def test_an_empty_load_is_refused():
    with pytest.raises(ConfigError, match="no request"):
        plan(load=PlannedLoad(prompt_tokens=[], output_tokens=[]))


def test_an_earlier_run_corrects_the_table():
    table = plan().estimate
    earlier = EarlierRun(load=LOAD, generate_s=3 * table.generate_s, start_s=9.0, source="run 7")
    made = plan(earlier=earlier).estimate
    assert made.requests == 101
    assert made.prompt_tokens == 18_000
    assert made.output_tokens_max == 10_064
    assert made.start_s == 9.0
    assert made.generate_s == pytest.approx(3 * table.generate_s)
    assert made.basis.startswith("from run 7")


def test_without_a_run_the_table_is_scaled_by_parameters_and_cores():
    small = estimate(load=LOAD, model=a_model(), device=a_cpu(), earlier=None)
    larger = estimate(load=LOAD, model=a_model(weights_bytes=10 * 269_060_552), device=a_cpu(), earlier=None)
    wider = estimate(load=LOAD, model=a_model(), device=a_cpu(cores=[0, 1, 2, 3]), earlier=None)
    assert "table of measured rates" in small.basis
    assert 5 < larger.generate_s / small.generate_s <= 10
    assert wider.generate_s == pytest.approx(small.generate_s / 2)
    assert estimate(load=LOAD, model=a_model(), device=a_gpu(), earlier=None).generate_s < small.generate_s


def test_the_table_gives_back_what_was_measured():
    # One prompt of 6,000 tokens took 11.9 s on two cores; 256 short requests wrote 1,190 tokens/s.
    one = PlannedLoad(prompt_tokens=[6_000], output_tokens=[0])
    assert estimate(load=one, model=a_model(), device=a_cpu(), earlier=None).generate_s == pytest.approx(11.9, rel=0.05)
    many = PlannedLoad(prompt_tokens=[1] * 256, output_tokens=[119] * 256)
    assert estimate(load=many, model=a_model(), device=a_cpu(), earlier=None).generate_s == pytest.approx(
        25.6, rel=0.05
    )


def test_an_earlier_run_that_took_no_time_is_refused():
    with pytest.raises(ValueError, match="took time"):
        EarlierRun(load=LOAD, generate_s=0.0, start_s=None, source="x")


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(min_value=1, max_value=7_000), st.integers(min_value=1, max_value=1_000)),
        min_size=1,
        max_size=30,
    ),
    st.sampled_from([a_cpu(), a_gpu()]),
)
def test_a_plan_never_holds_what_vllm_refuses(requests, device):
    load = PlannedLoad(prompt_tokens=[p for p, _ in requests], output_tokens=[o for _, o in requests])
    planned = plan(load=load, device=device)
    max_model_len = planned.value("max_model_len")
    budget = planned.value("max_num_batched_tokens")
    threshold = planned.value("long_prefill_token_threshold")
    assert max_model_len <= 8_192
    assert planned.value("max_num_seqs") <= budget <= planned.value("max_num_seqs") * max_model_len
    assert threshold <= max_model_len
    assert threshold < budget
    assert planned.estimate.generate_s > 0
