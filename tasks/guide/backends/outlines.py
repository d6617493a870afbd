"""outlines_core, which vLLM calls outlines, as vLLM sets it up. Only the child process imports this."""

from typing import Any

from tasks.guide.backends.adapter import Adapter


class Outlines(Adapter):
    """Raises where a token leads to no state; an engine ends the request then."""

    def build(self, *, config: Any, tokenizer: Any, vocab_size: int) -> Any:
        from vllm.v1.structured_output.backend_outlines import OutlinesBackend  # noqa: PLC0415 - costs seconds

        return OutlinesBackend(config, tokenizer=tokenizer, vocab_size=vocab_size)

    def advance(self, grammar: Any, token: int) -> bool:
        try:
            return super().advance(grammar, token)
        except ValueError:
            return False


ADAPTER = Outlines()
