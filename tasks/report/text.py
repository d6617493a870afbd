"""Text that nobody vouches for, made safe and plain to see.

What a model writes may hold markup, terminal escapes, characters that reverse the reading order and half characters
that no encoder takes. Markup is escaped by Jinja; the rest is made visible here.
"""

import re

from markupsafe import Markup, escape

_HIDDEN = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, all but tab and line feed
    "\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # invisible, or turning the order
    "\ud800-\udfff\ufffe\uffff"  # halves of a pair alone, and what is no character
    "\U000e0000-\U000e007f"  # tags: letters that no font draws
    "]"
)
_CONTROLS = (
    "NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS", "TAB", "LF", "VT", "FF", "CR", "SO", "SI",
    "DLE", "DC1", "DC2", "DC3", "DC4", "NAK", "SYN", "ETB", "CAN", "EM", "SUB", "ESC", "FS", "GS", "RS", "US",
)  # fmt: skip
_RUN = re.compile(f"({_HIDDEN.pattern})\\1*")


def _sign(character: str) -> str:
    code = ord(character)
    return f"⟨{_CONTROLS[code]}⟩" if code < len(_CONTROLS) else f"⟨U+{code:04X}⟩"


def _signs(match: re.Match[str]) -> str:
    sign, length = _sign(match[1]), len(match[0])
    return sign * length if length <= 3 else f"{sign}×{length}"


def plain(text: str) -> str:
    """The text with every invisible or unencodable character replaced by a visible sign: fit for an attribute."""
    return _RUN.sub(_signs, text)


def visible(text: str) -> Markup:
    """The same as HTML, escaped, the signs set apart from the text by `<b class="c">`."""
    parts: list[Markup] = []
    end = 0
    for match in _RUN.finditer(text):
        parts += [escape(text[end : match.start()]), Markup('<b class="c">{}</b>').format(_signs(match))]
        end = match.end()
    return Markup("").join([*parts, escape(text[end:])])


def shortened(text: str, *, limit: int) -> tuple[str, int, str]:
    """Head, number of characters left out, tail: the whole text as head if it has at most `limit` characters."""
    if len(text) <= limit:
        return text, 0, ""
    tail = limit // 4
    return text[: limit - tail], len(text) - limit, text[len(text) - tail :]
