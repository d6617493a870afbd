"""Text that is valid Unicode: a JSON file may hold halves of surrogate pairs, and nothing past it can take them."""

import re
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED = re.compile(rb"\\u[dD][89a-fA-F]")


def valid_unicode(text: str) -> tuple[str, int]:
    """The text with U+FFFD for every lone surrogate, and how many there were."""
    if text.isascii():
        return text, 0
    return _SURROGATE.subn("\ufffd", text)


def may_hold_surrogates(raw: bytes) -> bool:
    """Whether a row's bytes could hold a lone surrogate: in UTF-8 there is only the escape to write one."""
    return _ESCAPED.search(raw) is not None


def valid_values(value: Any) -> Any:
    """A JSON value whose texts, keys too, are all valid Unicode."""
    if isinstance(value, str):
        return valid_unicode(value)[0]
    if isinstance(value, list):
        return [valid_values(item) for item in value]
    if isinstance(value, dict):
        return {valid_unicode(key)[0]: valid_values(item) for key, item in value.items()}
    return value
