"""A server on this machine that answers as a test has written it: byte for byte, and when."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

MODEL = "tiny"
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call that came. at: the monotonic moment."""

    method: str
    path: str
    headers: dict[str, str]
    content: bytes
    at: float

    @property
    def body(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.content)
        return found

    @property
    def is_asked(self) -> bool:
        return self.path.endswith("completions")


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What is sent: each part after a wait in seconds. cut: the connection is closed without the body's end."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    parts: Sequence[tuple[float, bytes]] = ()
    cut: bool = False


def event(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def token(text: str, ids: list[int] | None = None, finish: str | None = None) -> bytes:
    """One part of a completion."""
    choice: dict[str, Any] = {"index": 0, "text": text, "finish_reason": finish}
    if ids is not None:
        choice["token_ids"] = ids
    return event(choices=[choice])


def delta(content: str | None, finish: str | None = None, **more: Any) -> bytes:
    """One part of a chat."""
    return event(choices=[{"index": 0, "delta": {"content": content, **more}, "finish_reason": finish}])


def usage(prompt: int, completion: int) -> bytes:
    return event(choices=[], usage={"prompt_tokens": prompt, "completion_tokens": completion})


def stream(*parts: bytes | tuple[float, bytes], cut: bool = False) -> Reply:
    """Events, each in a packet of its own; (wait, bytes) for one that comes later."""
    waited = [part if isinstance(part, tuple) else (0.002, part) for part in parts]
    return Reply(headers={"Content-Type": "text/event-stream"}, parts=waited, cut=cut)


def say(status: int, said: Any, **headers: str) -> Reply:
    return Reply(
        status=status,
        headers={"Content-Type": "application/json", **headers},
        parts=[(0.0, said if isinstance(said, bytes) else json.dumps(said).encode())],
    )


def models(*names: str, owned_by: str = "somebody", **more: Any) -> Reply:
    listed = [{"id": name, "object": "model", "owned_by": owned_by, **more} for name in names or (MODEL,)]
    return say(200, {"object": "list", "data": listed})


Answer = Callable[[Call], Reply | None]


def guided(body: dict[str, Any]) -> str | None:
    """What a server that follows the two grammars of the probe would say; None for a free answer."""
    text = json.dumps(body)
    if "zqxj" not in text:
        return None
    return '{"zqxj": 1}' if '"properties' in text.replace("\\", "") else "zqxj"


def as_openai(call: Call, *, owned_by: str = "openai") -> Reply | None:
    """A plain server: chat and completions of two tokens, usage told."""
    if call.path.endswith("/models"):
        return models(owned_by=owned_by)
    if not call.is_asked:
        return None
    text = guided(call.body) or "ab"
    part = delta if "chat" in call.path else token
    return stream(part(text[:1]), part(text[1:], finish="stop"), usage(1, 2), DONE)


def as_vllm(call: Call) -> Reply | None:
    """A vLLM server, as far as the probe asks."""
    if call.path == "/version":
        return say(200, {"version": "0.32.0"})
    if call.path.endswith("/models"):
        return models(owned_by="vllm", max_model_len=512)
    if call.path == "/reset_prefix_cache":
        return say(405, {}) if call.method == "GET" else say(200, {"success": True})
    if not call.is_asked:
        return None
    body = call.body
    if "prompt_logprobs" in body:
        places = [None, *({str(each): {"logprob": -0.5 * each}} for each in body["prompt"][1:])]
        return say(200, {"choices": [{"index": 0, "text": "x", "prompt_logprobs": places}]})
    text = guided(body) or "ab"
    return stream(token(text[:1], [7]), token(text[1:], [8, 9], finish="stop"), usage(1, 3), DONE)


class ScriptedServer:
    """answer: what each call gets; what it leaves (None) is not found. calls: those that came."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.calls: list[Call] = []
        self.port = 0
        self.open_now = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def asked(self) -> list[Call]:
        """A test's own calls for an answer."""
        return [call for call in self.calls if is_of_a_test(call)]

    def close(self) -> None:
        self.stop_listening()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def stop_listening(self) -> None:
        """Refuses every further connection, and ends those that stand."""

        async def stop() -> None:
            assert self._server is not None
            self._server.close()
            for writer in list(self._writers):
                writer.close()

        asyncio.run_coroutine_threadsafe(stop(), self._loop).result(10)

    def listen_again(self) -> None:
        async def start() -> None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

        asyncio.run_coroutine_threadsafe(start(), self._loop).result(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._writers: set[asyncio.StreamWriter] = set()

        async def start() -> None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
            self.port = self._server.sockets[0].getsockname()[1]

        self._loop.run_until_complete(start())
        self._ready.set()
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while (call := await self._call(reader)) is not None:
                self.calls.append(call)
                reply = self.answer(call) or say(404, {"error": "not found"})
                self.open_now += 1
                try:
                    await self._reply(writer, reply)
                finally:
                    self.open_now -= 1
                if reply.cut:
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _call(self, reader: asyncio.StreamReader) -> Call | None:
        line = await reader.readline()
        if not line:
            return None
        method, path, _ = line.decode().split(" ", 2)
        headers: dict[str, str] = {}
        while (header := (await reader.readline()).decode().strip()) != "":
            name, _, value = header.partition(":")
            headers[name.lower()] = value.strip()
        content = await reader.readexactly(int(headers.get("content-length", "0")))
        return Call(method=method, path=path, headers=headers, content=content, at=time.monotonic())

    async def _reply(self, writer: asyncio.StreamWriter, reply: Reply) -> None:
        headers = {"Transfer-Encoding": "chunked", **reply.headers}
        head = f"HTTP/1.1 {reply.status} Said\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(head.encode() + b"\r\n")
        for wait_s, part in reply.parts:
            if wait_s:
                await asyncio.sleep(wait_s)
            writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            await writer.drain()
        if not reply.cut:
            writer.write(b"0\r\n\r\n")
            await writer.drain()


@contextmanager
def serving(answer: Answer) -> Iterator[ScriptedServer]:
    server = ScriptedServer(answer)
    try:
        yield server
    finally:
        server.close()


def in_turn(*replies: Reply, rest: Answer = as_openai) -> Answer:
    """These replies to a test's own calls for an answer, in turn; the last one to all further ones. The probe's calls
    get what `rest` says."""
    left = list(replies)

    def answer(call: Call) -> Reply | None:
        if not is_of_a_test(call):
            return rest(call)
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


def is_of_a_test(call: Call) -> bool:
    """Not one of the probe's: a test's requests have a prompt of their own."""
    return b"asked by a test" in call.content or b'"prompt":[1,2,3,4]' in call.content
