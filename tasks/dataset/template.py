"""Prompt and target templates: Jinja over a row's fields, in a bounded sandbox, every fault with its key."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import StrictUndefined, meta, nodes

from schemas.dataset import NamedDataset
from schemas.errors import ConfigError, Problem
from tasks.dataset.rows import nearest
from tasks.dataset.sandbox import BoundedEnvironment, TemplateLimit, bounded_render

# What a template says is what is sent: its last newline too.
_ENVIRONMENT = BoundedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Template:
    """A compiled template, and where it was written. `lone` is its one expression, if it is a bare `{{ a.b }}`."""

    text: str
    file: Path | None
    key: str | None
    compiled: jinja2.Template
    names: frozenset[str]
    """The fields that it reads."""
    lone: nodes.Expr | None


@lru_cache(maxsize=512)
def compile_template(text: str, *, file: Path | None = None, key: str | None = None) -> Template:
    """Compiles a template. A syntax error, or a filter that does not exist, is a ConfigError with the template's line.

    (The line counts inside the template: it is part of the message, since the file's own lines are YAML's.)"""
    try:
        tree = _ENVIRONMENT.parse(text)
        compiled = _ENVIRONMENT.guarded(text)
        names = frozenset(meta.find_undeclared_variables(tree)) - frozenset(_ENVIRONMENT.globals)
        lone = _lone(text)
    except jinja2.TemplateSyntaxError as broken:
        raise ConfigError.one(
            f"template syntax error in line {broken.lineno} of the template: {str(broken.message).rstrip('.')}",
            file=file,
            key=key,
        ) from broken
    except (RecursionError, SyntaxError) as deep:  # of Jinja's parser, and of the Python that it writes
        raise ConfigError.one("the template is nested too deeply", file=file, key=key) from deep
    return Template(text=text, file=file, key=key, compiled=compiled, names=names, lone=lone)


def render(template: Template, fields: Mapping[str, Any]) -> str:
    """The template's text for one row.

    Raises ConfigError: an undefined field (with the nearest column), a limit, an error inside the template."""
    try:
        return bounded_render(template.compiled, fields)
    except jinja2.UndefinedError as missing:
        raise _undefined(template, fields, str(missing)) from missing
    except TemplateLimit as limit:
        raise ConfigError.one(f"the template was stopped: {limit}", file=template.file, key=template.key) from limit
    except Exception as broken:  # a template may raise whatever its filters and operators raise
        raise ConfigError.one(
            f"the template failed: {type(broken).__name__}: {broken}", file=template.file, key=template.key
        ) from broken


def native(template: Template, fields: Mapping[str, Any]) -> Any:
    """As render, but a lone `{{ field }}`, `{{ a.b }}` or `{{ a[0] }}` gives the value itself: a number, a list."""
    if template.lone is None:
        return render(template, fields)
    value = _value(template.lone, fields)
    if isinstance(value, jinja2.Undefined):
        raise _undefined(template, fields, f"'{template.text.strip()}' is undefined")
    return value


def check_templates(dataset: NamedDataset, fields: Iterable[str], *, examples: bool = False) -> None:
    """Checks every name that the dataset's templates and column settings use against its columns.

    examples: the columns are those of the few-shot examples, which need only what the question and the target use.
    Raises one ConfigError with all problems: unknown fields, unknown columns, syntax errors."""
    columns = list(fields)
    file = Path(dataset.path) if dataset.path else None
    listed = "examples" if dataset.config.few_shot.examples is not None else "source"
    whose = f"'s few_shot.{listed}" if examples else ""
    answer = "target" if dataset.config.few_shot.answer is None else "few_shot.answer"
    of_examples = ("prompt.text", "prompt.messages", answer)
    problems: list[Problem] = []
    for key, text in template_texts(dataset):
        if not key.startswith(of_examples) if examples else key == "few_shot.answer":
            continue
        try:
            template = compile_template(text, file=file, key=key)
        except ConfigError as broken:
            problems.extend(broken.problems)
            continue
        problems.extend(
            Problem(
                message=f"the template uses {name!r}, which is no column of {dataset.name}{whose}",
                file=file,
                key=key,
                suggestion=nearest(name, columns),
            )
            for name in sorted(template.names - set(columns))
        )
    config = dataset.config
    named = {
        "id_field": config.id_field,
        "cluster": config.cluster,
        "guide.schema_field": config.guide.schema_field if config.guide else None,
        "guide.pattern_field": config.guide.pattern_field if config.guide else None,
        "guide.grammar_field": config.guide.grammar_field if config.guide else None,
        "guide.tools_field": config.guide.tools_field if config.guide else None,
    }
    problems.extend(
        Problem(message=f"{dataset.name} has no column {name!r}", file=file, key=key, suggestion=nearest(name, columns))
        for key, name in named.items()
        if name is not None and name not in columns and not examples
    )
    if problems:
        raise ConfigError(problems)


def template_texts(dataset: NamedDataset) -> list[tuple[str, str]]:
    """Every template of a dataset with its key: prompt or document, target, choices."""
    config = dataset.config
    texts = [
        (f"{part}.{name}", text)
        for part, names in (("prompt", ("text", "system", "prefix", "suffix")), ("document", ("text", "counted")))
        for name in names
        if (text := getattr(getattr(config, part), name, None)) is not None
    ]
    for number, message in enumerate(config.said.messages or []):
        texts.append((f"prompt.messages.{number}.content", message.content))
    if config.target is not None:
        texts.append(("target", config.target))
    if config.few_shot.answer is not None:
        texts.append(("few_shot.answer", config.few_shot.answer))
    if config.continuation is not None:
        texts.append(("continuation", config.continuation))
    if isinstance(config.choices, str):
        texts.append(("choices", config.choices))
    for number, choice in enumerate(config.choices if isinstance(config.choices, list) else []):
        texts.append((f"choices.{number}", choice))
    return texts


def _undefined(template: Template, fields: Mapping[str, Any], message: str) -> ConfigError:
    missing = sorted(template.names - set(fields))
    hint = nearest(missing[0], fields) if missing else None
    what = f"the field {missing[0]!r} is not there" if missing else message
    return ConfigError.one(f"undefined in the template: {what}", file=template.file, key=template.key, suggestion=hint)


def _lone(text: str) -> nodes.Expr | None:
    body = _ENVIRONMENT.parse(text.strip()).body
    if len(body) != 1 or not isinstance(body[0], nodes.Output) or len(body[0].nodes) != 1:
        return None
    expression = body[0].nodes[0]
    return expression if _is_path(expression) else None


def _is_path(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Name):
        return True
    if isinstance(node, nodes.Getattr):
        return _is_path(node.node)
    return isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const) and _is_path(node.node)


def _value(node: nodes.Node, fields: Mapping[str, Any]) -> Any:
    if isinstance(node, nodes.Name):
        return fields[node.name] if node.name in fields else _ENVIRONMENT.undefined(name=node.name)
    if not isinstance(node, nodes.Getattr | nodes.Getitem):
        raise TypeError(f"{type(node).__name__} is no path to a value")
    inner = _value(node.node, fields)
    if isinstance(inner, jinja2.Undefined):
        return inner
    if isinstance(node, nodes.Getattr):
        return _ENVIRONMENT.getattr(inner, node.attr)
    return _ENVIRONMENT.getitem(inner, node.arg.as_const())
