"""The null engine's process: `python -m tasks.engine.null SOCKET SPAWNED_AT`, as the worker's, with nothing behind it.

Imports msgspec, zmq and the standard library, nothing of vLLM. Tokens are stamped when they are given, as the worker
does, so that what it was late itself is in its times and not hidden by its script.
"""

import heapq
import itertools
import os
import re
import sys
import time

import zmq

from tasks.engine import protocol
from tasks.engine.null.script import Answer, Script

TOKEN = 1


class Flight:
    """A request on its way."""

    def __init__(self, request: protocol.WireRequest, answer: Answer) -> None:
        self.answer = answer
        self.result = protocol.WireResult(
            request_id=request.request_id,
            token_ids=[],
            text="",
            finish_reason=None,
            stop_reason=None,
            sent_at=time.monotonic(),
            finished_at=0.0,
        )

    def token(self) -> bool:
        """Gives the next token now; whether it was the last."""
        now, result = time.monotonic(), self.result
        if self.answer.error:
            result.error, result.finished_at = "the script has it fail", now
            return True
        if result.last_token_at is None:
            result.first_token_at = result.first_text_at = now
        else:
            result.gaps_ms.append((now - result.last_token_at) * 1000)
            result.gap_tokens.append(1)
        result.last_token_at = result.finished_at = now
        result.token_ids.append(TOKEN)
        if len(result.token_ids) < self.answer.tokens:
            return False
        result.text = "." * len(result.token_ids)
        result.finish_reason = "length"
        return True


class NullLoop:
    """Takes commands, gives tokens when they are due."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        self._script = Script()
        self._first_at: float | None = None
        self._due: list[tuple[float, int, Flight]] = []
        self._order = itertools.count()
        self._finished: list[protocol.WireResult] = []

    def run(self) -> None:
        while True:
            while self._socket.poll(self._wait_ms(), zmq.POLLIN):
                if not self._handle(protocol.decode_to_engine(self._socket.recv())):
                    return
            self._give()
            if self._finished:
                self._send(protocol.Results(results=self._finished))
                self._finished = []

    def _wait_ms(self) -> int:
        """Whole milliseconds until something is due, rounded down: the rest is waited for by looking again."""
        return 1000 if not self._due else max(0, int((self._due[0][0] - time.monotonic()) * 1000))

    def _send(self, message: protocol.FromEngine) -> None:
        self._socket.send(protocol.encode(message))

    def _handle(self, message: protocol.ToEngine) -> bool:
        match message:
            case protocol.Build():
                self._script = Script(**message.options)
                self._send(protocol.Built(resolved=dict(message.options), phases={}, sizes={}))
            case protocol.Submit():
                for request in message.requests:
                    self._take(request)
            case protocol.Abort():
                self._due = []
                self._send(protocol.Done(command="abort"))
            case protocol.ResetPrefixCache():
                self._first_at = None
                self._send(protocol.Done(command="reset_prefix_cache"))
            case protocol.Stats():
                self._send(protocol.StatsReply(counters={}))
            case protocol.CellBegins():
                pass  # it has no steps
            case protocol.Close():
                return False
            case _:
                command = re.sub(r"(?<!^)(?=[A-Z])", "_", type(message).__name__).lower()
                self._send(protocol.Refused(command=command, reason="there is no engine behind"))
        return True

    def _take(self, request: protocol.WireRequest) -> None:
        answer = self._script.answer(request.request_id, max_tokens=request.sampling.max_tokens)
        flight = Flight(request, answer)
        if self._first_at is None:
            self._first_at = flight.result.sent_at
        self._plan(flight, flight.result.sent_at + answer.first_s)

    def _plan(self, flight: Flight, due: float) -> None:
        first = self._first_at if self._first_at is not None else due
        heapq.heappush(self._due, (first + self._script.not_before(due - first), next(self._order), flight))

    def _give(self) -> None:
        """Every token that is due. Each is planned from when the last one was, not from when it was given: lateness
        does not add up."""
        while self._due and self._due[0][0] <= time.monotonic():
            due, _, flight = heapq.heappop(self._due)
            if flight.token():
                self._finished.append(flight.result)
            else:
                self._plan(flight, due + flight.answer.each_s)


def main(address: str) -> int:
    context = zmq.Context()
    socket = context.socket(zmq.PAIR)
    socket.setsockopt(zmq.LINGER, 2000)
    socket.connect(address)
    socket.send(protocol.encode(protocol.Hello(pid=os.getpid(), versions={"null": "1"}, phases={})))
    NullLoop(socket).run()
    socket.close()
    context.term()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
