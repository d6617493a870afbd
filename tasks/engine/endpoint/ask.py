"""One request's way to the server and back: its tries, its stream, its result."""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import msgspec

from schemas.endpoint import EndpointEngine
from tasks.engine.endpoint.again import Circuit, again, asked_wait_s, backoff_s
from tasks.engine.endpoint.bodies import PATHS, CannotSay, body, loglikelihood_body
from tasks.engine.endpoint.dialects import Server
from tasks.engine.endpoint.http import Http
from tasks.engine.endpoint.logprobs import Unread, continuation_logprobs
from tasks.engine.endpoint.sse import Events, TooLong
from tasks.engine.endpoint.stream import Broken, Stream
from tasks.engine.protocol import WireRequest, WireResult

_NOBODYS_FAULT = frozenset({401, 402, 403, 404, 405})
"""States below 500 that are not this request's own: the key, the account, the address."""
_DRAIN_S = 1.0
_BUSY = 429


class Failed(Exception):
    """One try failed. wait_s: what the server asked for; again: whether another may succeed; refused: whether the
    request itself is at fault; counts: whether the server is."""

    def __init__(
        self,
        words: str,
        *,
        again: bool = False,
        refused: bool = False,
        counts: bool = True,
        wait_s: float | None = None,
        at_once: bool = False,
    ) -> None:
        super().__init__(words)
        self.words = words
        self.again = again
        self.refused = refused
        self.counts = counts
        self.wait_s = wait_s
        self.at_once = at_once


class Flight:
    """A request on its way. deadline: the monotonic time by which something must come; why: what was late."""

    def __init__(self, request: WireRequest, *, total_s: float) -> None:
        self.request = request
        self.sent_at = time.monotonic()
        self.ends_at = self.sent_at + total_s
        self.deadline: float | None = None
        self.stream = Stream()
        self.tries = 0
        self.why: str | None = None
        self.task: asyncio.Task[None] | None = None

    def late(self, now: float) -> str | None:
        """What took too long, None if nothing did."""
        if now >= self.ends_at:
            return f"it was not answered in {self.ends_at - self.sent_at:g} s (timeouts.total_s)"
        if self.deadline is None or now < self.deadline:
            return None
        if self.stream.first_at is None:
            return "nothing of its answer came in time (timeouts.first_token_s)"
        return f"nothing came after {self.stream.tokens or 'some'} tokens (timeouts.between_tokens_s)"

    def result(self, now: float) -> WireResult:
        """What it has so far."""
        found = WireResult(
            request_id=self.request.request_id,
            token_ids=[],
            text="",
            finish_reason=None,
            stop_reason=None,
            sent_at=self.sent_at,
            finished_at=now,
            tries=self.tries,
        )
        self.stream.fill(found)
        return found


class Asker:
    """Asks one server. deliver: takes each result, as soon as it is there."""

    def __init__(
        self,
        *,
        config: EndpointEngine,
        server: Server,
        http: Http,
        circuit: Circuit,
        deliver: Callable[[WireResult], None],
        say: Callable[[str], None],
    ) -> None:
        self._config = config
        self._server = server
        self._http = http
        self._circuit = circuit
        self._deliver = deliver
        self._say = say
        self.tries_made = 0
        self.tries_again = 0

    async def answer(self, flight: Flight) -> None:
        """Delivers a result, whatever becomes of it; nothing if it is cancelled without a reason."""
        try:
            await self._answer(flight)
        except asyncio.CancelledError:
            if flight.why is None:
                raise
            self._count(flight.why)
            self._fail(flight, flight.why)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong costs this request, and says why
            self._fail(flight, f"{type(error).__name__}: {error}")

    async def _answer(self, flight: Flight) -> None:
        request = flight.request
        try:
            if request.continuation_start is None:
                path, asked = PATHS[self._server.api], body(request, self._server)
            else:
                path, asked = PATHS["completions"], loglikelihood_body(request, self._server)
        except CannotSay as error:
            self._fail(flight, str(error), refused=True)
            return
        data = msgspec.json.encode(asked)
        while True:
            if self._circuit.reason is not None:
                self._fail(flight, self._circuit.reason)
                return
            flight.tries += 1
            self.tries_made += 1
            self.tries_again += flight.tries > 1
            flight.deadline = time.monotonic() + self._config.timeouts.first_token_s
            try:
                await self._once(flight, path, data)
                return
            except Failed as failed:
                flight.deadline = None
                wait_s, words = self._wait(flight, failed)
                if wait_s is None:
                    self._fail(flight, words, refused=failed.refused)
                    return
                flight.stream = Stream()
            await asyncio.sleep(wait_s)

    def _wait(self, flight: Flight, failed: Failed) -> tuple[float | None, str]:
        """Seconds until it is sent again, None for never; and what is then said of it."""
        retries, words = self._config.retries, failed.words
        last = not failed.again or flight.tries >= retries.tries
        if failed.counts or (last and failed.again):
            self._count(words)
        elif not failed.again:
            self._circuit.succeeded()
        if last:
            return None, words
        if failed.wait_s is not None and failed.wait_s > retries.longest_wait_s:
            return None, f"{words}; it asks to wait for {failed.wait_s:.0f} s (retries.longest_wait_s)"
        if failed.at_once and flight.tries == 1:
            return 0.0, words
        wait_s = backoff_s(retries, flight.tries)
        if failed.wait_s is not None:  # and not all at the same moment
            wait_s = failed.wait_s + random.uniform(0.0, retries.first_wait_s)  # noqa: S311
        if time.monotonic() + wait_s >= flight.ends_at:
            return None, f"{words}; the time for another try is over (timeouts.total_s)"
        return wait_s, words

    def _count(self, words: str) -> None:
        if self._circuit.failed(self._http.scrub.words(words)):
            self._say(f"nothing more is sent until the server is back. {self._circuit.reason}")

    def _fail(self, flight: Flight, words: str, *, refused: bool = False) -> None:
        result = flight.result(time.monotonic())
        words = self._http.scrub.words(words)
        result.error = f"{words}, after {flight.tries} tries" if flight.tries > 1 else words
        result.refused = refused
        self._finish(result)

    def _finish(self, result: WireResult) -> None:
        result.text = self._http.scrub.answer(result.text)
        if result.reasoning is not None:
            result.reasoning = self._http.scrub.answer(result.reasoning)
        self._deliver(result)

    async def _once(self, flight: Flight, path: str, data: bytes) -> None:
        """One try, to its end. Raises Failed."""
        try:
            async with self._http.post(path, data) as response:
                if response.status != 200:
                    raise await self._not_taken(response)
                if flight.request.continuation_start is not None:
                    await self._logprobs(flight, response)
                elif "event-stream" not in response.headers.get("Content-Type", ""):
                    said = (await self._http.read(response)).decode(errors="replace")
                    raise Failed(f"the answer is no stream of events: {said}")
                else:
                    await self._read(flight, response.content)
        except aiohttp.ClientError as error:
            raise self._no_connection(flight, error) from error
        except (TimeoutError, OSError) as error:
            raise self._no_connection(flight, error) from error

    def _no_connection(self, flight: Flight, error: Exception) -> Failed:
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        if flight.stream.first_at is not None:
            return Failed(f"the connection broke within the answer: {said}")
        # A connection that was kept from an earlier answer and has been closed since: not worth a wait.
        stale = isinstance(error, aiohttp.ServerDisconnectedError)
        return Failed(f"no connection to the server: {said}", again=True, at_once=stale)

    async def _not_taken(self, response: aiohttp.ClientResponse) -> Failed:
        status = response.status
        where: Mapping[str, str] = response.headers
        if 300 <= status < 400:
            return Failed(f"it redirects to {where.get('Location', 'nowhere')}: write that address in `url`")
        return _of_status(status, _said(await self._http.read(response)), wait_s=asked_wait_s(where))

    async def _read(self, flight: Flight, content: aiohttp.StreamReader) -> None:
        """Takes the stream, and delivers as soon as it says that it is done. Raises Failed."""
        stream, events = flight.stream, Events()
        between_s = self._config.timeouts.between_tokens_s
        try:
            while not stream.done:
                part = await content.readany()
                now = time.monotonic()
                stream.take(events.feed(part) if part else events.end(), now)
                if events.failed is not None:
                    raise Broken(_said(events.failed))
                if not part:
                    break
                if stream.first_at is not None:
                    flight.deadline = now + between_s
        except (Broken, TooLong) as error:
            began, status = stream.first_at is not None, getattr(error, "status", None)
            if status is not None and 400 <= status < 500 and not began:
                raise _of_status(status, str(error)) from error
            raise Failed(f"an error in the stream: {error}", again=not began) from error
        flight.deadline = None
        if stream.finish_reason is None:  # a server that gives an answer up may well end its stream in good order
            if stream.first_at is None:
                raise Failed("the stream ended before the answer began", again=True)
            raise Failed(f"the stream ended within the answer, after {stream.tokens or 'some'} tokens")
        self._circuit.succeeded()
        self._finish(flight.result(now))
        # The connection can be used again once the rest of it, which is nothing, has been read.
        with contextlib.suppress(TimeoutError, aiohttp.ClientError):
            async with asyncio.timeout(_DRAIN_S):
                while not content.at_eof():
                    await content.readany()

    async def _logprobs(self, flight: Flight, response: aiohttp.ClientResponse) -> None:
        request = flight.request
        content = await self._http.read(response, most=None)
        now = time.monotonic()
        try:
            found: Any = msgspec.json.decode(content)
            logprobs = continuation_logprobs(
                found, token_ids=request.prompt_token_ids, start=request.continuation_start or 0
            )
        except (msgspec.DecodeError, Unread) as error:
            raise Failed(f"no log-probabilities of the prompt: {error}") from error
        self._circuit.succeeded()
        result = flight.result(now)
        result.logprobs = logprobs
        self._finish(result)


def _of_status(status: int, said: str, *, wait_s: float | None = None) -> Failed:
    """A try that failed with a state of HTTP, and what the server said of it."""
    words = f"HTTP {status}: {said}"
    if again(status):
        return Failed(words, again=True, wait_s=wait_s, counts=status >= 500)
    own = status not in _NOBODYS_FAULT
    return Failed(words, refused=own, counts=not own)


def _said(content: bytes) -> str:
    """What a body says of an error."""
    text = content.decode("utf-8", errors="replace")
    try:
        found = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return text
    for key in ("error", "message", "detail"):
        if isinstance(found, dict) and key in found:
            value = found[key]
            if isinstance(value, dict) and isinstance(value.get("message"), str):
                return str(value["message"])
            return value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text
