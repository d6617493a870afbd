"""Facts for the tests of the plan: a 135M model, two cores, a GPU."""

from schemas.plan import DeviceFacts, ModelFacts

GIB = 1 << 30


def a_model(**changes) -> ModelFacts:
    facts = {
        "path": "model",
        "architecture": "LlamaForCausalLM",
        "max_position_embeddings": 8_192,
        "layers": 30,
        "kv_heads": 3,
        "head_dim": 64,
        "hidden_size": 576,
        "vocab_size": 49_152,
        "dtype": "bfloat16",
        "weights_bytes": 269_060_552,
        "fingerprint": "0" * 64,
        "eos_token_ids": [2],
        "bos_token_id": 1,
    }
    return ModelFacts(**(facts | changes))


def a_cpu(**changes) -> DeviceFacts:
    facts = {
        "kind": "cpu",
        "name": "a processor",
        "count": 1,
        "memory_bytes": 16 * GIB,
        "cores": [0, 1],
        "cpu_quota": None,
        "cpu_flags": ["avx2", "avx512_bf16", "avx512f"],
        "driver": None,
        "compute_capability": None,
    }
    return DeviceFacts(**(facts | changes))


def a_gpu(**changes) -> DeviceFacts:
    facts = {
        "kind": "cuda",
        "name": "NVIDIA H100 80GB HBM3",
        "memory_bytes": 80 * GIB,
        "driver": "580.1",
        "compute_capability": "9.0",
    }
    return a_cpu(**(facts | changes))
