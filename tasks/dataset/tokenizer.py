"""The model's tokenizer on the `tokenizers` package, and the one policy for its special tokens.

The policy `auto`: after a chat template no special token is added, since the template has put them in; a plain text
prompt gets those that the tokenizer's own post-processor adds. `always` puts a BOS in front of what has none, `never`
takes it away. A prompt that begins with two BOS tokens is refused.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Literal

import tokenizers

from schemas.errors import ConfigError
from tasks.dataset.chat import read_json, special_tokens
from tasks.dataset.rows import canonical_json, sha256_hex
from tasks.dataset.unicode import valid_unicode

_BATCH_TEXTS = 1024
_BATCH_CHARS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tokenizer:
    """Text to token ids and back. fingerprint: sha256 over tokenizer.json and the special tokens."""

    inner: tokenizers.Tokenizer
    fingerprint: str
    bos_token: str | None
    bos_token_id: int | None
    eos_token: str | None
    eos_token_id: int | None
    asks_for_bos: bool
    """tokenizer_config.json says `add_bos_token: true`."""
    bos_policy: Literal["auto", "always", "never"] = "auto"
    """What `encode_batch` does about BOS."""
    numbers: list[int]
    """One int object for each id: millions of token ids then take a pointer each."""

    @classmethod
    def from_folder(cls, folder: Path) -> "Tokenizer":
        """Reads tokenizer.json of a model folder. Any truncation or padding that it carries is turned off: every cut is
        made, and recorded, by assay. Raises ConfigError when the file is missing or broken."""
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise ConfigError.one(
                f"the model folder {folder} has no tokenizer.json",
                suggestion="save the model's fast tokenizer into it",
            )
        content = path.read_bytes()
        try:
            inner = tokenizers.Tokenizer.from_str(content.decode("utf-8"))
        except Exception as broken:  # the package raises bare Exception for a broken file
            raise ConfigError.one(f"not a readable tokenizer: {broken}", file=path) from broken
        inner.no_truncation()
        inner.no_padding()
        special = special_tokens(folder)
        config = read_json(folder / "tokenizer_config.json")
        bos, eos = special.get("bos_token"), special.get("eos_token")
        return cls(
            inner=inner,
            fingerprint=sha256_hex(sha256_hex(content) + canonical_json(special)),
            bos_token=bos,
            bos_token_id=None if bos is None else inner.token_to_id(bos),
            eos_token=eos,
            eos_token_id=_eos_id(folder) if eos is None else inner.token_to_id(eos),
            asks_for_bos=config.get("add_bos_token") is True,
            numbers=list(range(max(inner.get_vocab(with_added_tokens=True).values(), default=-1) + 1)),
        )

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """The text's token ids. Lone surrogates are encoded as U+FFFD."""
        return self.inner.encode(valid_unicode(text)[0], add_special_tokens=add_special_tokens).ids

    def encode_batch(self, texts: Sequence[str], *, add_special_tokens: bool) -> list[list[int]]:
        """As encode, for many texts at once, on all cores, and with the BOS that the policy wants."""
        ids: list[list[int]] = []
        # The package works without the interpreter's lock: a part is encoded while the one before becomes lists.
        with ThreadPoolExecutor(1, thread_name_prefix="tokenizer") as ahead:
            under_way: Future[list[tokenizers.Encoding]] | None = None
            for part in _parts(texts):
                following = ahead.submit(self.inner.encode_batch_fast, part, add_special_tokens=add_special_tokens)
                ids.extend(self._shared_numbers(under_way))
                under_way = following
            ids.extend(self._shared_numbers(under_way))
        if self.bos_policy == "auto" or self.bos_token_id is None:
            return ids
        return [self._with_policy(each, bos=self.bos_token_id) for each in ids]

    def _shared_numbers(self, encoded: "Future[list[tokenizers.Encoding]] | None") -> Iterator[list[int]]:
        for encoding in () if encoded is None else encoded.result():
            ids = encoding.ids
            # itemgetter: a quarter quicker than a loop. Of one item it is no tuple.
            yield list(itemgetter(*ids)(self.numbers)) if len(ids) > 1 else [self.numbers[each] for each in ids]

    def _with_policy(self, token_ids: list[int], *, bos: int) -> list[int]:
        has = token_ids[:1] == [bos]
        if self.bos_policy == "always":
            return token_ids if has else [bos, *token_ids]
        return token_ids[1:] if has else token_ids

    def with_bos(self, policy: Literal["auto", "always", "never"]) -> "Tokenizer":
        """The same tokenizer under a policy. Raises ConfigError for `always` where the tokenizer names no BOS token."""
        if policy == "always" and self.bos_token_id is None:
            raise ConfigError.one(
                "the model's tokenizer has no BOS token to put before a prompt", key="bos", suggestion="write auto"
            )
        return replace(self, bos_policy=policy)

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """The text of token ids."""
        return self.inner.decode(list(token_ids), skip_special_tokens=skip_special_tokens)

    def adds_bos(self) -> bool:
        """Whether a plain text gets a BOS token in front from the post-processor."""
        ids = self.encode("a", add_special_tokens=True)
        return self.bos_token_id is not None and ids[:1] == [self.bos_token_id]

    def has_double_bos(self, token_ids: Sequence[int]) -> bool:
        """Whether token ids begin with two BOS tokens."""
        return self.bos_token_id is not None and list(token_ids[:2]) == [self.bos_token_id] * 2

    def empty_context(self) -> list[int]:
        """What stands for an empty prompt: BOS, else EOS. Raises ConfigError when the model has neither."""
        first = self.bos_token_id if self.bos_token_id is not None else self.eos_token_id
        if first is None:
            raise ConfigError.one("an empty prompt needs a BOS or an EOS token, and the tokenizer names neither")
        return [first]


def _parts(texts: Sequence[str]) -> Iterator[list[str]]:
    """The texts in valid Unicode, some at a time: what bounds the memory that their encodings take."""
    part: list[str] = []
    chars = 0
    for text in texts:
        if part and (len(part) == _BATCH_TEXTS or chars + len(text) > _BATCH_CHARS):
            yield part
            part, chars = [], 0
        part.append(valid_unicode(text)[0])
        chars += len(text)
    if part:
        yield part


def _eos_id(folder: Path) -> int | None:
    """The EOS id from the model's config, for a tokenizer that does not name its EOS token."""
    value = read_json(folder / "config.json").get("eos_token_id")
    if isinstance(value, list):
        value = value[0] if value else None
    return value if isinstance(value, int) else None
