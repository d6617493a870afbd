"""What asking a server adds to a load: an open load through the endpoint's process against a server that answers by a
script and writes down when each call came and when its first token left.

    python -m tests.bench.endpoint [--rate 200] [--seconds 30] [--tokens 50] [--ttft-ms 20] [--tpot-ms 10]
        [--elsewhere 1]

--elsewhere: so many further clients whose clock is another one (time namespaces of Linux), hours ahead. The server's
clock is this machine's, so that their times are checked: the clock error as it is said, and by how much a time was
stamped earlier than it can have been.

late: from when a request was due to when it was sent. added to ttft: from when it was due to its arrival at the server,
and from its first token's leaving there to its stamp here: all that is not the server's. Exit code 1 where the p99 of
either is above 5 ms.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

import numpy as np

from tasks.engine.client import EngineClient
from tasks.engine.protocol import WireRequest, WireSampling
from tasks.engine.settings import ProcessSettings
from tasks.engine.ticket import VARIABLE
from tasks.load.arrivals import Stretch, due, gaps
from tasks.load.clients import Clients, beside
from tasks.load.elsewhere import ClientElsewhere, Meeting
from tasks.load.send import Planned, send
from tests.machines import elsewhere

MOST_MS = 5.0
_NUMBER = re.compile(rb'"prompt":\[(\d+)')
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_REST = '"id":"cmpl-0123456789abcdef","object":"text_completion","created":1,"model":"tiny"'
FIRST_NUMBER = 100
"""Of the measured requests, in their prompt's first token: the probe's are below."""


def _chunk(text: str) -> bytes:
    return f"{len(text):x}\r\n{text}\r\n".encode()


def _event(token: int, finish: str) -> bytes:
    choice = f'{{"index":0,"text":" word","logprobs":null,"finish_reason":{finish},"token_ids":[{token}]}}'
    return _chunk(f'data: {{{_REST},"choices":[{choice}]}}\n\n')


_TOKEN, _LAST = _event(7, "null"), _event(8, '"length"')
_END = _chunk("data: [DONE]\n\n") + b"0\r\n\r\n"


class Scripted(asyncio.Protocol):
    """One connection: each call gets its tokens when they are due."""

    def __init__(self, *, tokens: int, ttft_s: float, tpot_s: float, times: dict[int, list[float]]) -> None:
        self._tokens, self._ttft_s, self._tpot_s, self._times = tokens, ttft_s, tpot_s, times
        self._came = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._loop = asyncio.get_running_loop()

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        self._came += data
        head, found, rest = self._came.partition(b"\r\n\r\n")
        if not found:
            return
        length = re.search(rb"content-length: (\d+)", head.lower())
        size = int(length[1]) if length else 0
        if len(rest) < size:
            return
        self._came = b""
        if head.startswith(b"GET"):
            self._get(head)
            return
        number = _NUMBER.search(rest)
        self._times[int(number[1]) if number else 0] = [now, 0.0]
        due_at = self._loop.time() + self._ttft_s
        self._loop.call_at(due_at, self._give, int(number[1]) if number else 0, 0, due_at)

    def _give(self, number: int, given: int, due_at: float) -> None:
        if not given:
            self._times[number][1] = time.monotonic()
            self._transport.write(_HEAD)
        if given + 1 >= self._tokens:
            self._transport.write(_LAST + _END)
            return
        self._transport.write(_TOKEN)
        self._loop.call_at(due_at + self._tpot_s, self._give, number, given + 1, due_at + self._tpot_s)

    def _get(self, head: bytes) -> None:
        path = head.split(b" ")[1]
        said, status = json.dumps({"data": [{"id": "tiny", "owned_by": "vllm"}]}), "200 OK"
        if path == b"/version":
            said = json.dumps({"version": "0.32.0"})
        elif path == b"/times":
            said = json.dumps(self._times)
        elif path != b"/v1/models":
            said, status = "{}", "404 Not Found"
        self._transport.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(said)}\r\n\r\n{said}".encode())


def serve(tell: Connection, tokens: int, ttft_s: float, tpot_s: float) -> None:
    """The server's process, until it is ended. tell: gets its port."""
    times: dict[int, list[float]] = {}

    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: Scripted(tokens=tokens, ttft_s=ttft_s, tpot_s=tpot_s, times=times), "127.0.0.1", 0, backlog=1000
        )
        tell.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run())


@contextlib.contextmanager
def served(*, tokens: int, ttft_s: float, tpot_s: float) -> Iterator[str]:
    """The server in a process of its own; its address."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, tokens, ttft_s, tpot_s))
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        process.terminate()
        process.join()


def _machines(stack: contextlib.ExitStack, n: int) -> list[ClientElsewhere]:
    """Clients on what looks like other machines."""
    meeting = stack.enter_context(Meeting(address="127.0.0.1"))
    environment = {**os.environ, VARIABLE: meeting.ticket.text()}
    for number in range(1, n + 1):
        command = [sys.executable, "-m", "tasks.engine.endpoint", meeting.address, "0.0"]
        process = subprocess.Popen(elsewhere(f"bench-{number}", *command, ahead_s=3600 * number), env=environment)
        stack.callback(process.kill)
    return meeting.gather(n, within_s=60, say=lambda *_: None, look=lambda: None)


def main() -> int:
    """Runs it and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--tokens", type=int, default=50)
    parser.add_argument("--ttft-ms", type=float, default=20.0)
    parser.add_argument("--tpot-ms", type=float, default=10.0)
    parser.add_argument("--elsewhere", type=int, default=0)
    asked = parser.parse_args()
    arrivals = due(
        [Stretch(start=asked.rate, end=asked.rate, seconds=asked.seconds)], gaps("poisson", random=Random(0))
    )
    sampling = WireSampling(temperature=0.0, max_tokens=asked.tokens)
    plan = [
        Planned(
            request=WireRequest(
                request_id=str(number),
                prompt_token_ids=[FIRST_NUMBER + number, *range(255)],
                sampling=sampling,
            ),
            due_s=at,
        )
        for number, at in enumerate(arrivals)
    ]
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(served(tokens=asked.tokens, ttft_s=asked.ttft_ms / 1000, tpot_s=asked.tpot_ms / 1000))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings = ProcessSettings(cores=(), program="endpoint")
        client = stack.enter_context(EngineClient(log_path=folder / "endpoint.log", settings=settings))
        client.build(model="tiny", options={"url": url})
        asks: EngineClient | Clients = client
        if asked.elsewhere:
            asks = stack.enter_context(beside(client, n=1, elsewhere=_machines(stack, asked.elsewhere)))
        began = time.process_time()
        sent = send(asks, plan)
        used = time.process_time() - began
        with urllib.request.urlopen(f"{url}/times") as said:
            times = json.load(said)
    failed = [result.error for _, result in sent.answered if result.error is not None]
    if failed or sent.left:
        sys.exit(f"{len(failed)} failed, {len(sent.left)} were not answered: {failed[:1]}")
    late, out, back, added, each = [], [], [], [], []
    error: list[float] = []
    early: list[float] = []
    for one, result in sent.answered:
        came, left = times[str(FIRST_NUMBER + int(result.request_id))]
        assert one.planned_at is not None and result.first_token_at is not None
        late.append(one.late_ms + (0.0 if result.handed_ms is None else result.handed_ms))
        if result.clock_error_ms is not None:
            error.append(result.clock_error_ms)
            early.append(max(0.0, (left - result.first_token_at) * 1000, (result.sent_at - came) * 1000))
        out.append((came - one.planned_at) * 1000)
        back.append((result.first_token_at - left) * 1000)
        added.append(out[-1] + back[-1])
        each += [gap - asked.tpot_ms for gap in result.gaps_ms]
    print(
        f"{len(plan)} requests, {asked.rate:g} a second, {asked.tokens} tokens each; the flow used {used:.1f} s of CPU"
    )
    rows = {
        "late": late,
        "on the way out": out,
        "on the way back": back,
        "added to ttft": added,
        "added to a gap": each,
    }
    if error:
        rows |= {"clock error, said": error, "stamped too early": early}
    for name, values in rows.items():
        p50, p99, most = np.percentile(values, [50, 99, 100])
        print(f"{name:<18}p50 {p50:6.2f} ms  p99 {p99:6.2f} ms  max {most:6.2f} ms")
    return 0 if max(np.percentile(late, 99), np.percentile(added, 99)) <= MOST_MS else 1


if __name__ == "__main__":
    sys.exit(main())
