"""The grammar of a guided answer, as a dataset gives it."""

import re
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from schemas.base import Config

GuideKind = Literal["json_schema", "json_object", "regex", "choice", "ebnf", "python", "math", "sql", "tool_calls"]
Flavour = Literal["xgrammar", "llguidance", "gbnf"]

WAYS: dict[str, tuple[tuple[str, ...], bool]] = {
    "json_schema": (("schema", "schema_field", "schema_class"), True),
    "json_object": ((), False),
    "regex": (("pattern", "pattern_field"), True),
    "choice": (("options",), False),
    "ebnf": (("grammar", "grammar_file", "grammar_field"), True),
    "python": ((), False),
    "math": ((), False),
    "sql": ((), False),
    "tool_calls": (("tools", "tools_field"), True),
}
"""The ways in which each kind of grammar is given, and whether one of them must be."""
_OF_KIND = {
    "flavour": "ebnf",
    "parallel": "tool_calls",
    "calls": "tool_calls",
    "tool_choice": "tool_calls",
    "allow_code": "json_schema",
}
"""Keys that only one kind takes."""
_CLASS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


class Guide(Config):
    """The grammar of a guided answer: its kind, and exactly one of the ways to give it that the kind takes.

    json_schema: `schema`, `schema_field` or `schema_class`; regex: `pattern` or `pattern_field`; ebnf: `grammar`,
    `grammar_file` or `grammar_field`, and `flavour`; tool_calls: `tools` or `tools_field`; choice: nothing (the
    dataset's `choices`), or `options`; json_object, python, math and sql: nothing.
    """

    kind: GuideKind
    """What an answer must be. `json_schema`: JSON that a schema allows; `json_object`: any JSON object; `regex`: what a
    regular expression matches; `choice`: one of some texts; `ebnf`: what a grammar of your own says; `python`: a module
    in a subset of Python; `math`: an arithmetic expression; `sql`: one SELECT; `tool_calls`: calls of tools whose
    arguments obey their schemas."""
    schema_: dict[str, Any] | str | None = Field(default=None, alias="schema")
    """The JSON Schema of every row: written out, or the path of a JSON file."""
    schema_field: str | None = None
    """The column that holds each row's own JSON Schema."""
    schema_class: str | None = None
    """A pydantic class whose JSON Schema is every row's, as `module:Class`; the module is looked for beside the
    dataset's file first. It is imported, in a process of its own, so `allow_code` must stand in the same file."""
    allow_code: bool = False
    """Whether the module of `schema_class` may be imported. Only from a file, never from an override or a form."""
    pattern: str | None = None
    """The regular expression of every row."""
    pattern_field: str | None = None
    """The column that holds each row's own regular expression."""
    options: list[str] | None = None
    """The texts of which the answer must be one; without it, the dataset's `choices`."""
    grammar: str | None = None
    """The grammar of every row, written out."""
    grammar_file: str | None = None
    """The path of the file that holds it."""
    grammar_field: str | None = None
    """The column that holds each row's own grammar."""
    flavour: Flavour | None = None
    """How the grammar is written. `gbnf`: as llama.cpp has it (`root ::= …`), which xgrammar and guidance take;
    `xgrammar`: xgrammar's own EBNF, much like it; `llguidance`: Lark (`start: …`), which guidance takes."""
    tools: list[dict[str, Any]] | str | None = None
    """The tools of every row, as OpenAI's API has them (`{type: function, function: {name, parameters}}`, or the inner
    object alone): written out, or the path of a JSON file."""
    tools_field: str | None = None
    """The column that holds each row's own tools."""
    parallel: bool | None = None
    """Whether an answer may hold several calls; without it, true."""
    calls: Literal["tags", "list"] | None = None
    """How calls are written. `tags`, the default: each as `<tool_call>`, a line with the object `{"name": …,
    "arguments": …}`, `</tool_call>`; `list`: one JSON list of such objects."""
    tool_choice: Literal["required", "auto"] | None = None
    """`required`, the default: calls and nothing else. `auto`: any text, in which what `<tool_call>` begins is a call;
    not with `calls: list`."""
    after: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """What comes before the guided part, which then is the whole answer: `reasoning`, which ends as the dataset's
    `reasoning_parser` says, or a text, such as `"Answer:"`, up to whose first occurrence the model writes freely.
    Without it, an answer obeys the grammar from its first token."""

    @field_validator("schema_class")
    @classmethod
    def _a_path(cls, value: str | None) -> str | None:
        if value is not None and not _CLASS.fullmatch(value):
            raise ValueError(f"must be `module:Class`, such as `my_models:Order`, not `{value[:80]}`")
        return value

    @model_validator(mode="after")
    def _ways(self) -> "Guide":
        allowed, needed = WAYS[self.kind]
        every = dict.fromkeys(way for ways, _ in WAYS.values() for way in ways)
        given = {way for way in every if getattr(self, "schema_" if way == "schema" else way) is not None}
        given |= {
            key for key, kind in _OF_KIND.items() if kind != self.kind and getattr(self, key) not in (None, False)
        }
        article = "an" if self.kind == "ebnf" else "a"
        if given - set(allowed):
            raise ValueError(f"{article} {self.kind} guide takes no {', '.join(sorted(given - set(allowed)))}")
        if needed and len(given) != 1:
            raise ValueError(f"{article} {self.kind} guide needs exactly one of {', '.join(sorted(allowed))}")
        if self.kind == "ebnf" and self.flavour is None:
            raise ValueError("an ebnf guide needs its `flavour`: gbnf, xgrammar or llguidance")
        if self.calls == "list" and self.tool_choice == "auto":
            raise ValueError("`tool_choice: auto` lets calls stand in a text, which goes with `calls: tags`")
        return self
