"""JSON pointers (RFC 6901)."""

from typing import Any


def step(pointer: str, *keys: str | int) -> str:
    """A JSON pointer one or more steps deeper."""
    return pointer + "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in keys)


def steps(pointer: str) -> list[str]:
    """A JSON pointer's steps."""
    return [each.replace("~1", "/").replace("~0", "~") for each in pointer.split("/")[1:]]


def at(schema: Any, pointer: str) -> Any:
    """What a JSON pointer names. Raises KeyError."""
    found = schema
    for key in steps(pointer):
        try:
            found = found[int(key)] if isinstance(found, list) else found[key]
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise KeyError(pointer) from error
    return found
