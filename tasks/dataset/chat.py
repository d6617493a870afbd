"""A model's chat template, rendered without transformers and equal to its `apply_chat_template`.

What the templates in circulation rely on: blocks that eat their line's white space, `break` and `continue`, `tojson`
without HTML escapes, `raise_exception`, `strftime_now`, the `generation` block, and the special tokens as variables.
"""

import datetime
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser

from schemas.errors import ConfigError
from tasks.dataset.sandbox import BoundedEnvironment, TemplateLimit, bounded_render

_SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


class _Generation(Extension):
    """`{% generation %}…{% endgeneration %}` marks what the assistant says; for the text it changes nothing but that
    the block is a scope of its own."""

    tags = {"generation"}  # noqa: RUF012  Jinja's own class attribute

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_inside"), [], [], body).set_lineno(line)

    def _inside(self, caller: Any) -> str:
        return str(caller())


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(format_: str) -> str:
    return datetime.datetime.now().strftime(format_)


def _chat_environment() -> BoundedEnvironment:
    environment = BoundedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


_ENVIRONMENT = _chat_environment()
_PLAIN = "{% for message in messages %}[{{ message.role }}]\n{{ message.content }}\n{% endfor %}[assistant]\n"


class ChatTemplateError(Exception):
    """The template refused or failed on these messages. The message is the template's own where it has one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChatTemplate:
    """A compiled chat template with the model's special tokens. text: its source; tool_text: the one for calls with
    tools, where the model has two."""

    text: str
    tool_text: str | None
    special_tokens: dict[str, str]
    file: Path
    compiled: jinja2.Template
    tool_compiled: jinja2.Template | None

    @classmethod
    def from_folder(cls, folder: Path, *, choice: str) -> "ChatTemplate | None":
        """The template of a model folder (`model`), none (`none`), or the one of a Jinja file (any other choice).

        None also when the model has no template of its own. Raises ConfigError: a file that is missing, a template
        with a syntax error."""
        if choice == "none":
            return None
        special = special_tokens(folder)
        if choice == "model":
            found = _own_templates(folder)
            if found is None:
                return None
            file, texts = found
        else:
            file = Path(choice)
            if not file.is_file():
                raise ConfigError.one(f"the chat template {file} does not exist", key="chat_template")
            texts = {"default": _text(file)}
        default = texts.get("default")
        if default is None:
            raise ConfigError.one(
                f"the model has the chat templates {', '.join(sorted(texts))}, and none called default",
                file=file,
                key="chat_template",
                suggestion="write the path of a Jinja file",
            )
        tools = texts.get("tool_use")
        return cls(
            text=default,
            tool_text=tools,
            special_tokens=special,
            file=file,
            compiled=_compile(default, file=file),
            tool_compiled=None if tools is None else _compile(tools, file=file),
        )

    @classmethod
    def plain(cls) -> "ChatTemplate":
        """No model's: each message under its role, for people who look at prompts before they have a model."""
        file = Path("plain")
        compiled = _compile(_PLAIN, file=file)
        return cls(text=_PLAIN, tool_text=None, special_tokens={}, file=file, compiled=compiled, tool_compiled=None)

    def render(
        self,
        messages: list[dict[str, Any]],
        *,
        add_generation_prompt: bool = True,
        tools: list[dict[str, Any]] | None = None,
    ) -> str:
        """The prompt's text. Encode it without special tokens: the template has put them in.

        Raises ChatTemplateError where the template refuses the messages, fails on them, or goes over a limit."""
        compiled = self.tool_compiled if tools is not None and self.tool_compiled is not None else self.compiled
        variables = {
            "messages": messages,
            "tools": tools,
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
            **self.special_tokens,
        }
        try:
            return bounded_render(compiled, variables)
        except TemplateLimit as limit:
            raise ChatTemplateError(f"the chat template was stopped: {limit}") from limit
        except jinja2.TemplateError as refused:
            raise ChatTemplateError(f"the chat template refuses these messages: {refused}") from refused
        except Exception as broken:  # a template may raise whatever its filters and operators raise
            raise ChatTemplateError(f"the chat template failed: {type(broken).__name__}: {broken}") from broken


def special_tokens(folder: Path) -> dict[str, str]:
    """The model's named special tokens as text, from tokenizer_config.json and special_tokens_map.json.

    The map is older: it counts only where the config does not list the added tokens itself."""
    config = read_json(folder / "tokenizer_config.json")
    values = dict(config)
    if "added_tokens_decoder" not in config:
        values.update(read_json(folder / "special_tokens_map.json"))
    texts = {name: _token_text(values.get(name)) for name in _SPECIAL}
    return {name: text for name, text in texts.items() if text is not None}


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file of a model folder; empty where there is no such file."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError as broken:
        raise ConfigError.one(f"broken JSON: {broken}", file=path) from broken
    if not isinstance(content, dict):
        raise ConfigError.one("must hold a JSON object", file=path)
    return content


def _token_text(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _own_templates(folder: Path) -> tuple[Path, dict[str, str]] | None:
    """Templates in files of their own go before the ones inside tokenizer_config.json."""
    file = folder / "chat_template.jinja"
    texts = {path.stem: _text(path) for path in sorted(folder.glob("additional_chat_templates/*.jinja"))}
    if file.is_file():
        texts["default"] = _text(file)
    if texts:
        return file, texts
    config = folder / "tokenizer_config.json"
    inside = read_json(config).get("chat_template")
    if isinstance(inside, str):
        return config, {"default": inside}
    if isinstance(inside, list):
        return config, {str(entry["name"]): str(entry["template"]) for entry in inside}
    return None


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except UnicodeDecodeError as broken:
        raise ConfigError.one(f"not UTF-8: {broken.reason}", file=file, key="chat_template") from broken


def _compile(text: str, *, file: Path) -> jinja2.Template:
    try:
        return _ENVIRONMENT.guarded(text)
    except jinja2.TemplateSyntaxError as broken:
        raise ConfigError.one(
            f"chat template syntax error: {broken.message}", file=file, line=broken.lineno, key="chat_template"
        ) from broken
