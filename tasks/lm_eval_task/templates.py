"""The harness's templates as assay's. Both are Jinja; what differs is how a lone name and a list are written."""

import json
import re
from dataclasses import dataclass
from typing import Any

import jinja2
from jinja2 import nodes

from schemas.errors import ConfigError
from tasks.dataset.template import compile_template

_NAME = re.compile(r"[A-Za-z_]\w*")
_LONGEST_FORK = 5_000
"""Characters of the longest template that `forked` looks at: its patterns try every place of a long run of spaces."""
_BY_FIELD = (
    re.compile(
        r"\s*\{\{\s*(?P<one>.+?)\s+if\s+(?P<name>\w+)\s+is\s+defined\s+else\s+(?P<other>.+?)\s*\}\}\s*", re.DOTALL
    ),
    re.compile(
        r"\s*\{%-?\s*if\s+(?P<name>\w+)\s+is\s+defined\s*-?%\}(?P<one>.*?)"
        r"\{%-?\s*else\s*-?%\}(?P<other>.*?)\{%-?\s*endif\s*-?%\}\s*",
        re.DOTALL,
    ),
)
_PARSER = jinja2.Environment(autoescape=False)  # noqa: S701 - it only parses


@dataclass(frozen=True, kw_only=True)
class Forked:
    """A template that asks whether a row has a field: what it says of one that has, and of one that has not."""

    field: str
    with_it: str
    without: str


def template(value: Any) -> str:
    """The template of a `doc_to_…`: a bare name is a column, a number itself. Raises ValueError, with why, for what
    assay's templates cannot do."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{type(value).__name__} is no template")
    text = str(value)
    if isinstance(value, str) and _NAME.fullmatch(text):
        text = f"{{{{ {text} }}}}"
    try:
        compile_template(text)
    except ConfigError as error:
        raise ValueError("; ".join(problem.message for problem in error.problems)) from error
    return text


def expression(text: str) -> str:
    """What stands between the braces of a template that is one expression; else the template's text as an expression
    cannot be had. Raises ValueError."""
    shown = text.strip()
    inside = shown[2:-2].removeprefix("-").removesuffix("-").strip()
    # One brace more at the end is looked at, so that `{{ {…}}}` does not count.
    alone = shown.startswith("{{") and shown.endswith("}}") and "{{" not in shown[2:] and "}}" not in shown[2:-1]
    if not alone or not inside:
        raise ValueError("it is more than one {{ expression }}")
    return inside


def choices(value: Any) -> str | list[str]:
    """The template, or templates, of `doc_to_choice`. Raises ValueError, with why."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        if not value or not all(isinstance(each, str | int | float) for each in value):
            raise ValueError("not a list of texts")
        return [_literal(str(each)) for each in value]
    text = template(value)
    inside = expression(text)
    tree = _PARSER.parse(text).body[0]
    node = tree.nodes[0] if isinstance(tree, nodes.Output) else None
    if isinstance(node, nodes.List):
        parts = _split(inside.strip()[1:-1])
        return [
            _literal(str(json_text(part))) if json_text(part) is not None else f"{{{{ {part} }}}}" for part in parts
        ]
    if compile_template(text).lone is None:
        raise ValueError("it computes its list; assay takes a column that holds one, or a list of templates")
    return text


def forked(text: str) -> Forked | None:
    """The two ways of a template that is wholly `… if field is defined else …`; None for any other."""
    for number, pattern in enumerate(_BY_FIELD if len(text) <= _LONGEST_FORK else ()):
        found = pattern.fullmatch(text)
        if found is not None:
            one, other = found["one"], found["other"]
            if number == 0:
                one, other = f"{{{{ {one} }}}}", f"{{{{ {other} }}}}"
            return Forked(field=found["name"], with_it=one, without=other)
    return None


def option_at(options: str | list[str], target: str) -> str:
    """The template of the option that a target names by its index; a target that is no index stands for itself, as the
    harness has it. Raises ValueError."""
    index = target.strip() if re.fullmatch(r"\d+", target.strip()) else expression(target)
    if isinstance(options, str):
        listed = f"({expression(options)})"
    else:
        items = [f"({expression(each)})" if "{{" in each else json.dumps(each, ensure_ascii=False) for each in options]
        listed = f"[{', '.join(items)}]"
    return f"{{% set target = {index} %}}{{{{ {listed}[target | int] if (target | string).isdigit() else target }}}}"


def first_of(target: str) -> str | None:
    """What an example answers whose target may be a list: its first text, as the harness has it. None for a target that
    is a text by itself, or a bare column, which is taken for one."""
    path = lone(target)
    if path is None or not re.search(r"[.\[]", path):
        return None
    return f"{{% set target = {path} %}}{{{{ target[0] if target is sequence and target is not string else target }}}}"


def lone(text: str) -> str | None:
    """The expression of a template that is one bare `{{ a.b }}`; None for any other."""
    return None if compile_template(text).lone is None else expression(text)


def ends_in_space(text: str) -> bool:
    """Whether a template's text ends in white space that it has itself."""
    return text[-1:].isspace()


def json_text(part: str) -> str | None:
    """The text of a literal string of Jinja; None for any other expression."""
    try:
        node = _PARSER.parse(f"{{{{ {part} }}}}").body[0]
    except (jinja2.TemplateSyntaxError, RecursionError):
        return None
    first = node.nodes[0] if isinstance(node, nodes.Output) else None
    return first.value if isinstance(first, nodes.Const) and isinstance(first.value, str) else None


def _literal(text: str) -> str:
    """A text as a template that says just it."""
    return text if not re.search(r"\{[{%#]", text) else f"{{{{ {json.dumps(text, ensure_ascii=False)} }}}}"


def _split(text: str) -> list[str]:
    """The items of a list's inside, at its commas and not at those within."""
    parts, depth, quote, start = [], 0, "", 0
    for at, character in enumerate(text):
        if quote:
            quote = "" if character == quote and text[at - 1] != "\\" else quote
        elif character in "'\"":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]
