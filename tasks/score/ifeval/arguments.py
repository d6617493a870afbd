"""What an instruction is given: its arguments, checked once, so that the checks themselves need no doubt."""

from collections.abc import Mapping
from typing import Any, Literal

from tasks.score.ifeval.language import LANGUAGES

Kind = Literal["count", "relation", "text", "texts", "language"]
RELATIONS = ("less than", "at least")


class BadInstruction(ValueError):
    """The sample's instruction cannot be checked: an unknown name, or an argument that is missing or wrong."""


def _count(value: Any) -> int | None:
    """A whole number, also as 3.0: a table with gaps keeps its whole numbers so."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _texts(value: Any) -> list[str] | None:
    return value if isinstance(value, list) and value and all(_text(item) for item in value) else None


def _relation(value: Any) -> str | None:
    return value if value in RELATIONS else None


def _language(value: Any) -> str | None:
    return value if value in LANGUAGES else None


_READ = {"count": _count, "text": _text, "texts": _texts, "relation": _relation, "language": _language}
_MEANS = {
    "count": "a whole number",
    "text": "a text",
    "texts": "a list of texts",
    "language": "a language code, like de",
    "relation": f"one of {', '.join(RELATIONS)}",
}


def read_arguments(*, name: str, needs: Mapping[str, Kind], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that the instruction `name` needs. Others are left out if they are None, as in the table form of
    the public data set, where every row has every key. Raises BadInstruction."""
    for key, value in given.items():
        if key not in needs and value is not None:
            raise BadInstruction(f"{name} takes no {key!r}")
    found: dict[str, Any] = {}
    for key, kind in needs.items():
        value = _READ[kind](given.get(key))
        if value is None:
            raise BadInstruction(f"{name} needs {key}: {_MEANS[kind]}, not {given.get(key)!r}")
        found[key] = value
    return found


def holds(count: int, *, relation: str, bound: int) -> bool:
    """Whether a count is less than the bound, or at least the bound."""
    return count < bound if relation == "less than" else count >= bound
