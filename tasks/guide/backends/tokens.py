"""The tokenizer inside the child process: the model's own, or one of single bytes."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MARK = "\x02"
"""Put before a text where the tokenizer would put a space of its own before it; its token is taken off again."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text's tokens; token i holds the characters starts[i] to ends[i]."""

    ids: list[int]
    starts: list[int]
    ends: list[int]


class Encoder:
    """Encodes texts as the middle of an answer: no special tokens, and no space that is not there."""

    def __init__(self, tokenizer: Any) -> None:
        self._fast = tokenizer.backend_tokenizer
        self._fast.encode_special_tokens = True
        plain = self._fast.encode("0", add_special_tokens=False).ids
        self._adds_space = self._fast.decode(plain) != "0" or len(self._marked("0").ids) < len(plain)

    def encode(self, text: str, *, apart: bool = False) -> Tokens:
        """The tokens of `text`. apart: of each of its characters by itself, which a model may write as well."""
        if apart:
            each = [(start, self.encode(character).ids) for start, character in enumerate(text)]
            pairs = [(token, start) for start, tokens in each for token in tokens]
            starts = [start for _, start in pairs]
            return Tokens([token for token, _ in pairs], starts, [start + 1 for start in starts])
        if self._adds_space:
            return self._marked(text)
        found = self._fast.encode(text, add_special_tokens=False)
        return Tokens(found.ids, [start for start, _ in found.offsets], [end for _, end in found.offsets])

    def _marked(self, text: str) -> Tokens:
        found = self._fast.encode(_MARK + text, add_special_tokens=False)
        kept = [(token, span) for token, span in zip(found.ids, found.offsets, strict=True) if span[1] > len(_MARK)]
        return Tokens(
            [token for token, _ in kept],
            [max(0, start - 1) for _, (start, _) in kept],
            [end - 1 for _, (_, end) in kept],
        )


def load_tokenizer(model: Path | None) -> tuple[Any, int, str]:
    """The tokenizer as vLLM has it, the size of the model's vocabulary, and the model's type."""
    if model is None:
        return _bytes_tokenizer(), 257, "none"
    from transformers import AutoTokenizer  # noqa: PLC0415 - costs seconds

    tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True, trust_remote_code=False)
    config = _read(model / "config.json")
    text = config.get("text_config") or {}
    size = config.get("vocab_size") or text.get("vocab_size") or len(tokenizer)
    return tokenizer, int(size), str(config.get("model_type", "none"))


def stop_tokens(tokenizer: Any, model: Path | None) -> set[int]:
    """The tokens that end an answer: the tokenizer's, and those of the model's generation config."""
    stops = set() if tokenizer.eos_token_id is None else {int(tokenizer.eos_token_id)}
    if model is not None:
        more = _read(model / "generation_config.json").get("eos_token_id")
        stops |= {int(more)} if isinstance(more, int) else {int(each) for each in more or ()}
    return stops


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def _bytes_tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # noqa: PLC0415 - not needed with a model
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={"</s>": 0} | {each: n + 1 for n, each in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="</s>")  # noqa: S106 - the token's text
