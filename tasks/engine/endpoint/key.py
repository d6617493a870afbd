"""The key: where it is read, and how it is kept out of everything that is written."""

import json
import os
from collections.abc import Mapping
from urllib.parse import quote

HIDDEN = "***"
_SHORTEST_SECRET = 12
"""A shorter key is a placeholder such as `EMPTY`, and an answer may hold that word by itself."""
_MOST = 600
"""Characters of what a server said."""


class NoKey(Exception):
    """The key's variable holds none. what: of it; cure: what to do."""

    def __init__(self, what: str, cure: str) -> None:
        super().__init__(f"{what}: {cure}")
        self.what = what
        self.cure = cure


def read_key(variable: str | None, *, environment: Mapping[str, str] | None = None) -> str | None:
    """The key; None where no variable is named. Raises NoKey."""
    if variable is None:
        return None
    key = (os.environ if environment is None else environment).get(variable, "").strip()
    if not key:
        raise NoKey(
            f"the key is read from the environment variable {variable}, which is not set",
            f"export {variable}=…, or leave `api_key_env` out for a server without keys",
        )
    if not (key.isascii() and key.isprintable()):
        raise NoKey(
            f"the key in the environment variable {variable} has a character that no HTTP header can hold",
            "copy the key again: ASCII, in one line",
        )
    return key


class Scrub:
    """Takes the key out of texts, however it is written there."""

    def __init__(self, key: str | None) -> None:
        forms = [] if key is None else [key, quote(key, safe=""), quote(key), json.dumps(key)[1:-1]]
        self._forms = sorted(set(forms), key=len, reverse=True)
        self._secret = key is not None and len(key) >= _SHORTEST_SECRET

    def words(self, text: str) -> str:
        """What is said of a failure, in one line of bounded length, without the key."""
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        line = " ".join(text.split())
        return line if len(line) <= _MOST else f"{line[:_MOST]} …"

    def lines(self, text: str) -> str:
        """A text of several lines, without the key."""
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        return text

    def answer(self, text: str) -> str:
        """An answer's text, without the key where that could be no word of a language."""
        return self.lines(text) if self._secret and any(form in text for form in self._forms) else text
