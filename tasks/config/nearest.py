"""The right name nearest to a wrong one."""

import difflib
from collections.abc import Iterable


def nearest(wrong: str, known: Iterable[str]) -> str | None:
    """The most alike of the known names, or None when none is alike."""
    names = list(known)
    lowered = {name.lower(): name for name in names}
    found = difflib.get_close_matches(wrong.lower(), list(lowered), n=1, cutoff=0.6)
    return lowered[found[0]] if found else None


def did_you_mean(wrong: str, known: Iterable[str]) -> str | None:
    """The hint for a wrong name, or None when no known name is alike."""
    name = nearest(wrong, known)
    return None if name is None else f"did you mean `{name}`?"


def did_you_mean_or_list(wrong: str, known: Iterable[str]) -> str | None:
    """The hint for a wrong name: the nearest right one, or all of them when none is alike."""
    names = list(known)
    hint = did_you_mean(wrong, names)
    if hint is not None or not names:
        return hint
    return f"known: {', '.join(sorted(names))}"
