"""What vLLM itself would choose, for the column beside our choice (vLLM 0.32, offline use)."""

from schemas.plan import DeviceFacts

GIB = 1 << 30
BLOCK_TOKENS = {"cpu": 128, "cuda": 16}
"""Tokens in one block of the key-value cache."""
GPU_MEMORY_UTILIZATION = 0.92


def default_max_num_seqs(device: DeviceFacts) -> int:
    """Requests at once: 1,024 on a GPU of the H100's class or larger, 256 elsewhere."""
    return 1024 if _is_large_gpu(device) else 256


def default_max_num_batched_tokens(device: DeviceFacts) -> int:
    """Tokens a step: 4,096 on a CPU, 16,384 on a GPU of the H100's class or larger, 8,192 on another GPU."""
    if device.kind == "cpu":
        return 4096
    return 16384 if _is_large_gpu(device) else 8192


def _is_large_gpu(device: DeviceFacts) -> bool:
    if device.kind != "cuda":
        return False
    return device.memory_bytes >= 160 * GIB or (device.memory_bytes >= 70 * GIB and "a100" not in device.name.lower())
