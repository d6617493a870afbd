"""Several engine processes as one server: for a load that one process alone cannot send, or read the answers of.

Every process has its part of the requests, dealt in turns; the turns of one conversation go to the same one. They are
processes of this machine, and stamp with its one monotonic clock.
"""

import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
import zmq

from schemas.errors import EngineError
from tasks.engine.client import EngineClient
from tasks.engine.failure import EngineDied
from tasks.engine.protocol import Steps, WireRequest, WireResult

_LOOK_MS = 200
_CLOCK_S = 0.001
_AT_A_TIME = 16

SessionOf = Callable[[WireRequest], str | None]


def conversation(request: WireRequest) -> str | None:
    """The conversation that a request is a turn of, by its id: what stands before a point; None where there is none."""
    session, point, _ = request.request_id.rpartition(".")
    return session if point else None


@dataclass(frozen=True, kw_only=True)
class Lateness:
    """How long after it was handed over a process sent a request, of all that one process answered. client: which one,
    from 1."""

    client: int
    requests: int
    p50_ms: float
    p99_ms: float
    most_ms: float


class Clients:
    """The processes, all of them built, as a `Server` (tasks/load/send.py). session_of: a request's conversation, None
    for one that belongs to none."""

    def __init__(self, clients: Sequence[EngineClient], *, session_of: SessionOf = conversation) -> None:
        if not clients:
            raise ValueError("there is no client")
        self._clients = list(clients)
        self._session_of = session_of
        self._turn = 0
        self._poller = zmq.Poller()
        for client in self._clients:
            self._poller.register(client.socket, zmq.POLLIN)
        self._asked: dict[str, tuple[int, float]] = {}
        """By request: which process has it, and when that got it."""
        self._in_flight: Counter[int] = Counter()
        self._sessions: dict[str, int] = {}
        self._late_ms = [array("d") for _ in self._clients]

    def submit(self, requests: list[WireRequest]) -> None:
        """Deals requests out. Raises EngineDied for a process that takes none."""
        parts: dict[int, list[WireRequest]] = {}
        for request in requests:
            parts.setdefault(self._chosen(request), []).append(request)
        for number, part in parts.items():
            now = time.monotonic()
            self._asked |= {request.request_id: (number, now) for request in part}
            self._in_flight[number] += len(part)
            self._clients[number].submit(part)

    def _chosen(self, request: WireRequest) -> int:
        session = self._session_of(request)
        if session is not None and session in self._sessions:
            return self._sessions[session]
        number = self._turn
        self._turn = (number + 1) % len(self._clients)
        if session is not None:
            self._sessions[session] = number
        return number

    def results(self, *, wait_s: float) -> Iterator[WireResult]:
        """The results that are there or come within wait_s, the first ones at once.

        Raises EngineDied as soon as one process has died, and EngineError where one has another clock."""
        end = time.monotonic() + wait_s
        came = False
        while not came:
            left_ms = (end - time.monotonic()) * 1000
            ready = dict(self._poller.poll(max(0, int(min(_LOOK_MS, left_ms)))))
            for number, client in enumerate(self._clients):
                # Where nothing came, all are asked: one that died says nothing.
                if not ready or client.socket in ready:
                    for result in self._arrived(number):
                        came = True
                        yield result
            if left_ms <= 0:
                return

    def _arrived(self, number: int) -> Iterator[WireResult]:
        try:
            for result in self._clients[number].arrived():
                self._note(number, result)
                yield result
        except EngineDied as died:
            if len(self._clients) == 1:
                raise
            raise died.after(f"it was client {number + 1} of {len(self._clients)}") from died

    def _note(self, number: int, result: WireResult) -> None:
        asked = self._asked.pop(result.request_id, None)
        if asked is None:
            return
        self._in_flight[number] -= 1
        _, submitted_at = asked
        received_at = time.monotonic()
        if not submitted_at - _CLOCK_S <= result.sent_at <= result.finished_at <= received_at + _CLOCK_S:
            times = [f"{moment:.6f} s" for moment in (submitted_at, result.sent_at, result.finished_at, received_at)]
            raise EngineError(
                f"client {number + 1} of {len(self._clients)} has another clock than this process: a request was given "
                f"to it at {times[0]}, sent at {times[1]}, answered at {times[2]}, and came back at {times[3]}"
            )
        self._late_ms[number].append((result.sent_at - submitted_at) * 1000)

    def take_lateness(self) -> list[Lateness]:
        """How late each process was since this was last asked; none of one that answered nothing."""
        found = []
        for number, late_ms in enumerate(self._late_ms):
            if late_ms:
                p50, p99, most = np.percentile(late_ms, [50, 99, 100])
                found.append(
                    Lateness(
                        client=number + 1,
                        requests=len(late_ms),
                        p50_ms=float(p50),
                        p99_ms=float(p99),
                        most_ms=float(most),
                    )
                )
        self._late_ms = [array("d") for _ in self._clients]
        return found

    def take_steps(self) -> list[Steps]:
        """What all of them told of their steps since this was last asked."""
        return [steps for client in self._clients for steps in client.take_steps()]

    def reset_prefix_cache(self) -> None:
        """Has the server behind them forget its prefixes: one of them says so. Only between requests."""
        self._clients[0].reset_prefix_cache()

    def abort_all(self) -> None:
        """Stops whatever runs; what had already finished still comes."""
        self._asked.clear()
        self._in_flight.clear()
        for client in self._clients:
            client.abort_all()

    @property
    def pids(self) -> list[int]:
        """The supervisors' ids, one for each process."""
        return [client.pid for client in self._clients]

    @property
    def silent_s(self) -> float:
        """Seconds since the most silent of those that have work last said anything; 0 where none has any."""
        return self._most_silent().silent_s if any(self._in_flight.values()) else 0.0

    def hung(self, why: str) -> EngineDied:
        """The error for a process that lives and says nothing. why: how that was noticed."""
        return self._most_silent().hung(why)

    def _most_silent(self) -> EngineClient:
        return max(
            (client for number, client in enumerate(self._clients) if self._in_flight[number] > 0),
            key=lambda client: client.silent_s,
            default=self._clients[0],
        )


@contextmanager
def beside(first: EngineClient, *, n: int, session_of: SessionOf = conversation) -> Iterator[Clients]:
    """n processes: one that stands, and others that are built as it was and end with this.

    Of an endpoint, the first one alone reads the server's own metrics: they are of the whole server. Raises ValueError
    where the first is not built, and EngineDied, with its log's end, where another cannot be."""
    standing, log = first.standing, first.log_path
    if standing is None:
        raise ValueError("the first client is not built")
    options = dict(standing.options)
    if first.settings.program == "endpoint":
        options["metrics"] = False
    with ExitStack() as stack:
        more: list[EngineClient] = []
        for number in range(2, n + 1):
            path = log.with_name(f"{log.stem}.client-{number}{log.suffix}")
            more.append(EngineClient(log_path=path, settings=first.settings))
            stack.callback(more[-1].close)
        with ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="clients") as pool:
            for built in [pool.submit(client.build, model=standing.model, options=options) for client in more]:
                built.result()
        yield Clients([first, *more], session_of=session_of)
