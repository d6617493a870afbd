"""lm-format-enforcer, as vLLM sets it up. Only the child process imports this.

Its bridges to vLLM and to transformers import names that newer releases of both no longer have. An engine then refuses
every request of the backend; `engine_fault` says so. The backend itself still works, so its tokens are prepared here as
its bridge to transformers would, and the rest is vLLM's own.
"""

import importlib
from typing import Any

from tasks.guide.backends.adapter import Adapter


class LmFormatEnforcer(Adapter):
    """What it remembers of prefixes is kept from text to text, as in an engine."""

    def build(self, *, config: Any, tokenizer: Any, vocab_size: int) -> Any:
        """With our preparation of the tokens where the bridge does not import."""
        from vllm.v1.structured_output.backend_lm_format_enforcer import LMFormatEnforcerBackend  # noqa: PLC0415

        if self.engine_fault() is None:
            return LMFormatEnforcerBackend(config, tokenizer=tokenizer, vocab_size=vocab_size)
        backend = object.__new__(LMFormatEnforcerBackend)
        backend.vllm_config, backend.tokenizer, backend.vocab_size = config, tokenizer, vocab_size
        backend.tokenizer_data = _tokens(tokenizer, vocab_size)
        return backend

    def engine_fault(self) -> str | None:
        try:
            importlib.import_module("lmformatenforcer.integrations.vllm")
        except ImportError as error:
            return f"vLLM cannot load lm-format-enforcer: {type(error).__name__}: {error}"
        return None


ADAPTER = LmFormatEnforcer()


def _tokens(tokenizer: Any, vocab_size: int) -> Any:
    from lmformatenforcer import TokenEnforcerTokenizerData  # noqa: PLC0415 - costs time, and is needed here only

    zero = tokenizer.encode("0")[-1]
    regular: list[tuple[int, str, bool]] = []
    for token in range(min(len(tokenizer), vocab_size)):
        if token in tokenizer.all_special_ids:
            continue
        after_zero = tokenizer.decode([zero, token])[1:]
        alone = tokenizer.decode([token])
        regular.append((token, after_zero, len(after_zero) > len(alone)))

    def decode(tokens: list[int]) -> str:
        return tokenizer.decode(tokens).rstrip("�")

    return TokenEnforcerTokenizerData(regular, decode, tokenizer.eos_token_id, True, vocab_size)
