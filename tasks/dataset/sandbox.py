"""The Jinja environment that prompt and chat templates run in: no files, no attributes of the interpreter, bounded
output, bounded time.

Jinja's sandbox keeps a template from reaching Python; it does not keep it from running for ever or from filling the
memory. So the deadline is looked at on every step of every loop, every call and every chunk of output, and the
operations that can make a large value out of small ones (`*`, `**`, `+`, `~`, `%`, format, padding, replace, join) are
bounded. What is left: a single built-in filter on a value within the bounds is not interrupted while it works.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

import jinja2
import regex
from jinja2 import nodes, pass_context
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

OUTPUT_LIMIT = 4 << 20
"""Characters that one rendering may give."""
TIME_LIMIT_S = 5.0
"""Seconds that one rendering may take."""
_NUMBER_BITS = 4096
_WIDTH_LIMIT = 100_000
_REPLACEMENT_LIMIT = 1000
_WIDE_FORMAT = re.compile(r"\d{6,}")
_WIDTH_FROM_VALUE = re.compile(r"%[^a-zA-Z]*\*|\{[^}]*\{")

_deadline: ContextVar[float | None] = ContextVar("template_deadline", default=None)


class TemplateLimit(Exception):
    """A rendering went over its output or its time."""


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """The filter `tojson` as chat templates expect it: plain JSON, nothing escaped for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def regex_replace(text: Any, pattern: str, replacement: str = "") -> str:
    """The filter `regex_replace`: every match of a regular expression (Python's syntax) replaced. Raises TemplateLimit
    where it does not come to an end in the time that the rendering has left."""
    deadline = _deadline.get()
    left = TIME_LIMIT_S if deadline is None else max(deadline - time.monotonic(), 0.001)
    if len(replacement) > _REPLACEMENT_LIMIT:
        raise TemplateLimit(f"a replacement is longer than {_REPLACEMENT_LIMIT:,} characters")
    try:
        return str(_bounded(regex.sub(pattern, replacement, str(text), timeout=left)))
    except TimeoutError as endless:
        raise TemplateLimit(f"a pattern does not come to an end in {left:.1f} seconds") from endless


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """A sandbox whose renderings end. Templates come only from text: there is no loader."""

    intercepted_binops = frozenset({"*", "**", "+", "%"})

    def __init__(self, **options: Any) -> None:
        super().__init__(autoescape=False, loader=None, **options)
        self.filters["tojson"] = to_json
        self.filters["regex_replace"] = regex_replace
        self.filters["assay_watched"] = _watched
        self.filters["assay_bounded"] = _bounded_text
        for name, check in _FILTER_CHECKS.items():
            self.filters[name] = _checked(self.filters[name], check)
        del self.globals["lipsum"]

    def guarded(self, text: str) -> jinja2.Template:
        """The compiled template, its loops and joins under watch. Raises jinja2.TemplateSyntaxError."""
        return self.from_string(_Guard().visit(self.parse(text)))

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        _check_time()
        # The sandbox wraps str.format in a function of its own, which keeps the method it wraps.
        owner = getattr(getattr(obj, "__wrapped__", obj), "__self__", None)
        if isinstance(owner, str) and (check := _METHOD_CHECKS.get(getattr(obj, "__name__", ""))):
            check(owner, *args, **kwargs)
        result = super().call(context, obj, *args, **kwargs)
        return _bounded(result)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        _check_time()
        if operator == "%" and isinstance(left, str):
            _check_format(left, right)
        elif operator == "*":
            _check_product(left, right)
        elif operator == "**" and (_bits(left) * max(abs(right), 1) if isinstance(right, int) else 0) > _NUMBER_BITS:
            raise TemplateLimit("a power is too large")
        return _bounded(super().call_binop(context, operator, left, right))


def bounded_render(template: jinja2.Template, variables: Mapping[str, Any]) -> str:
    """The template's text. Raises TemplateLimit over OUTPUT_LIMIT or TIME_LIMIT_S, and what Jinja raises."""
    token = _deadline.set(time.monotonic() + TIME_LIMIT_S)
    try:
        chunks: list[str] = []
        length = 0
        for chunk in template.generate(variables):
            length += len(chunk)
            if length > OUTPUT_LIMIT:
                raise TemplateLimit(f"the text is longer than {OUTPUT_LIMIT:,} characters")
            _check_time()
            chunks.append(chunk)
        return "".join(chunks)
    except RecursionError as endless:
        raise TemplateLimit("it calls itself without end") from endless
    except MemoryError as large:
        raise TemplateLimit("it needs too much memory") from large
    finally:
        _deadline.reset(token)


class _Guard(NodeTransformer):
    """Puts the watch into a template: round what a loop runs over, and round every `~`."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.iter = nodes.Filter(node.iter, "assay_watched", [], [], None, None, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return nodes.Filter(node, "assay_bounded", [], [], None, None, lineno=node.lineno)


@pass_context  # keeps Jinja from computing it while compiling
def _watched(_context: Context, items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        _check_time()
        yield item


@pass_context
def _bounded_text(_context: Context, text: str) -> str:
    return str(_bounded(text))


def _check_time() -> None:
    deadline = _deadline.get()
    if deadline is not None and time.monotonic() > deadline:
        raise TemplateLimit(f"it takes longer than {TIME_LIMIT_S:g} seconds")


def _bounded(value: Any) -> Any:
    if isinstance(value, str | list | tuple) and len(value) > OUTPUT_LIMIT:
        raise TemplateLimit(f"a value is longer than {OUTPUT_LIMIT:,} characters or items")
    return value


def _bits(value: Any) -> int:
    return value.bit_length() if isinstance(value, int) else 0


def _check_product(left: Any, right: Any) -> None:
    if _bits(left) + _bits(right) > _NUMBER_BITS:
        raise TemplateLimit("a number is too large")
    for value, times in ((left, right), (right, left)):
        if isinstance(value, str | list | tuple) and isinstance(times, int) and len(value) * times > OUTPUT_LIMIT:
            raise TemplateLimit(f"a value is longer than {OUTPUT_LIMIT:,} characters or items")


def _check_numbers(_value: Any, *args: Any, **kwargs: Any) -> None:
    if any(isinstance(number, int) and abs(number) > _WIDTH_LIMIT for number in (*args, *kwargs.values())):
        raise TemplateLimit(f"a width or count is above {_WIDTH_LIMIT:,}")


def _check_format(text: Any, *args: Any, **kwargs: Any) -> None:
    if _WIDE_FORMAT.search(str(text)):
        raise TemplateLimit("a format asks for a width of six digits or more")
    if _WIDTH_FROM_VALUE.search(str(text)):
        flat = [item for arg in args for item in (arg if isinstance(arg, tuple) else (arg,))]
        _check_numbers(text, *flat, **kwargs)


def _check_replace(text: Any, old: Any = "", new: Any = "", *_count: Any, **_kwargs: Any) -> None:
    if str(text).count(str(old)) * len(str(new)) > OUTPUT_LIMIT:
        raise TemplateLimit(f"a value is longer than {OUTPUT_LIMIT:,} characters or items")


def _check_join(separator: Any, items: Any) -> None:
    if isinstance(items, list | tuple):
        length = sum(len(item) for item in items if isinstance(item, str)) + len(items) * len(str(separator))
        if length > OUTPUT_LIMIT:
            raise TemplateLimit(f"a value is longer than {OUTPUT_LIMIT:,} characters or items")


_FILTER_CHECKS: dict[str, Callable[..., None]] = {
    **dict.fromkeys(("center", "indent", "wordwrap", "truncate", "batch", "slice"), _check_numbers),
    "format": _check_format,
    "replace": _check_replace,
    "join": lambda items, d="", *_, **__: _check_join(d, items),
}
_METHOD_CHECKS: dict[str, Callable[..., None]] = {
    **dict.fromkeys(("center", "ljust", "rjust", "zfill", "expandtabs"), _check_numbers),
    **dict.fromkeys(("format", "format_map"), _check_format),
    "replace": _check_replace,
    "join": _check_join,
}


def _checked(inner: Any, check: Callable[..., None]) -> Any:
    """The filter with a look at its arguments before. Jinja hands its context or environment to filters that carry a
    mark: the wrapper carries the same one, and leaves that first argument out of the look."""
    mark = getattr(inner, "jinja_pass_arg", None)

    def checked(*args: Any, **kwargs: Any) -> Any:
        check(*(args if mark is None else args[1:]), **kwargs)
        return inner(*args, **kwargs)

    if mark is not None:
        vars(checked)["jinja_pass_arg"] = mark
    return checked
