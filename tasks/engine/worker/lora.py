"""LoRA adapters: loaded when the engine is built, so that a bad one fails there and not in the middle of a run."""

from typing import Any


def load_adapters(engine: Any, listed: list[dict[str, Any]]) -> dict[str, Any]:
    """vLLM's request for each adapter, by name, once it is loaded. listed: blocks of name and path.

    Raises RuntimeError with the adapter's name where vLLM does not take it."""
    if not listed:
        return {}
    from vllm.lora.request import LoRARequest  # noqa: PLC0415 - costs seconds

    found = {}
    for number, adapter in enumerate(listed, start=1):
        request = LoRARequest(lora_name=adapter["name"], lora_int_id=number, lora_path=adapter["path"])
        try:
            taken = engine.add_lora(request)
        except Exception as error:
            raise RuntimeError(f"vLLM does not take the adapter `{adapter['name']}`: {error}") from error
        if not taken:
            raise RuntimeError(f"vLLM does not take the adapter `{adapter['name']}` in {adapter['path']}")
        found[adapter["name"]] = request
    return found
