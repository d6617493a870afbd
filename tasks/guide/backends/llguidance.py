"""llguidance, which vLLM calls guidance, as vLLM sets it up. Only the child process imports this."""

from typing import Any

SPACES_AFTER_COMMAS = False


def build(*, config: Any, tokenizer: Any, vocab_size: int) -> Any:
    """vLLM's own object for the backend."""
    from vllm.v1.structured_output.backend_guidance import GuidanceBackend  # noqa: PLC0415 - costs seconds

    return GuidanceBackend(config, tokenizer=tokenizer, vocab_size=vocab_size)


def reset(grammar: Any) -> None:
    """Back to the beginning of an answer; vLLM's own reset forgets the matcher only."""
    grammar.reset()
    grammar.terminated = False
    grammar.rollback_lag = 0


def advance(grammar: Any, token: int) -> bool:
    """Whether the grammar takes the token; it has gone on then. vLLM's own `accept_tokens` says yes to everything once
    the matcher has stopped, which its mask keeps from happening."""
    matcher = grammar.ll_matcher
    return not matcher.is_stopped() and matcher.validate_tokens([token]) == 1 and bool(matcher.consume_token(token))


def fault(grammar: Any) -> str | None:
    """What a grammar that compiled without raising says is wrong with it: vLLM only writes it to its log."""
    return grammar.ll_matcher.get_error() or None


def engine_fault() -> str | None:
    """Why the engine could not use this backend at all, or None."""
    return None
