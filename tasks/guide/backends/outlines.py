"""outlines_core, which vLLM calls outlines, as vLLM sets it up. Only the child process imports this."""

from typing import Any

SPACES_AFTER_COMMAS = False


def build(*, config: Any, tokenizer: Any, vocab_size: int) -> Any:
    """vLLM's own object for the backend."""
    from vllm.v1.structured_output.backend_outlines import OutlinesBackend  # noqa: PLC0415 - costs seconds

    return OutlinesBackend(config, tokenizer=tokenizer, vocab_size=vocab_size)


def reset(grammar: Any) -> None:
    """Back to the beginning of an answer."""
    grammar.reset()


def advance(grammar: Any, token: int) -> bool:
    """Whether the grammar takes the token; it has gone on then."""
    return bool(grammar.accept_tokens("assay", [token]))


def fault(grammar: Any) -> str | None:
    """What a grammar that compiled without raising says is wrong with it."""
    del grammar
    return None


def engine_fault() -> str | None:
    """Why the engine could not use this backend at all, or None."""
    return None
