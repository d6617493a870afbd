"""llguidance, which vLLM calls guidance, as vLLM sets it up. Only the child process imports this."""

from typing import Any

from tasks.guide.backends.adapter import Adapter


class Llguidance(Adapter):
    """Asked past vLLM's wrapper where that hides what the matcher says."""

    def build(self, *, config: Any, tokenizer: Any, vocab_size: int) -> Any:
        from vllm.v1.structured_output.backend_guidance import GuidanceBackend  # noqa: PLC0415 - costs seconds

        return GuidanceBackend(config, tokenizer=tokenizer, vocab_size=vocab_size)

    def reset(self, grammar: Any) -> None:
        """vLLM's own reset forgets the matcher only."""
        super().reset(grammar)
        grammar.terminated = False
        grammar.rollback_lag = 0

    def advance(self, grammar: Any, token: int) -> bool:
        """vLLM's own `accept_tokens` says yes to everything once the matcher has stopped, which its mask keeps from
        happening."""
        matcher = grammar.ll_matcher
        return not matcher.is_stopped() and matcher.validate_tokens([token]) == 1 and bool(matcher.consume_token(token))

    def fault(self, grammar: Any) -> str | None:
        """vLLM only writes it to its log."""
        return grammar.ll_matcher.get_error() or None


ADAPTER = Llguidance()
