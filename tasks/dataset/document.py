"""Documents as token ids: how long a window may be, and what a document begins after."""

from collections.abc import Sequence

from schemas.document import Document
from schemas.errors import ConfigError
from tasks.dataset.tokenizer import Tokenizer
from tasks.dataset.windows import RESERVED


def window_length(document: Document, *, max_len: int) -> int:
    """Tokens that a window reads at most: what the dataset asks for, else all that fit into `max_len`.

    Raises ConfigError, without a file, for a window or a context that does not fit."""
    room = max_len - RESERVED
    what, asked = ("context", document.context) if document.window is None else ("window", document.window)
    if asked > room:
        raise ConfigError.one(
            f"a {what} of {asked:,} tokens needs {asked + RESERVED:,}, with the last token that is predicted and one "
            f"that is generated in any case, and there are {max_len:,}",
            key=f"document.{what}",
            suggestion=f"write {room} or less, raise engine.max_model_len, or take a model with a longer context",
        )
    return room if document.window is None else document.window


def encode_documents(texts: Sequence[str], *, rows: Sequence[int], tokenizer: Tokenizer) -> list[list[int]]:
    """Each text as token ids, with BOS (EOS where the model has none) and no other special token put to it.

    rows: their places in the source, for messages. Raises ConfigError, without a file, for a document that is empty, or
    that begins with that token itself."""
    first = tokenizer.empty_context()
    encoded = tokenizer.with_bos("auto").encode_batch(texts, add_special_tokens=False)
    for row, token_ids in zip(rows, encoded, strict=True):
        if not token_ids:
            raise ConfigError.one(
                f"row {row}: the document is empty", key="document", suggestion="leave such rows out of the source"
            )
        if token_ids[:1] == first:
            raise ConfigError.one(
                f"row {row}: the document begins with the token {tokenizer.decode(first)!r}, and one is put before it",
                key="document",
                suggestion="take it out of the text",
            )
    return [first + token_ids for token_ids in encoded]
