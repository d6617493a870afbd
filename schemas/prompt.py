"""What is asked of a row: messages for the model's chat template, or a text."""

from typing import Literal

from pydantic import model_validator

from schemas.base import Config


class Message(Config):
    """One chat message; `content` is a Jinja template over the row's fields."""

    role: Literal["system", "user", "assistant"]
    """Who speaks."""
    content: str
    """The text: Jinja over the row's fields."""


class Prompt(Config):
    """Either `messages` (rendered through the model's chat template) or `text` (sent as it is). Jinja over the row."""

    messages: list[Message] | None = None
    """A chat, rendered through the model's chat template."""
    text: str | None = None
    """The prompt as it is sent, without a chat template: Jinja over the row's fields."""
    system: str | None = None
    """The system message that goes before `messages`: Jinja over the row's fields."""
    prefix: str | None = None
    """What stands once before all else, the examples too (in a chat: of what the user says): Jinja over the row."""
    suffix: str | None = None
    """What stands once behind the question (in a chat: the last thing that the user says): Jinja over the row."""

    @model_validator(mode="after")
    def _one_of_two(self) -> "Prompt":
        if (self.messages is None) == (self.text is None):
            raise ValueError("give either `messages` or `text`")
        if self.system is not None and self.messages is None:
            raise ValueError("`system` goes with `messages`; a `text` prompt has a `prefix`")
        if self.system is not None and any(message.role == "system" for message in self.messages or []):
            raise ValueError("the system message stands here twice: in `system` and in `messages`")
        return self
