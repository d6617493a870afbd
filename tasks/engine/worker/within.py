"""What of vLLM's engine lives in this process, and is within reach."""

from typing import Any


def core_of(engine: Any) -> Any:
    """vLLM's core; None where it is in a process of its own. engine: vLLM's LLMEngine."""
    return getattr(engine.engine_core, "engine_core", None)


def grammars_of(engine: Any) -> Any:
    """vLLM's StructuredOutputManager; None where the core is in a process of its own."""
    return getattr(core_of(engine), "structured_output_manager", None)
