"""What a backend is asked inside the child process, with the answers that most of them give."""

from abc import ABC, abstractmethod
from typing import Any


class Adapter(ABC):
    """One backend as vLLM sets it up. Only the child process makes one."""

    @abstractmethod
    def build(self, *, config: Any, tokenizer: Any, vocab_size: int) -> Any:
        """vLLM's own object for the backend."""

    def spaces_after(self) -> str:
        """The separators of JSON after some of which it wants a space although white space is forbidden."""
        return ""

    def reset(self, grammar: Any) -> None:
        """Back to the beginning of an answer."""
        grammar.reset()

    def advance(self, grammar: Any, token: int) -> bool:
        """Whether the grammar takes the token; it has gone on then."""
        return bool(grammar.accept_tokens("assay", [token]))

    def fault(self, grammar: Any) -> str | None:
        """What a grammar that compiled without raising says is wrong with it."""
        return None

    def engine_fault(self) -> str | None:
        """Why the engine could not use this backend at all, or None."""
        return None
