"""Where one SQL statement ends and the next begins, for text that is typed or read line by line."""

import re

_PART = re.compile(
    r"""
    (?P<skipped>
        --[^\n]*
      | /\*.*?(?:\*/|\Z)
      | '(?:[^']|'')*(?:'|\Z)
      | "(?:[^"]|"")*(?:"|\Z)
      | \$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z)
    )
  | (?P<end>;)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)


def split_statements(text: str) -> tuple[list[str], str]:
    """The statements that a `;` ends, without it, and what is left after the last one. A `;` in a string, a quoted name
    or a comment ends nothing. Statements without anything in them are left out."""
    done: list[str] = []
    start = 0
    for part in _PART.finditer(text):
        if part["end"]:
            done.append(text[start : part.start()].strip())
            start = part.end()
    return [each for each in done if not is_empty(each)], text[start:].strip()


def is_empty(text: str) -> bool:
    """Whether nothing but white space, comments and `;` is there."""
    return all(
        part["end"] or (part["skipped"] or "").startswith(("--", "/*")) or (part["other"] or "").isspace()
        for part in _PART.finditer(text)
    )
