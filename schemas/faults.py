"""What is wrong with one key of an experiment that its parts can only tell together."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from schemas.errors import Problem


@dataclass(frozen=True, kw_only=True)
class Fault:
    """keypath: below the experiment's own keys."""

    keypath: tuple[str | int, ...]
    message: str
    suggestion: str | None

    def problem(self) -> Problem:
        """The fault where no file is known."""
        key = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.keypath)
        return Problem(message=self.message, key=key.removeprefix("."), suggestion=self.suggestion)


def nearest(wrong: str, known: Iterable[str]) -> str:
    """A hint: the known name that is most alike, else all of them."""
    names = list(known)
    found = difflib.get_close_matches(wrong, names, n=1, cutoff=0.6)
    return f"did you mean `{found[0]}`?" if found else f"known: {', '.join(sorted(names))}"
