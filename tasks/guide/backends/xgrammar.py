"""xgrammar, as vLLM sets it up. Only the child process imports this."""

from typing import Any

SPACES_AFTER_COMMAS = True
"""Where white space is forbidden and the schema leaves a value open, xgrammar 0.2.8 still writes `, `, elsewhere `,`.
White space between parts means nothing in JSON: a text that has it where this backend wants it counts as the same."""


def build(*, config: Any, tokenizer: Any, vocab_size: int) -> Any:
    """vLLM's own object for the backend."""
    from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend  # noqa: PLC0415 - costs seconds

    return XgrammarBackend(config, tokenizer=tokenizer, vocab_size=vocab_size)


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
