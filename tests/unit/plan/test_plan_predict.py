"""What is predicted of the engine's memory, and when it is said not to fit."""

import pytest
from planning import GIB, a_cpu, a_gpu, a_model
from test_plan_prefill_auto import an_8b

from schemas.engine import VllmEngine
from schemas.plan import PlannedLoad
from tasks.plan.engine import plan_engine
from tasks.plan.predict import activation_bytes, graph_bytes, weights_bytes

LOAD = PlannedLoad(prompt_tokens=[150] * 100 + [3_000], output_tokens=[100] * 100 + [64])


def planned(*, model=None, device=None, load=LOAD, dtype="auto", **engine):
    return plan_engine(
        load=load,
        model=model or a_model(),
        device=device or a_cpu(),
        engine=VllmEngine(**engine),
        dtype=dtype,
        earlier=None,
    )


def predicted(**arguments):
    prediction = planned(**arguments).prediction
    assert prediction is not None
    return prediction


def test_weights_are_the_files_in_the_format_that_is_computed_in():
    files = a_model().weights_bytes
    assert predicted().weights_bytes == files
    assert predicted(dtype="float32").weights_bytes == 2 * files
    assert weights_bytes(model=a_model(dtype="float32"), dtype="bfloat16", quantization=None) == files // 2


def test_weights_that_are_quantized_while_loading_keep_their_embedding():
    model = a_model()
    embedding = 49_152 * 576 * 2
    quantized = weights_bytes(model=model, dtype="bfloat16", quantization="fp8")
    assert quantized == (model.weights_bytes - embedding) // 2 + embedding


def test_a_cache_in_one_byte_a_number_takes_half():
    whole, half = predicted(), predicted(memory={"kv_dtype": "fp8"})
    assert half.kv_need_tokens == whole.kv_need_tokens
    assert half.kv_need_bytes == whole.kv_need_bytes // 2


def test_on_several_devices_each_holds_its_part():
    load = PlannedLoad(prompt_tokens=[2_000] * 64, output_tokens=[500] * 64)
    one = predicted(model=an_8b(), device=a_gpu(count=2), load=load)
    two = predicted(model=an_8b(), device=a_gpu(count=2), load=load, parallel={"tensor": 2})
    assert two.weights_bytes == one.weights_bytes // 2
    assert two.kv_need_bytes == one.kv_need_bytes // 2
    assert two.kv_bytes > one.kv_bytes
    copies = predicted(model=an_8b(), device=a_gpu(count=2), load=load, parallel={"data": 2})
    assert copies.weights_bytes == one.weights_bytes


def test_weights_in_the_hosts_memory_are_not_on_the_device():
    away = predicted(model=an_8b(), device=a_gpu(), memory={"cpu_offload_gb": 4})
    assert away.weights_bytes == an_8b().weights_bytes - 4 * GIB
    assert "4 GiB of them in the host's memory" in away.basis["weights_bytes"]


def test_keys_and_values_are_those_of_the_largest_requests_at_once_in_whole_blocks():
    found = predicted(max_num_seqs=2)
    # 3,064 tokens are 96 blocks of 32, and 250 are 8.
    assert found.kv_need_tokens == (96 + 8) * 32
    assert found.kv_need_bytes == found.kv_need_tokens * 23_040
    assert "2 largest" in found.basis["kv_need_bytes"]


def test_on_a_cpu_the_cache_is_what_the_plan_sets_and_there_are_no_graphs():
    plan = planned()
    assert plan.prediction.kv_bytes == plan.value("kv_cache_memory_bytes")
    assert plan.prediction.graph_bytes is None
    assert plan.prediction.available_bytes == a_cpu().memory_bytes
    assert plan.prediction.fits


def test_on_a_gpu_the_cache_is_what_the_rest_leaves():
    found = predicted(model=an_8b(), device=a_gpu())
    assert found.available_bytes == int(0.9 * 80 * GIB)
    assert found.total_bytes == found.available_bytes
    assert found.kv_bytes == found.available_bytes - (
        found.weights_bytes + found.activation_bytes + found.graph_bytes + found.other_bytes
    )
    assert found.fits
    assert found.graph_bytes > 0
    assert "estimate" in found.basis["graph_bytes"]


def test_the_peak_of_a_step_is_the_larger_of_mlp_and_logits():
    model = an_8b()
    mlp, words = activation_bytes(model=model, dtype="bfloat16", token_budget=16_384, max_num_seqs=64)
    assert mlp == 16_384 * (2 * 4_096 + 3 * 14_336) * 2
    assert "16,384 tokens x" in words
    logits, _ = activation_bytes(model=model, dtype="bfloat16", token_budget=1_024, max_num_seqs=1_024)
    assert logits == 1_024 * 2 * 4_096 * 2 + 1_024 * 128_256 * 10
    unsaid, _ = activation_bytes(
        model=an_8b(intermediate_size=None), dtype="bfloat16", token_budget=16_384, max_num_seqs=1
    )
    assert unsaid == 16_384 * 14 * 4_096 * 2


def test_graphs_count_by_size_kind_and_layer():
    one, _ = graph_bytes(model=an_8b(), mode="full_decode_only", sizes=[1, 2, 4])
    two, _ = graph_bytes(model=an_8b(), mode="full_and_piecewise", sizes=[1, 2, 4])
    assert two == pytest.approx(2 * one, abs=1)
    assert graph_bytes(model=an_8b(), mode="none", sizes=[])[0] is None


def test_what_does_not_fit_is_warned_of_with_its_parts():
    small = planned(model=an_8b(), device=a_gpu(name="NVIDIA L4", memory_bytes=17 * GIB))
    assert not small.prediction.fits
    warning = next(text for text in small.warnings if "predicted not to fit" in text)
    assert "weights 14.96" in warning and "of 15.30 GiB" in warning
    tight = planned(device=a_cpu(memory_bytes=1_500 << 20))
    assert not tight.prediction.fits
    assert any("predicted not to fit" in text for text in tight.warnings)
    assert planned().warnings == []


def test_a_cache_that_holds_less_than_runs_at_once_is_said():
    load = PlannedLoad(prompt_tokens=[30_000] * 64, output_tokens=[500] * 64)
    found = planned(model=an_8b(), device=a_gpu(), load=load)
    assert found.prediction.fits
    assert any("64 requests at once, all answered at full length, need" in text for text in found.warnings)
    assert not any("at once" in text for text in planned(model=an_8b(), device=a_gpu()).warnings)
