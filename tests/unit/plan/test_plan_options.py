"""Engine options that few runs have: what the plan makes of each, and what it refuses on which device."""

from dataclasses import replace
from typing import Any, Literal

import pytest
from planning import a_cpu, a_gpu, a_model

from schemas.adapter import AdapterFacts
from schemas.engine import VllmEngine
from schemas.errors import ConfigError
from schemas.plan import EnginePlan, PlannedLoad
from schemas.sample import Request
from tasks.plan.adapters import check_likelihoods
from tasks.plan.batch import kv_bytes_per_token
from tasks.plan.context import as_overridden
from tasks.plan.engine import plan_engine
from tasks.plan.on_disk import OnDisk

LOAD = PlannedLoad(prompt_tokens=[100] * 10, output_tokens=[50] * 10)
H100S = a_gpu(count=4)
CONFIG = {
    "max_position_embeddings": 8192,
    "num_hidden_layers": 30,
    "sliding_window": None,
    "rope_parameters": {"rope_theta": 100000.0, "rope_type": "default"},
}


def plan(*, device: Any = None, on_disk: OnDisk | None = None, load: PlannedLoad = LOAD, **engine: Any) -> EnginePlan:
    asked = VllmEngine(**engine)
    return plan_engine(
        load=load,
        model=as_overridden(a_model(), asked),
        device=device or a_cpu(),
        engine=asked,
        dtype="bfloat16",
        earlier=None,
        on_disk=on_disk,
    )


def adapter(name: str = "legal", rank: int = 4) -> AdapterFacts:
    return AdapterFacts(name=name, path=f"/a/{name}", rank=rank, fingerprint=name * 3, modules=["q_proj"])


def refusal(**given: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        plan(**given)
    return str(caught.value)


def test_what_is_not_asked_for_is_planned_as_vllms_own() -> None:
    planned = plan()
    for name, value in (
        ("quantization", "auto"),
        ("kv_cache_dtype", "auto"),
        ("cpu_offload_gb", 0.0),
        ("adapters", []),
        ("speculative", None),
        ("tensor_parallel_size", 1),
        ("pipeline_parallel_size", 1),
        ("data_parallel_size", 1),
        ("executor", "auto"),
        ("hf_overrides", {}),
        ("attention_backend", "auto"),
        ("sleep_mode", False),
        ("batch_invariant", False),
        ("python", None),
        ("trace_steps", 0),
        ("extra", {}),
    ):
        assert planned.value(name) == value, name
        assert next(each for each in planned.options if each.option == name).source == "default", name
    assert planned.warnings == []


def test_fp8_keys_and_values_take_half_the_memory() -> None:
    wide, narrow = plan(), plan(memory={"kv_dtype": "fp8"})
    assert narrow.value("kv_cache_dtype") == "fp8"
    assert narrow.value("kv_cache_memory_bytes") == pytest.approx(wide.value("kv_cache_memory_bytes") / 2, rel=0.1)
    assert kv_bytes_per_token(model=a_model(), dtype="fp8") * 2 == kv_bytes_per_token(model=a_model(), dtype="float16")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"memory": {"kv_dtype": "nvfp4"}}, "engine.memory.kv_dtype"),
        ({"memory": {"kv_dtype": "fp8"}, "device": a_cpu(cpu_flags=["avx2"])}, "AVX-512"),
        ({"quantization": "fp8"}, "no kernels for fp8 on a CPU"),
        ({"quantization": "none", "on_disk": OnDisk(config={"quantization_config": {"quant_method": "awq"}})}, "awq"),
        ({"attention_backend": "FLASH_ATTN"}, "FLASH_ATTN is no attention backend of a CPU"),
        ({"sleep_mode": True}, "engine.sleep_mode"),
        ({"batch_invariant": True}, "engine.batch_invariant"),
        ({"parallel": {"tensor": 2}}, "a CPU is one device"),
        ({"parallel": {"data": 3}}, "the 2 cores"),
        ({"parallel": {"tensor": 4, "data": 2}, "device": H100S}, "needs 8 devices, and 4 are visible"),
        ({"parallel": {"tensor": 2}, "device": a_gpu()}, "needs 2 devices, and 1 is visible"),
        ({"parallel": {"tensor": 2, "executor": "uni"}, "device": H100S}, "engine.parallel.executor"),
        ({"parallel": {"executor": "ray"}}, "needs the package ray"),
        ({"parallel": {"tensor": 2}, "core": "inprocess", "device": H100S}, "engine.core"),
        ({"on_disk": OnDisk(adapters=(adapter(rank=600),))}, "rank 600, and vLLM takes 512"),
        (
            {"hf_overrides": {"max_position_embedings": 9000}, "on_disk": OnDisk(config=CONFIG)},
            "did you mean `max_position_embeddings`",
        ),
        ({"max_model_len": 16_000}, "more than the model takes"),
        (
            {
                "speculative": {"method": "draft", "model": "x"},
                "on_disk": OnDisk(draft=a_model(vocab_size=32_000)),
            },
            "vocabulary of 32,000",
        ),
    ],
)
def test_what_cannot_be_had_here_is_refused_before_anything_is_loaded(given: dict[str, Any], words: str) -> None:
    assert words in refusal(**given)


@pytest.mark.parametrize(
    ("given", "option", "value"),
    [
        ({"quantization": "fp8", "device": a_gpu()}, "quantization", "fp8"),
        ({"attention_backend": "FLASHINFER", "device": a_gpu()}, "attention_backend", "FLASHINFER"),
        ({"attention_backend": "CPU_ATTN"}, "attention_backend", "CPU_ATTN"),
        ({"sleep_mode": True, "device": a_gpu()}, "sleep_mode", True),
        ({"batch_invariant": True, "device": a_gpu()}, "batch_invariant", True),
        ({"memory": {"cpu_offload_gb": 4}, "device": a_gpu()}, "cpu_offload_gb", 4),
        ({"memory": {"kv_dtype": "bfloat16"}}, "kv_cache_dtype", "bfloat16"),
        ({"parallel": {"tensor": 2, "pipeline": 2}, "device": H100S}, "pipeline_parallel_size", 2),
        ({"parallel": {"tensor": 2}, "device": H100S}, "core", "multiprocess"),
        ({"parallel": {"data": 2}}, "data_parallel_size", 2),
        ({"extra": {"max_logprobs": 3}}, "extra", {"max_logprobs": 3}),
        ({"trace_steps": 5}, "trace_steps", 5),
        (
            {"speculative": {"method": "ngram"}},
            "speculative",
            {"method": "ngram", "tokens": 4, "lookup": [2, 4]},
        ),
        ({"speculative": {"method": "mtp"}}, "speculative", {"method": "mtp"}),
        (
            {
                "speculative": {"method": "draft", "tokens": 3, "model": "x"},
                "on_disk": OnDisk(draft=a_model(path="/m/small")),
            },
            "speculative",
            {"method": "draft_model", "tokens": 3, "model": "/m/small", "fingerprint": "0" * 64},
        ),
    ],
)
def test_what_is_asked_for_is_planned_as_the_users(given: dict[str, Any], option: str, value: Any) -> None:
    planned = plan(**given)
    assert planned.value(option) == value
    found = next(each for each in planned.options if each.option == option)
    assert found.source == ("plan" if option == "core" else "user")
    assert found.reason.endswith(".")


def test_adapters_get_room_for_their_largest_rank() -> None:
    planned = plan(on_disk=OnDisk(adapters=(adapter("a", 4), adapter("b", 17))))
    assert planned.value("max_lora_rank") == 32
    assert planned.value("max_loras") == 3  # a CPU needs an empty place
    assert [each["name"] for each in planned.value("adapters")] == ["a", "b"]
    many = OnDisk(adapters=tuple(adapter(f"a{n}") for n in range(20)))
    assert plan(on_disk=many, device=a_gpu()).value("max_loras") == 16
    assert plan(on_disk=many).value("max_loras") == 21


def test_log_likelihoods_are_refused_beside_an_adapter_of_the_output_layer() -> None:
    def asked(kind: Literal["generate", "loglikelihood"]) -> Request:
        return Request(
            request_id="r", dataset="quiz", sample_id="s", arm="free", kind=kind, prompt_token_ids=[1], max_tokens=1,
            stop=[],
        )  # fmt: skip

    head = replace(adapter("head"), modules=["lm_head", "q_proj"])
    check_likelihoods([adapter(), head], requests=[asked("generate")])
    check_likelihoods([adapter()], requests=[asked("loglikelihood")])
    with pytest.raises(ConfigError, match=r"`quiz` needs log-likelihoods.*changes lm_head \(head\)"):
        check_likelihoods([adapter(), head], requests=[asked("loglikelihood")])


def test_a_scaled_rope_raises_the_models_limit() -> None:
    rope = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}
    planned = plan(rope_scaling=rope, max_model_len=32_000, on_disk=OnDisk(config=CONFIG))
    assert planned.value("max_model_len") == 32_000
    assert planned.value("hf_overrides") == {
        "rope_parameters": {"rope_theta": 100000.0, **rope},
        "max_position_embeddings": 32_768,
    }
    linear = plan(rope_scaling={"rope_type": "linear", "factor": 2.0}, max_model_len=16_384)
    assert linear.value("hf_overrides") == {"rope_parameters": {"rope_type": "linear", "factor": 2.0}}
    with pytest.raises(ConfigError, match="more than the model takes"):
        plan(rope_scaling={"rope_type": "linear", "factor": 2.0}, max_model_len=16_400)


def test_overridden_sizes_are_the_models_facts() -> None:
    facts = as_overridden(a_model(), VllmEngine(hf_overrides={"num_hidden_layers": 4, "max_position_embeddings": 512}))
    assert (facts.layers, facts.max_position_embeddings) == (4, 512)
    assert as_overridden(a_model(), VllmEngine()) == a_model()


def test_what_has_no_effect_is_said() -> None:
    assert any("cpu_offload_gb has no effect" in each for each in plan(memory={"cpu_offload_gb": 2}).warnings)
    assert any(
        "no key `new_key`" in each for each in plan(hf_overrides={"new_key": 1}, on_disk=OnDisk(config=CONFIG)).warnings
    )
    experts = plan(quantization="experts_int8", device=a_gpu(), on_disk=OnDisk(config=CONFIG))
    assert any("nothing changes" in each for each in experts.warnings)
    assert any(
        "4 GPUs are visible; 2 of them are used" in each for each in plan(device=H100S, parallel={"tensor": 2}).warnings
    )


def test_copies_share_the_requests_and_a_cpus_memory() -> None:
    one, two = plan(), plan(parallel={"data": 2})
    assert (one.value("max_num_seqs"), two.value("max_num_seqs")) == (10, 5)
    assert two.value("kv_cache_memory_bytes") < one.value("kv_cache_memory_bytes")
    assert one.prediction is not None and two.prediction is not None
    assert two.prediction.available_bytes == one.prediction.available_bytes // 2
    assert two.estimate.requests == one.estimate.requests == 10
    assert "for one of 2 copies" in two.estimate.basis


def test_a_model_that_only_fits_on_two_gpus_is_planned_on_two() -> None:
    big = a_model(weights_bytes=120 << 30)
    given = {"load": LOAD, "model": big, "dtype": "bfloat16", "earlier": None, "device": a_gpu(count=2)}
    shared = plan_engine(**given, engine=VllmEngine(parallel={"tensor": 2}))
    assert shared.prediction is not None and shared.prediction.fits
    alone = plan_engine(**given, engine=VllmEngine())
    assert alone.prediction is not None and not alone.prediction.fits
