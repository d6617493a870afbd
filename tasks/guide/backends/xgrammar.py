"""xgrammar, as vLLM sets it up. Only the child process imports this."""

from typing import Any

from tasks.guide.backends.adapter import Adapter


class Xgrammar(Adapter):
    """Where white space is forbidden and the schema leaves a value open, xgrammar 0.2.8 still writes `, `, elsewhere
    `,`; vLLM before 0.32 sets it up to write `, ` and `: ` throughout. White space between parts means nothing in JSON:
    a text that has it where this backend wants it counts as the same."""

    def build(self, *, config: Any, tokenizer: Any, vocab_size: int) -> Any:
        from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend  # noqa: PLC0415 - costs seconds

        return XgrammarBackend(config, tokenizer=tokenizer, vocab_size=vocab_size)

    def spaces_after(self) -> str:
        """By whether vLLM tells xgrammar its separators."""
        from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend  # noqa: PLC0415 - as above

        told = "separators" in XgrammarBackend.compile_grammar.__code__.co_varnames
        return "," if told else ",:"


ADAPTER = Xgrammar()
