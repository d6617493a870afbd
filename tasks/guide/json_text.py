"""A JSON text seen as characters."""

from collections.abc import Iterator


def outside_strings(text: str) -> Iterator[tuple[int, str]]:
    """Each character that is no part of a string, with its place; a text cut within a string ends there."""
    in_string = escaped = False
    for at, character in enumerate(text):
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        else:
            yield at, character
