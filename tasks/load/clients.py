"""Several clients as one server: for a load that one process alone cannot send, or read the answers of.

Every client has its part of the requests, dealt in turns; the turns of one conversation go to the same one. Those of
this machine are processes that stamp with its one monotonic clock; those of others bring their own (tasks/load/clocks).
"""

import socket as sockets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Protocol

import msgspec
import zmq

from schemas.errors import EngineError
from tasks.engine.client import EngineClient
from tasks.engine.failure import EngineDied
from tasks.engine.protocol import Steps, WireRequest, WireResult
from tasks.load.elsewhere import ClientElsewhere, differing

_LOOK_MS = 200
_CLOCK_S = 0.001
_AT_A_TIME = 16
BUILD_S = 120.0
"""How long a client elsewhere may take to look at the server."""

SessionOf = Callable[[WireRequest], str | None]


def conversation(request: WireRequest) -> str | None:
    """The conversation that a request is a turn of, by its id: what stands before a point; None where there is none."""
    session, point, _ = request.request_id.rpartition(".")
    return session if point else None


class Client(Protocol):
    """What a client must do, wherever it is; see EngineClient and ClientElsewhere."""

    @property
    def socket(self) -> "zmq.Socket[bytes]": ...

    @property
    def silent_s(self) -> float: ...

    def submit(self, requests: list[WireRequest]) -> None: ...

    def arrived(self) -> Iterator[WireResult]: ...

    def take_steps(self) -> list[Steps]: ...

    def abort_all(self) -> None: ...

    def hung(self, why: str) -> EngineDied: ...


class Clients:
    """The clients, all of them built, as a `Server` (tasks/load/send.py): processes of this machine, then those of
    others. session_of: a request's conversation, None for one that belongs to none."""

    def __init__(
        self,
        here: Sequence[EngineClient],
        elsewhere: Sequence[ClientElsewhere] = (),
        *,
        session_of: SessionOf = conversation,
    ) -> None:
        if not here:
            raise ValueError("there is no client")
        self._here, self._elsewhere = list(here), list(elsewhere)
        self._clients: list[Client] = [*here, *elsewhere]
        own = sockets.gethostname()
        self._names = [*(f"{own}/{n}" for n in range(1, len(here) + 1)), *(client.name for client in elsewhere)]
        self._session_of = session_of
        self._turn = 0
        self._poller = zmq.Poller()
        for socket in {client.socket for client in self._clients}:
            self._poller.register(socket, zmq.POLLIN)
        self._asked: dict[str, tuple[int, float]] = {}
        """By request: which process has it, and when that got it."""
        self._in_flight: Counter[int] = Counter()
        self._sessions: dict[str, int] = {}

    def submit(self, requests: list[WireRequest]) -> None:
        """Deals requests out. Raises EngineDied for a process that takes none."""
        parts: dict[int, list[WireRequest]] = {}
        for request in requests:
            parts.setdefault(self._chosen(request), []).append(request)
        for number, part in parts.items():
            now = time.monotonic()
            self._asked |= {request.request_id: (number, now) for request in part}
            self._in_flight[number] += len(part)
            with self._numbered(number):
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
            # One elsewhere may have been given its messages while another was asked: they share a socket.
            there = any(client.has_come for client in self._elsewhere)
            ready = dict(self._poller.poll(0 if there else max(0, int(min(_LOOK_MS, left_ms)))))
            for number, client in enumerate(self._clients):
                # Where nothing came, all are asked: one that died says nothing.
                if there or not ready or client.socket in ready:
                    with self._numbered(number):
                        arrived = list(client.arrived())
                    for result in arrived:
                        came = True
                        yield self._told(number, result)
            if left_ms <= 0:
                return

    @contextmanager
    def _numbered(self, number: int) -> Iterator[None]:
        """Says of one that died which one it was."""
        try:
            yield
        except EngineDied as died:
            if len(self._clients) == 1:
                raise
            raise died.after(f"it was client {number + 1} of {len(self._clients)}") from died

    def _told(self, number: int, result: WireResult) -> WireResult:
        """The result, with who sent it and how long the request took to get there."""
        asked = self._asked.pop(result.request_id, None)
        if asked is None:
            return result
        self._in_flight[number] -= 1
        _, submitted_at = asked
        received_at = time.monotonic()
        off_s = _CLOCK_S if result.clock_error_ms is None else _CLOCK_S + result.clock_error_ms / 1000
        if not submitted_at - off_s <= result.sent_at <= result.finished_at <= received_at + off_s:
            times = [f"{moment:.6f} s" for moment in (submitted_at, result.sent_at, result.finished_at, received_at)]
            raise EngineError(
                f"client {number + 1} of {len(self._clients)} ({self._names[number]}) has another clock than this "
                f"process: a request was given to it at {times[0]}, sent at {times[1]}, answered at {times[2]}, and "
                f"came back at {times[3]}"
            )
        return msgspec.structs.replace(
            result, client=self._names[number], handed_ms=(result.sent_at - submitted_at) * 1000
        )

    def take_steps(self) -> list[Steps]:
        """What all of them told of their steps since this was last asked."""
        return [steps for client in self._clients for steps in client.take_steps()]

    def reset_prefix_cache(self) -> None:
        """Has the server behind them forget its prefixes: one of them says so. Only between requests."""
        self._here[0].reset_prefix_cache()

    def abort_all(self) -> None:
        """Stops whatever runs; what had already finished still comes."""
        self._asked.clear()
        self._in_flight.clear()
        for client in self._clients:
            client.abort_all()

    @property
    def pids(self) -> list[int]:
        """The supervisors' ids, one for each process of this machine."""
        return [client.pid for client in self._here]

    @property
    def silent_s(self) -> float:
        """Seconds since the most silent of those that have work last said anything; 0 where none has any."""
        return self._most_silent().silent_s if any(self._in_flight.values()) else 0.0

    def hung(self, why: str) -> EngineDied:
        """The error for a process that lives and says nothing. why: how that was noticed."""
        return self._most_silent().hung(why)

    def _most_silent(self) -> Client:
        return max(
            (client for number, client in enumerate(self._clients) if self._in_flight[number] > 0),
            key=lambda client: client.silent_s,
            default=self._clients[0],
        )


@contextmanager
def beside(
    first: EngineClient, *, n: int, elsewhere: Sequence[ClientElsewhere] = (), session_of: SessionOf = conversation
) -> Iterator[Clients]:
    """n processes: one that stands, and others that are built as it was and end with this; and those that came from
    other machines, which are built here too.

    Of an endpoint, the first one alone reads the server's own metrics: they are of the whole server. Raises ValueError
    where the first is not built, EngineDied, with its log's end, where another cannot be, and EngineError where one
    elsewhere finds another server."""
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
        for client in elsewhere:
            found = client.build(model=standing.model, options=options, timeout_s=BUILD_S)
            if others := differing(standing.built.resolved, found.resolved):
                raise EngineError(
                    f"the client {client.name} finds another server than this machine: {'; '.join(others)}"
                )
        yield Clients([first, *more], elsewhere, session_of=session_of)
