"""From a row to what is said to the model: templates rendered, examples put in, the chat template applied."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from schemas.dataset import NamedDataset
from schemas.errors import ConfigError
from tasks.dataset.chat import ChatTemplate, ChatTemplateError
from tasks.dataset.rows import Row, canonical_json, sha256_hex
from tasks.dataset.shots import answer_text, delimiter, messages_with_shots, text_with_shots
from tasks.dataset.template import Template, compile_template, native, render
from tasks.dataset.unicode import valid_unicode

_EXAMPLES_KEPT = 4096
"""Rendered examples that are remembered: of a large pool each is drawn seldom."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """A prompt as text, valid Unicode; replaced_characters: how many lone surrogates became U+FFFD in it."""

    prompt: str
    messages: list[dict[str, str]] | None
    replaced_characters: int


class Composer:
    """Renders the rows of one dataset for one model.

    Raises ConfigError: on construction, for messages without a chat template, a dialogue that does not end with the
    user, examples without a target; on rendering, for what a template does not stand, with the row."""

    def __init__(self, *, dataset: NamedDataset, chat: ChatTemplate | None) -> None:
        self._dataset = dataset
        self._file = Path(dataset.path) if dataset.path else None
        self._chat = chat
        config = dataset.config
        prompt = config.said
        self.is_chat = prompt.messages is not None
        if self.is_chat and chat is None:
            raise self._problem(
                "the dataset has messages, and the model has no chat template",
                key="prompt.messages",
                suggestion="give the model a chat_template, or the dataset a prompt.text",
            )
        if prompt.messages is not None and [m.role for m in prompt.messages][-1:] != ["user"]:
            raise self._problem("the messages must end with one of the user", key="prompt.messages")
        few = config.few_shot
        if few.n and config.target is None and few.answer is None:
            raise self._problem("examples need the dataset's `target`: it is their answer", key="few_shot.n")
        document = config.document
        key = "prompt.text" if document is None else "document.text"
        self._text = None if prompt.text is None else self._template(prompt.text, key)
        counted = None if document is None else document.counted
        self._counted = None if counted is None else self._template(counted, "document.counted")
        self._messages = [
            (message.role, self._template(message.content, f"prompt.messages.{number}.content"))
            for number, message in enumerate(prompt.messages or [])
        ]
        self._system = None if prompt.system is None else self._template(prompt.system, "prompt.system")
        self._prefix = None if prompt.prefix is None else self._template(prompt.prefix, "prompt.prefix")
        self._suffix = None if prompt.suffix is None else self._template(prompt.suffix, "prompt.suffix")
        self._target = None if config.target is None else self._template(config.target, "target")
        self._answer = self._target if few.answer is None else self._template(few.answer, "few_shot.answer")
        self._continuation = (
            None if config.continuation is None else self._template(config.continuation, "continuation")
        )
        self._choices: Template | list[Template] | None
        if isinstance(config.choices, str):
            self._choices = self._template(config.choices, "choices")
        elif config.choices is not None:
            self._choices = [self._template(text, f"choices.{n}") for n, text in enumerate(config.choices)]
        else:
            self._choices = None
        self._examples: dict[str, tuple[Any, str]] = {}

    def compose(self, row: Row, *, shots: Sequence[Row]) -> Composed:
        """The prompt of a row behind its examples."""
        examples = [self._example(shot) for shot in shots]
        question = self._question(row)
        if isinstance(question, str):
            whole = f"{self._on(row, self._prefix)}{text_with_shots(question, examples=examples)}"
            text, replaced = valid_unicode(f"{whole}{self._on(row, self._suffix)}")
            return Composed(prompt=text, messages=None, replaced_characters=replaced)
        messages, replaced = [], 0
        for message in self._around(row, messages_with_shots(question, examples=examples)):
            content, bad = valid_unicode(message["content"])
            replaced += bad
            messages.append({"role": message["role"], "content": content})
        if self._chat is None:
            raise AssertionError("a composer of messages was made without a chat template")
        try:
            prompt = self._chat.render(messages)
        except ChatTemplateError as refused:
            raise self._problem(f"row {row.row_index}: {refused}", key="prompt.messages") from refused
        return Composed(prompt=valid_unicode(prompt)[0], messages=messages, replaced_characters=replaced)

    def target(self, row: Row) -> Any:
        """What a right answer is; a lone field keeps its type. None where the dataset has no target."""
        return None if self._target is None else self._on_row(row, native, self._target)

    def counted(self, row: Row) -> str | None:
        """The text of a document whose words and bytes are counted; None where nothing is measured."""
        if self._dataset.config.document is None:
            return None
        return valid_unicode(self._on(row, self._text if self._counted is None else self._counted))[0]

    def choices(self, row: Row) -> list[str]:
        """The options of a row as text; empty where the dataset has none."""
        if self._choices is None:
            return []
        if isinstance(self._choices, list):
            options = [self._on_row(row, render, template) for template in self._choices]
        else:
            options = self._on_row(row, native, self._choices)
        if not isinstance(options, list) or not options:
            raise self._problem(
                f"row {row.row_index}: the choices are {str(options)[:80]!r}, not a list with something in it",
                key="choices",
                suggestion="write a lone {{ field }} that holds a list, or a list of templates",
            )
        texts = [answer_text(option) for option in options]
        if any(not text for text in texts):
            raise self._problem(f"row {row.row_index}: a choice is empty", key="choices")
        return [valid_unicode(text)[0] for text in texts]

    def continuation(self, row: Row) -> str | None:
        """What follows every choice and is scored in its place; None where the choices themselves are."""
        return None if self._continuation is None else valid_unicode(self._on(row, self._continuation))[0]

    def delimiter(self, prompt: str) -> str:
        """What stands between a prompt and its answer: nothing after a chat template."""
        return "" if self.is_chat else delimiter(prompt)

    def template_hash(self) -> str:
        """sha256 over all that makes a row a prompt, the same for every row."""
        config = self._dataset.config
        parts = {
            "prompt": (config.prompt or config.document or config.said).model_dump(),
            "target": config.target,
            "choices": config.choices,
            "few_shot": _without_nothing(config.few_shot.model_dump(), "answer"),
            "bos": config.bos,
            "chat_template": self._chat.text if self.is_chat and self._chat is not None else None,
        }
        if config.continuation is not None:
            parts["continuation"] = config.continuation
        return sha256_hex(canonical_json(parts))

    def _question(self, row: Row) -> str | list[dict[str, str]]:
        if self._text is not None:
            return self._on(row, self._text)
        return [{"role": role, "content": self._on_row(row, render, template)} for role, template in self._messages]

    def _example(self, shot: Row) -> tuple[Any, str]:
        if shot.sample_id not in self._examples:
            if len(self._examples) >= _EXAMPLES_KEPT:
                self._examples.clear()
            answer = None if self._answer is None else self._on_row(shot, native, self._answer)
            self._examples[shot.sample_id] = (self._question(shot), answer_text(answer))
        return self._examples[shot.sample_id]

    def _around(self, row: Row, turns: list[dict[str, str]]) -> list[dict[str, str]]:
        """A dialogue with the system message, the prefix before what the user says first, the suffix behind what the
        user says last."""
        said = [dict(turn) for turn in turns]
        if self._prefix is not None:
            first = next(turn for turn in said if turn["role"] == "user")
            first["content"] = self._on(row, self._prefix) + first["content"]
        said[-1]["content"] += self._on(row, self._suffix)
        if self._system is not None:
            said.insert(0, {"role": "system", "content": self._on(row, self._system)})
        return said

    def _on(self, row: Row, template: Template | None) -> str:
        return "" if template is None else str(self._on_row(row, render, template))

    def _on_row(self, row: Row, how: Any, template: Template) -> Any:
        try:
            return how(template, row.fields)
        except ConfigError as broken:
            problems = [replace(p, message=f"row {row.row_index}: {p.message}") for p in broken.problems]
            raise ConfigError(problems) from broken

    def _template(self, text: str, key: str) -> Template:
        return compile_template(text, file=self._file, key=key)

    def _problem(self, message: str, *, key: str, suggestion: str | None = None) -> ConfigError:
        return ConfigError.one(message, file=self._file, key=key, suggestion=suggestion)


def _without_nothing(values: dict[str, Any], key: str) -> dict[str, Any]:
    """The values without a key that says nothing: prompts from before there was such a key keep their hash."""
    return {name: value for name, value in values.items() if name != key or value is not None}
