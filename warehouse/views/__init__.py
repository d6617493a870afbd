"""The views and macros, one SQL file each.

A file's leading comment says what it is; its line `-- example:` is a query that shows it. A macro's name in the
comments and the dictionary comes with its parameters.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_CREATE = re.compile(r"CREATE (VIEW|MACRO) (\w+)(\([\w, ]*\))?")
_EXAMPLE = "example:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One view or macro. parameters: as written, `(a, b)`; empty for a view."""

    name: str
    macro: bool
    parameters: str
    doc: str
    example: str
    sql: str


@cache
def definitions() -> tuple[Definition, ...]:
    """All of them, by name. Raises ValueError for a file without its comment, example or CREATE."""
    found = [each for each in files(__name__).iterdir() if each.name.endswith(".sql")]
    return tuple(_parsed(name=each.name, text=each.read_text("utf-8")) for each in sorted(found, key=lambda f: f.name))


def _parsed(*, name: str, text: str) -> Definition:
    lines = text.splitlines()
    comment = [line.removeprefix("--").strip() for line in lines if line.startswith("--")]
    doc = " ".join(line for line in comment if not line.startswith(_EXAMPLE))
    example = "".join(line.removeprefix(_EXAMPLE).strip() for line in comment if line.startswith(_EXAMPLE))
    sql = "\n".join(line for line in lines if not line.startswith("--")).strip()
    created = _CREATE.match(sql)
    if created is None or f"{created[2]}.sql" != name or not doc or not example:
        raise ValueError(f"{name}: a comment, an example and CREATE VIEW or MACRO of the file's own name are needed")
    return Definition(
        name=created[2],
        macro=created[1] == "MACRO",
        parameters=created[3] or "",
        doc=doc,
        example=example,
        sql=sql,
    )
