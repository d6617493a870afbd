"""Clients on other machines: where they come to, and each of them as this end has it.

Each speaks the engine process's protocol over one encrypted port of this machine. What it stamps with its own clock is
turned into this one's as it comes; by how much that can be wrong goes with it.
"""

import contextlib
import math
import socket as sockets
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec
import zmq
from zmq.auth.thread import ThreadAuthenticator

from schemas.address import is_loopback
from schemas.errors import EngineError
from tasks.engine import protocol
from tasks.engine.endpoint.far import HEARTBEAT_MS, LOST_AFTER_MS
from tasks.engine.failure import EngineDied, How
from tasks.engine.ticket import Ticket
from tasks.load.clocks import Clocks
from tasks.record.host import version_of

ASK_CLOCK_S = 0.25
"""How often a clock is asked while there is work."""
_FIRST_READINGS = 20
_SILENT_S = 10.0
"""A client whose clock does not answer for so long is gone: it answers before anything else."""
_LOOK_S = 0.2
_MUST_AGREE = ("model", "api", "dialect", "server_version", "prompts", "max_model_len")
_TIMES = ("sent_at", "finished_at", "first_token_at", "first_text_at", "last_token_at")


def address_towards(url: str) -> str:
    """The address of this machine that one at this URL sees. Raises EngineError where there is no way to it."""
    parts = urlsplit(url)
    host = parts.hostname or url
    try:
        family, kind, _, _, target = sockets.getaddrinfo(host, parts.port or 80, type=sockets.SOCK_DGRAM)[0]
        with sockets.socket(family, kind) as probe:
            probe.connect(target)  # of a datagram's socket: looks up the route, sends nothing
            return str(probe.getsockname()[0])
    except OSError as error:
        raise EngineError(f"there is no way to {host} ({error.strerror or error})") from error


class Meeting:
    """The port that clients on other machines come to. A context manager: leaving it sends all of them home.

    address: this machine's, as they reach it; port: 0 takes any that is free. Raises EngineError for a port that is
    taken."""

    def __init__(self, *, address: str, port: int = 0) -> None:
        self.ticket, secret = Ticket.new()
        self._context = zmq.Context()
        self._guard = ThreadAuthenticator(self._context)
        self._guard.start()
        self._guard.configure_curve_callback(credentials_provider=self)
        self.socket = self._context.socket(zmq.ROUTER)
        for option, value in (
            (zmq.LINGER, 2000),
            (zmq.SNDHWM, 0),
            (zmq.RCVHWM, 0),
            (zmq.IPV6, 1),
            (zmq.ROUTER_MANDATORY, 1),
            (zmq.HEARTBEAT_IVL, HEARTBEAT_MS),
            (zmq.HEARTBEAT_TIMEOUT, LOST_AFTER_MS),
            (zmq.CURVE_SERVER, 1),
        ):
            self.socket.setsockopt(option, value)
        self.socket.curve_secretkey = secret
        # Whoever is let in has the ticket, so that it may listen on all of this machine's addresses; but not where the
        # clients are on this machine themselves.
        bound = "*" if not is_loopback(address) else "127.0.0.1" if address == "localhost" else address
        try:
            self.socket.bind(f"tcp://{_bracketed(bound)}:{port or '*'}")
        except zmq.ZMQError as error:
            self._end()
            raise EngineError(f"the port {port} that clients should come to cannot be used ({error})") from error
        self.port = int(self.socket.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])
        self.address = f"tcp://{_bracketed(address)}:{self.port}"
        self._came: dict[bytes, ClientElsewhere] = {}
        self._of_host: Counter[str] = Counter()

    def callback(self, domain: str, key: bytes) -> bool:
        """Whether a client with this public key is let in; the authenticator asks."""
        return key == self.ticket.public

    def __enter__(self) -> "Meeting":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def gather(
        self, n: int, *, within_s: float, say: Callable[[int, int], None], look: Callable[[], None]
    ) -> "list[ClientElsewhere]":
        """Waits until n have come. say: how many of how many are there, whenever it is one more. look: is called all
        the while, and may raise.

        Raises EngineError where they have not come in time, or one is of another version."""
        end = time.monotonic() + within_s
        say(0, n)
        while (here := len(self._came)) < n:
            left_s = end - time.monotonic()
            if left_s <= 0:
                came = ", ".join(client.name for client in self._came.values()) or "none"
                raise EngineError(
                    f"{here} of {n} clients on other machines came to {self.address} within {within_s:.0f} s ({came}): "
                    "does `assay worker clients` run on each, and do they reach this address?"
                )
            self.socket.poll(int(1000 * min(_LOOK_S, left_s)), zmq.POLLIN)
            self.pump()
            if len(self._came) > here:
                say(len(self._came), n)
            look()
        return list(self._came.values())

    def pump(self) -> None:
        """Gives each client what has come of it."""
        while self.socket.poll(0, zmq.POLLIN):
            identity, data = self.socket.recv_multipart()
            heard_at = time.monotonic()
            try:
                message = protocol.decode_from_engine(data)
            except msgspec.ValidationError as error:
                raise EngineError(f"a client on another machine speaks another language ({error})") from error
            client = self._came.get(identity)
            if client is not None:
                client.take(message, heard_at)
            elif isinstance(message, protocol.Hello):
                self._come(identity, message)

    def _come(self, identity: bytes, hello: protocol.Hello) -> None:
        host = hello.host or "unknown"
        own, theirs = version_of("assay"), hello.versions.get("assay")
        if own != theirs:
            raise EngineError(f"the client on {host} has assay {theirs}, this run {own}: install the same on both")
        self._of_host[host] += 1
        self._came[identity] = ClientElsewhere(self, identity, name=f"{host}/{self._of_host[host]}")

    def send(self, identity: bytes, message: protocol.ToEngine) -> None:
        """Raises zmq.ZMQError where that client is gone."""
        self.socket.send_multipart([identity, protocol.encode(message)])

    def close(self) -> None:
        """Sends all home, and closes the port."""
        for client in self._came.values():
            client.close()
        self._end()

    def _end(self) -> None:
        self.socket.close()
        self._guard.stop()
        self._context.term()


class ClientElsewhere:
    """One client on another machine. name: of its machine, and which one there it is."""

    def __init__(self, meeting: Meeting, identity: bytes, *, name: str) -> None:
        self.name = name
        self._meeting = meeting
        self._identity = identity
        self._inbox: deque[protocol.FromEngine] = deque()
        self._clocks = Clocks()
        self._asked: dict[int, float] = {}
        """When its clock was asked, by the question's number, where that was not answered yet."""
        self._questions = 0
        self._asked_at = -math.inf
        self._heard_at = time.monotonic()

    @property
    def socket(self) -> "zmq.Socket[bytes]":
        return self._meeting.socket

    @property
    def silent_s(self) -> float:
        """Seconds since it last said anything."""
        return time.monotonic() - self._heard_at

    @property
    def has_come(self) -> bool:
        """Whether something of it is there that was not asked for yet."""
        return bool(self._inbox)

    def take(self, message: protocol.FromEngine, heard_at: float) -> None:
        """Keeps what came of it until it is asked for."""
        self._heard_at = heard_at
        match message:
            case protocol.Clock(number=number, at=reading):
                asked_at = self._asked.pop(number, None)
                if asked_at is not None:
                    self._clocks.told(reading=reading, asked_at=asked_at, heard_at=heard_at)
            case _:
                self._inbox.append(message)

    def build(self, *, model: str, options: dict[str, Any], timeout_s: float) -> protocol.Built:
        """Has it find the server, and asks its clock. Raises EngineDied where it finds none."""
        while_ = "looking at the server"
        self._send(protocol.Build(model=model, options=options))
        self._wait(lambda: self.has_come, timeout_s=timeout_s, while_=while_)
        built = self._next()
        if not isinstance(built, protocol.Built):
            raise self._error(f"while {while_}", f"unexpected {type(built).__name__}")
        for _ in range(_FIRST_READINGS):
            self._ask_clock()
            self._wait(lambda: not self._asked, timeout_s=_SILENT_S, while_="telling its clock")
        return built

    def submit(self, requests: list[protocol.WireRequest]) -> None:
        """Hands requests over. Raises EngineDied where it is gone."""
        self._send(protocol.Submit(requests=requests))

    def arrived(self) -> Iterator[protocol.WireResult]:
        """The results that are there, by this machine's clock. Raises EngineDied where it is gone."""
        self._look()
        while self._inbox:
            message = self._next()
            if isinstance(message, protocol.Results):
                for result in message.results:
                    yield self._by_this_clock(result)

    def take_steps(self) -> list[protocol.Steps]:
        """None: the first client alone reads the server's metrics."""
        return []

    def abort_all(self) -> None:
        """Stops whatever runs."""
        self._send(protocol.Abort())

    def close(self) -> None:
        """Sends it home. May be called twice, and of one that is gone."""
        with contextlib.suppress(zmq.ZMQError):
            self._meeting.send(self._identity, protocol.Close())

    def hung(self, why: str) -> EngineDied:
        """The error for one that lives and says nothing."""
        return self._error("while answering", why, how="hung")

    def _look(self) -> None:
        """Takes what came, asks its clock now and then, and raises EngineDied where that does not answer."""
        self._meeting.pump()
        now = time.monotonic()
        oldest = min(self._asked.values(), default=now)
        if now - oldest > _SILENT_S:
            raise self.hung(f"it has said nothing for {now - oldest:.0f} s: its machine, or the way to it, is down")
        if now - self._asked_at >= ASK_CLOCK_S:
            self._ask_clock()

    def _ask_clock(self) -> None:
        self._questions += 1
        self._asked_at = self._asked[self._questions] = time.monotonic()
        self._send(protocol.ReadClock(number=self._questions))

    def _by_this_clock(self, result: protocol.WireResult) -> protocol.WireResult:
        offset = self._clocks.over(result.sent_at, result.finished_at)
        times = {name: getattr(result, name) for name in _TIMES}
        moved = {name: at - offset.seconds for name, at in times.items() if at is not None}
        return msgspec.structs.replace(result, **moved, clock_error_ms=offset.error_s * 1000)

    def _wait(self, done: Callable[[], bool], *, timeout_s: float, while_: str) -> None:
        end = time.monotonic() + timeout_s
        while True:
            self._meeting.pump()
            if done():
                return
            left_s = end - time.monotonic()
            if left_s <= 0:
                raise self._error(f"while {while_}", f"nothing came for {timeout_s:.0f} s", how="timeout")
            self.socket.poll(int(1000 * min(_LOOK_S, left_s)) + 1, zmq.POLLIN)

    def _next(self) -> protocol.FromEngine:
        message = self._inbox.popleft()
        if isinstance(message, protocol.Failed):
            raise self._error(f"in {message.where}", message.message, details=message.traceback)
        return message

    def _send(self, message: protocol.ToEngine) -> None:
        try:
            self._meeting.send(self._identity, message)
        except zmq.ZMQError as error:
            raise self._error("while sending", "its connection is gone", how="exit") from error

    def _error(self, when: str, what: str, *, how: How = "reported", details: str = "") -> EngineDied:
        return EngineDied(f"the client {self.name} failed {when}: {what}", how=how, words=what, details=details)


def differing(own: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """What two clients found different of the server that they ask, in words."""
    return [
        f"{key}: {own.get(key)} here, {theirs.get(key)} there" for key in _MUST_AGREE if own.get(key) != theirs.get(key)
    ]


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address
