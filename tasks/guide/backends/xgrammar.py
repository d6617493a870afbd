"""xgrammar, as vLLM sets it up. Only the child process imports this."""

from typing import Any

from tasks.guide.backends.adapter import Adapter


class Xgrammar(Adapter):
    """Where white space is forbidden and the schema leaves a value open, xgrammar 0.2.8 still writes `, `, elsewhere
    `,`. White space between parts means nothing in JSON: a text that has it where this backend wants it counts as the
    same."""

    spaces_after_commas = True

    def build(self, *, config: Any, tokenizer: Any, vocab_size: int) -> Any:
        from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend  # noqa: PLC0415 - costs seconds

        return XgrammarBackend(config, tokenizer=tokenizer, vocab_size=vocab_size)


ADAPTER = Xgrammar()
