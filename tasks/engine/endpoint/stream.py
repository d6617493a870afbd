"""What a stream brings of one answer: its text, its tokens, and when each part of it arrived."""

from typing import Any

import msgspec

from tasks.engine.protocol import WireResult

DONE = b"[DONE]"
_MOST_TOKENS = 1 << 53
"""A count beyond that is no count."""


class Delta(msgspec.Struct):
    """What a part of a chat answer adds. reasoning goes by two names."""

    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None


class Choice(msgspec.Struct):
    """One part of an answer."""

    index: int = 0
    text: Any = None
    delta: Delta | None = None
    finish_reason: Any = None
    stop_reason: Any = None
    token_ids: list[int] | None = None


class Chunk(msgspec.Struct):
    """One event. usage: counts of tokens; timings: llama.cpp's own account; metrics: vLLM's."""

    choices: list[Choice] | None = None
    usage: Any = None
    error: Any = None
    timings: Any = None
    metrics: Any = None


class Broken(Exception):
    """The stream told of an error, or holds what is no part of an answer. status: the error's own, as HTTP has them,
    where it names one: the stream began before the server had looked at all of the request."""

    def __init__(self, words: str, *, status: int | None = None) -> None:
        super().__init__(words)
        self.status = status


_chunks = msgspec.json.Decoder(Chunk)


class Stream:
    """One answer on its way. What one read brings is one arrival, however many events it is."""

    def __init__(self) -> None:
        self.done = False
        self.token_ids: list[int] = []
        self.finish_reason: str | None = None
        self.first_at: float | None = None
        self._names_tokens = False
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._stop_reason: str | None = None
        self._first_text_at: float | None = None
        self._last_at: float | None = None
        self._gaps_ms: list[float] = []
        self._gap_tokens: list[int] = []
        self._parts = 0
        """Events that brought some of the answer."""
        self._gap_parts: list[int] = []
        self._usage: dict[str, Any] = {}
        self._account: dict[str, float | None] = {}

    @property
    def tokens(self) -> int:
        """Those that are known so far."""
        return len(self.token_ids)

    @property
    def counts(self) -> str:
        """How its tokens are known: `token_ids`, `usage`, or only the `chunks` that they came in."""
        if self._names_tokens:
            return "token_ids"
        return "chunks" if self._count("completion_tokens") is None else "usage"

    def take(self, events: list[bytes], now: float) -> None:
        """Adds what one read brought at this moment. Raises Broken."""
        parts, tokens, text = 0, 0, False
        for data in events:
            if data == DONE:
                self.done = True
                continue
            for choice in self._choices(data):
                brought, more_text = self._add(choice)
                if brought is None:
                    continue
                parts += 1
                tokens += brought
                text = text or more_text
        if not parts:
            return
        if text and self._first_text_at is None:
            self._first_text_at = now
        if self._last_at is None:
            self.first_at = now
        else:
            self._gaps_ms.append((now - self._last_at) * 1000)
            self._gap_tokens.append(tokens)
            self._gap_parts.append(parts)
        self._last_at = now
        self._parts += parts

    def _choices(self, data: bytes) -> list[Choice]:
        try:
            chunk = _chunks.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Broken(f"no part of an answer: {data[:200].decode(errors='replace')} ({error})") from error
        if chunk.error is not None:
            code = chunk.error.get("code") if isinstance(chunk.error, dict) else None
            raise Broken(_words(chunk.error), status=code if isinstance(code, int) else None)
        if isinstance(chunk.usage, dict):
            self._usage = chunk.usage
        if isinstance(chunk.timings, dict):
            self._account |= {
                "prefill_ms": _number(chunk.timings.get("prompt_ms")),
                "decode_ms": _number(chunk.timings.get("predicted_ms")),
            }
        if isinstance(chunk.metrics, dict):
            self._account["queued_ms"] = _number(chunk.metrics.get("queue_time_ms"))
        return [] if chunk.choices is None else [choice for choice in chunk.choices if choice.index == 0]

    def _add(self, choice: Choice) -> tuple[int | None, bool]:
        """The tokens that it brought, None where it brought nothing; whether there was text."""
        if isinstance(choice.finish_reason, str):
            self.finish_reason = choice.finish_reason
            if choice.stop_reason is not None:
                self._stop_reason = str(choice.stop_reason)
        text = choice.text if choice.delta is None else choice.delta.content
        reasoning = None if choice.delta is None else choice.delta.reasoning_content or choice.delta.reasoning
        has_text = isinstance(text, str) and text != ""
        has_reasoning = isinstance(reasoning, str) and reasoning != ""
        if has_text:
            self._text.append(text)
        if has_reasoning:
            self._reasoning.append(str(reasoning))
        if choice.token_ids is not None:
            self._names_tokens = True
            self.token_ids += choice.token_ids
            return len(choice.token_ids) or None, has_text
        return (0 if has_text or has_reasoning else None), has_text

    def _count(self, name: str) -> int | None:
        value = self._usage.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_TOKENS else None

    def fill(self, result: WireResult) -> None:
        """Puts all of it into the result."""
        result.token_ids, result.text = self.token_ids, "".join(self._text)
        result.reasoning = "".join(self._reasoning) or None
        result.finish_reason, result.stop_reason = self.finish_reason, self._stop_reason
        result.first_token_at, result.first_text_at, result.last_token_at = (
            self.first_at,
            self._first_text_at,
            self._last_at,
        )
        result.gaps_ms = self._gaps_ms
        result.prompt_tokens = self._count("prompt_tokens")
        details = self._usage.get("prompt_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, dict) else None
        result.cached_tokens = cached if isinstance(cached, int) else None
        counted = self._count("completion_tokens")
        if self._names_tokens:
            result.output_tokens, result.gap_tokens = len(self.token_ids), self._gap_tokens
        else:
            result.output_tokens = counted
            # As many parts as tokens: then each part was one. Otherwise nobody knows how they were spread.
            result.gap_tokens = self._gap_parts if counted == self._parts else []
        for name, value in self._account.items():
            setattr(result, name, value)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _words(error: Any) -> str:
    """What an error object says."""
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return str(error["message"])
    return error if isinstance(error, str) else msgspec.json.encode(error).decode()
