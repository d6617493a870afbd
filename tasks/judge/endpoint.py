"""A judge behind an OpenAI-compatible server: chat completions with a JSON schema, many at once, again where it is
busy."""

import asyncio
import json
import random
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx

from schemas.errors import ConfigError
from schemas.judge import Endpoint
from tasks.config.nearest import did_you_mean_or_list
from tasks.engine.endpoint.again import asked_wait_s
from tasks.engine.endpoint.key import NoKey, Scrub, read_key
from tasks.judge.ask import Ask, Reply

_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
_FATAL = frozenset({401, 403, 404})
"""A wrong key or a wrong name does not get right by asking the next answer."""
_BACKOFF_S = 0.5
_LONGEST_WAIT_S = 30.0
_CHECK_TIMEOUT_S = 10.0
STOP_AFTER = 20
"""So many calls that failed one after the other, and the endpoint counts as gone."""
_MOST_CHARACTERS = 500
_MOST_BYTES = 8 << 20
"""Of one response: far more than a verdict or a list of models has."""
_MOST_TOKENS = 1 << 53
"""A count beyond that is no count; a table could not hold it."""
TICK_S = 1.0


class _Gone(Exception):
    """The endpoint is not worth asking any more."""


class _TooMuch(Exception):
    """A response that goes on and on."""

    def __init__(self) -> None:
        super().__init__(f"it sent more than {_MOST_BYTES:,} bytes")


@dataclass(frozen=True, kw_only=True)
class _Said:
    """A response, read to its end."""

    status: int
    content: bytes
    retry_after: str

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", errors="replace")


class _Reading:
    """Takes the parts of a response. Raises _TooMuch."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._content = bytearray()

    def take(self, part: bytes) -> None:
        self._content += part
        if len(self._content) > _MOST_BYTES:
            raise _TooMuch

    def said(self) -> _Said:
        return _Said(
            status=self._response.status_code,
            content=bytes(self._content),
            retry_after=self._response.headers.get("retry-after", ""),
        )


def api_key(endpoint: Endpoint) -> str | None:
    """The key. Raises ConfigError where its variable is not set, or holds what cannot be a key."""
    try:
        return read_key(endpoint.api_key_env)
    except NoKey as none:
        what = f"the judge's {none.what.removeprefix('the ')}"
        raise ConfigError.one(what, key="endpoint.api_key_env", suggestion=none.cure) from none


def _headers(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def check_endpoint(endpoint: Endpoint) -> None:
    """Raises ConfigError where the endpoint cannot be used: its key is not set or not taken, nothing answers, or it
    does not have the model. A server without a list of models is taken at its word."""
    key = api_key(endpoint)
    try:
        with httpx.Client(timeout=_CHECK_TIMEOUT_S, headers=_headers(key)) as client:
            said = _get(client, f"{endpoint.url}/models")
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, _TooMuch) as error:  # UnicodeError: of the name of a host
        raise ConfigError.one(
            f"the judge's endpoint {endpoint.url} cannot be reached: {_said(error)}",
            key="endpoint.url",
            suggestion="start the server first; the address ends where /chat/completions would follow, often with /v1",
        ) from error
    if said.status in (401, 403):
        given = f"the key in {endpoint.api_key_env}" if key else "a call without a key"
        raise ConfigError.one(
            f"the judge's endpoint {endpoint.url} does not take {given} (HTTP {said.status})",
            key="endpoint.api_key_env",
        )
    if said.status >= 500:
        raise ConfigError.one(
            f"the judge's endpoint {endpoint.url} answers HTTP {said.status}: {Scrub(key).words(said.text)}",
            key="endpoint.url",
        )
    names = _model_names(said)
    if names and endpoint.model not in names:
        raise ConfigError.one(
            f"the judge's endpoint {endpoint.url} has no model `{endpoint.model}`",
            key="endpoint.model",
            suggestion=did_you_mean_or_list(endpoint.model, names[:20]),
        )


def _get(client: httpx.Client, url: str) -> _Said:
    with client.stream("GET", url) as response:
        reading = _Reading(response)
        for part in response.iter_bytes():
            reading.take(part)
    return reading.said()


async def _post(client: httpx.AsyncClient, url: str, body: dict[str, Any]) -> _Said:
    async with client.stream("POST", url, json=body) as response:
        reading = _Reading(response)
        async for part in response.aiter_bytes():
            reading.take(part)
    return reading.said()


def _model_names(said: _Said) -> list[str]:
    if said.status != httpx.codes.OK:
        return []
    try:
        listed = json.loads(said.content)["data"]
        return [str(each["id"]) for each in listed]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []


def ask_endpoint(
    endpoint: Endpoint, asks: Sequence[Ask], *, take: Callable[[Ask, Reply], None], tick: Callable[[], None]
) -> str | None:
    """Asks each, `concurrency` at once, and hands over what came, in the order in which it came.

    tick: called about once a second. Gives why it stopped before the last, None if it did not: the endpoint refuses the
    key or does not know the model, or STOP_AFTER calls failed one after the other. Whatever ends it early (Ctrl-C,
    SIGTERM), what came was handed over. Raises ConfigError where the key's variable is not set."""
    return _run(_Asking(endpoint, take=take, tick=tick).all(iter(asks)))


def _run(work: Coroutine[Any, Any, str | None]) -> str | None:
    """Here; in a thread of its own where this one has a loop that runs, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


class _Asking:
    def __init__(self, endpoint: Endpoint, *, take: Callable[[Ask, Reply], None], tick: Callable[[], None]) -> None:
        self._endpoint = endpoint
        self._key = api_key(endpoint)
        self._take = take
        self._tick = tick
        self._failed_in_a_row = 0

    async def all(self, asks: Iterator[Ask]) -> str | None:
        limits = httpx.Limits(max_connections=self._endpoint.concurrency)
        headers = _headers(self._key)
        async with httpx.AsyncClient(timeout=self._endpoint.timeout_s, limits=limits, headers=headers) as client:
            workers = [asyncio.create_task(self._work(client, asks)) for _ in range(self._endpoint.concurrency)]
            left: set[asyncio.Task[None]] = set(workers)
            try:
                while left:
                    done, left = await asyncio.wait(left, timeout=TICK_S, return_when=asyncio.FIRST_COMPLETED)
                    for worker in done:
                        worker.result()
                    self._tick()
            except _Gone as gone:
                return str(gone)
            finally:
                for worker in left:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)
        return None

    async def _work(self, client: httpx.AsyncClient, asks: Iterator[Ask]) -> None:
        for ask in asks:
            reply = await self._ask(client, ask)
            self._take(ask, reply)
            self._failed_in_a_row = self._failed_in_a_row + 1 if reply.error is not None else 0
            if self._failed_in_a_row >= STOP_AFTER:
                raise _Gone(f"{self._failed_in_a_row} calls failed one after the other, the last one: {reply.error}")

    async def _ask(self, client: httpx.AsyncClient, ask: Ask) -> Reply:
        """One reply, by as many calls as it takes and may take. Raises _Gone."""
        body = _body(self._endpoint, ask)
        reply = Reply(error="not asked")
        for number in range(1, self._endpoint.retries + 2):
            started = time.monotonic()
            wait_s = min(_LONGEST_WAIT_S, _BACKOFF_S * 2 ** (number - 1)) * random.uniform(0.75, 1.25)  # noqa: S311
            try:
                # The client's own limit is for each read; a server that sends a byte now and then would never end.
                async with asyncio.timeout(self._endpoint.timeout_s):
                    said = await _post(client, f"{self._endpoint.url}/chat/completions", body)
            except (TimeoutError, httpx.TimeoutException):
                seconds = f"no answer in {self._endpoint.timeout_s:g} s"
                reply = Reply(error=f"{seconds}, {number} times", timed_out=True, tries=number)
            except _TooMuch as error:
                return Reply(error=_said(error), tries=number)
            except httpx.HTTPError as error:
                reply = Reply(error=_said(error), tries=number)
            else:
                if said.status == httpx.codes.OK:
                    return self._reply(said, tries=number, ms=(time.monotonic() - started) * 1000)
                words = f"HTTP {said.status}: {Scrub(self._key).words(said.text)}"
                if said.status in _FATAL:
                    raise _Gone(words)
                reply = Reply(error=words, tries=number)
                if said.status not in _AGAIN:
                    return reply
                asked_s = asked_wait_s({"Retry-After": said.retry_after})
                wait_s = min(_LONGEST_WAIT_S, asked_s) if asked_s else wait_s
            if number <= self._endpoint.retries:
                await asyncio.sleep(wait_s)
        return reply

    def _reply(self, said: _Said, *, tries: int, ms: float) -> Reply:
        try:
            content = json.loads(said.content)
            choice = content["choices"][0]
            message = choice["message"]
            output, refusal = message.get("content"), message.get("refusal")
            usage = content.get("usage")
            counts: dict[str, Any] = usage if isinstance(usage, dict) else {}
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
            return Reply(error=f"no chat completion: {Scrub(self._key).words(said.text)}", tries=tries, judge_ms=ms)
        return Reply(
            output=output if isinstance(output, str) else None,
            refusal=refusal if isinstance(refusal, str) else None,
            finish_reason=_text(choice.get("finish_reason")),
            model=_text(content.get("model")),
            tries=tries,
            prompt_tokens=_count(counts.get("prompt_tokens")),
            output_tokens=_count(counts.get("completion_tokens")),
            judge_ms=ms,
        )


def _body(endpoint: Endpoint, ask: Ask) -> dict[str, Any]:
    options = ask.judge.options
    schema = {"name": "verdict", "strict": True, "schema": json.loads(ask.judge.grammar.content)}
    return {
        "model": endpoint.model,
        "messages": ask.messages,
        "temperature": 0,
        "max_tokens": options.max_tokens,
        "response_format": {"type": "json_schema", "json_schema": schema},
        **endpoint.body,
    }


def _said(error: Exception) -> str:
    if isinstance(error, _TooMuch):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS else None
