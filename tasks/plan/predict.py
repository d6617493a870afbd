"""What the engine will take of the device's memory, said before anything is loaded.

Weights come from the files, keys and values from the model's shape: both are exact. What a step holds for itself and
what recorded graphs take are estimates; the report shows them beside what the engine measured.
"""

import heapq
from collections.abc import Mapping, Sequence
from typing import Any

from schemas.plan import DeviceFacts, ModelFacts, PlannedLoad, PlannedOption, Prediction
from tasks.plan.batch import DTYPE_BYTES, MIB, kv_bytes_per_token
from tasks.plan.lengths import request_tokens
from tasks.plan.vllm_defaults import GIB
from tasks.plan.weights import kv_dtype_of

LOGIT_BYTES = 10
"""Of one entry of a step's logits: in the computed format, once more in float32, and a copy while tokens are drawn."""
ONLINE_BYTES = {"fp8": 1.0, "int8": 1.0, "bitsandbytes": 0.5}
"""Bytes a weight of the layers takes where the engine quantizes while it loads; the embedding stays as it is."""
GRAPH_LAYER_BYTES = 0.4 * MIB
"""What one recorded size takes for each layer. From one published start of vLLM: a model of 16 layers, 35 sizes, 0.21
GiB (pull request 11349)."""
GRAPH_SETS = {"none": 0, "piecewise": 1, "full": 1, "full_decode_only": 1, "full_and_piecewise": 2}
OTHER_BYTES = {"cpu": 900 * MIB, "cuda": 700 * MIB}
"""On a CPU: Python, torch and vLLM without a model. On a GPU: the CUDA context and the libraries' own buffers."""


def weights_bytes(*, model: ModelFacts, dtype: str, quantization: str | None) -> int:
    """The weights on the device: the files' bytes in the format that is computed in, or as the engine quantizes."""
    stored = DTYPE_BYTES[model.dtype]
    parameters = model.weights_bytes / stored
    if quantization in ONLINE_BYTES:
        embedding = min(model.vocab_size * model.hidden_size, parameters)
        return int((parameters - embedding) * ONLINE_BYTES[quantization] + embedding * DTYPE_BYTES[dtype])
    return int(parameters * DTYPE_BYTES[dtype])


def activation_bytes(*, model: ModelFacts, dtype: str, token_budget: int, max_num_seqs: int) -> tuple[int, str]:
    """The most that one step holds beside weights and cache, and the formula in words.

    The larger of two moments: inside the MLP of a layer, each of the budget's tokens has its hidden state and residual
    (2 x hidden size) and the gate, the up projection and their product (3 x intermediate size, or 12 x hidden size
    where the config does not say it); at the end, each running request has one row of logits over the vocabulary
    (LOGIT_BYTES an entry), beside the budget's hidden states.
    """
    width, wide = DTYPE_BYTES[dtype], model.intermediate_size or 4 * model.hidden_size
    mlp = token_budget * (2 * model.hidden_size + 3 * wide) * width
    rows = min(max_num_seqs, token_budget)
    logits = token_budget * 2 * model.hidden_size * width + rows * model.vocab_size * LOGIT_BYTES
    basis = (
        f"estimate: the larger of {token_budget:,} tokens x (2 x hidden {model.hidden_size:,} + 3 x MLP {wide:,}) x "
        f"{width} bytes = {mlp / MIB:,.0f} MiB, and {token_budget:,} x 2 x hidden x {width} + {rows:,} rows of logits "
        f"x vocabulary {model.vocab_size:,} x {LOGIT_BYTES} = {logits / MIB:,.0f} MiB"
    )
    return max(mlp, logits), basis


def graph_bytes(*, model: ModelFacts, mode: str, sizes: Sequence[int]) -> tuple[int | None, str]:
    """What recorded graphs take, and how that was found; None without graphs."""
    graphs = GRAPH_SETS[mode] * len(sizes)
    if not graphs:
        return None, "no graphs are recorded"
    taken = int(graphs * model.layers * GRAPH_LAYER_BYTES)
    basis = (
        f"estimate: {len(sizes)} sizes x {GRAPH_SETS[mode]} kinds of graph x {model.layers} layers x "
        f"{GRAPH_LAYER_BYTES / MIB:g} MiB, from one published start of another model"
    )
    return taken, basis


def kv_room_tokens(memory: Sequence[PlannedOption], *, model: ModelFacts, device: DeviceFacts, dtype: str) -> int:
    """How many tokens the memory for keys and values holds, from the options of memory alone: on a GPU without what a
    step and graphs take, so a little too many."""
    values = {planned.option: planned.value for planned in memory}
    each = kv_bytes_per_token(model=model, dtype=kv_dtype_of(values["kv_cache_dtype"], dtype=dtype))
    taken = values.get("kv_cache_memory_bytes")
    if taken is None:
        taken = values["gpu_memory_utilization"] * device.memory_bytes - model.weights_bytes
    return max(0, int(taken)) // each


def predict(
    options: Sequence[PlannedOption], *, load: PlannedLoad, model: ModelFacts, device: DeviceFacts
) -> tuple[Prediction, list[str]]:
    """The prediction for these options, of one device where there are several, with a warning if it does not fit.

    Raises ValueError for a load without requests."""
    if not load.prompt_tokens:
        raise ValueError("there is nothing to predict: no requests")
    values = {planned.option: planned.value for planned in options}
    dtype, block, running = values["dtype"], values["block_size"], values["max_num_seqs"]
    split = _devices_of_one_copy(values)
    basis: dict[str, str] = {}

    elsewhere = int(values["cpu_offload_gb"] * GIB)
    weights = max(0, weights_bytes(model=model, dtype=dtype, quantization=values["quantization"]) // split - elsewhere)
    basis["weights_bytes"] = f"{model.weights_bytes:,} bytes of files in {model.dtype}, computed in {dtype}" + (
        f", on {split} devices" if split > 1 else ""
    )
    if elsewhere:
        basis["weights_bytes"] += f", {elsewhere / GIB:g} GiB of them in the host's memory"
    kept_as = kv_dtype_of(values["kv_cache_dtype"], dtype=dtype)
    token = -(-kv_bytes_per_token(model=model, dtype=kept_as) // split)
    need = sum(heapq.nlargest(running, (-(-tokens // block) for tokens in request_tokens(load)))) * block
    at_once = min(running, len(load.prompt_tokens))
    basis["kv_need_bytes"] = f"the {at_once:,} largest requests with their whole answers: {need:,} x {token:,} bytes"

    activations, basis["activation_bytes"] = activation_bytes(
        model=model, dtype=dtype, token_budget=values["max_num_batched_tokens"], max_num_seqs=running
    )
    graphs, basis["graph_bytes"] = graph_bytes(
        model=model, mode=values["cudagraph_mode"], sizes=values["cudagraph_capture_sizes"]
    )
    other = OTHER_BYTES[device.kind]
    basis["other_bytes"] = "estimate: " + (
        "Python, torch and vLLM themselves" if device.kind == "cpu" else "CUDA's context and libraries"
    )
    without_cache = weights + activations + (graphs or 0) + other

    available = device.memory_bytes
    if device.kind == "cuda":
        available = int(values["gpu_memory_utilization"] * device.memory_bytes)
        basis["available_bytes"] = f"{values['gpu_memory_utilization']:.0%} of {device.memory_bytes / GIB:.1f} GiB"
    else:
        basis["available_bytes"] = "the memory that is available now"
    cache = values.get("kv_cache_memory_bytes")
    basis["kv_bytes"] = "what the plan sets"
    if cache is None:
        cache = max(0, available - without_cache)
        basis["kv_bytes"] = "what weights, steps, graphs and CUDA leave"
    least = -(-values["max_model_len"] // block) * block * token
    total = without_cache + cache
    fits = total <= available and cache >= least
    prediction = Prediction(
        weights_bytes=weights,
        kv_need_tokens=need,
        kv_need_bytes=need * token,
        kv_bytes=cache,
        activation_bytes=activations,
        graph_bytes=graphs,
        other_bytes=other,
        total_bytes=total,
        available_bytes=available,
        fits=fits,
        basis=basis,
    )
    return prediction, _warnings(prediction, least=least, at_once=at_once, device=device)


def _devices_of_one_copy(values: Mapping[str, Any]) -> int:
    """Over how many devices one copy of the model is laid."""
    return int(values["tensor_parallel_size"]) * int(values["pipeline_parallel_size"])


def _warnings(prediction: Prediction, *, least: int, at_once: int, device: DeviceFacts) -> list[str]:
    parts = (
        f"weights {prediction.weights_bytes / GIB:.2f}, a step {prediction.activation_bytes / GIB:.2f}, graphs "
        f"{(prediction.graph_bytes or 0) / GIB:.2f}, the process {prediction.other_bytes / GIB:.2f}"
    )
    if not prediction.fits:
        wanted = prediction.total_bytes - prediction.kv_bytes + max(least, prediction.kv_bytes * (device.kind == "cpu"))
        return [
            f"The engine is predicted not to fit: {wanted / GIB:.2f} GiB ({parts}, keys and values "
            f"{max(least, prediction.kv_bytes) / GIB:.2f}) of {prediction.available_bytes / GIB:.2f} GiB. A smaller "
            "engine.max_num_batched_tokens or engine.max_model_len, fewer engine.cudagraph.sizes, or quantized weights "
            "take less."
        ]
    if device.kind == "cuda" and prediction.kv_bytes < prediction.kv_need_bytes:
        return [
            f"{at_once:,} requests at once, all answered at full length, need {prediction.kv_need_bytes / GIB:.2f} GiB "
            f"for keys and values; {prediction.kv_bytes / GIB:.2f} GiB are predicted to be left: vLLM then makes some "
            "wait, or stops and reads them again."
        ]
    return []


MEMORY_PARTS = (
    ("weights_bytes", "weights"),
    ("kv_bytes", "keys and values"),
    ("kv_need_bytes", "keys and values that this load needs"),
    ("activation_bytes", "a step at its peak"),
    ("graph_bytes", "CUDA graphs"),
    ("other_bytes", "the process itself"),
    ("total_bytes", "together"),
    ("available_bytes", "what it may take"),
)
"""The numbers of a prediction in the order in which they are shown, and what each is."""


def memory_lines(prediction: Prediction) -> list[tuple[str, int | None, str]]:
    """(part, bytes, how it was found) of a prediction, in the order in which it is shown."""
    words = {**prediction.basis, "total_bytes": "it fits" if prediction.fits else "it does not fit"}
    return [(name, getattr(prediction, field), words.get(field, "")) for field, name in MEMORY_PARTS]
