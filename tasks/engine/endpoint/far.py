"""A client whose run is on another machine: how it gets there, and how it learns that the run is gone."""

import asyncio
import os
import time

import zmq
from zmq.utils.monitor import parse_monitor_message

from tasks.engine.ticket import VARIABLE, Ticket

HEARTBEAT_MS = 2_000
LOST_AFTER_MS = 15_000
"""Without a sign of life for so long the other end is taken for gone. Signs are ZeroMQ's own, whatever Python does."""
REACH_S = 60.0
"""How long it is tried to reach the run."""
_LOOK_S = 0.2
_EVENTS = (
    zmq.Event.HANDSHAKE_SUCCEEDED
    | zmq.Event.DISCONNECTED
    | zmq.Event.HANDSHAKE_FAILED_AUTH
    | zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
    | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
)


def is_far(address: str) -> bool:
    """Whether the address is one of a run on another machine."""
    return address.startswith("tcp://")


class Connection:
    """The way to the run, from before its socket connects. Raises BadTicket for an environment without a ticket."""

    def __init__(self, socket: "zmq.Socket[bytes]", address: str) -> None:
        ticket = Ticket.read(os.environ.get(VARIABLE, ""))
        socket.curve_serverkey, socket.curve_publickey, socket.curve_secretkey = (
            ticket.server,
            ticket.public,
            ticket.secret,
        )
        socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, LOST_AFTER_MS)
        self._address = address
        self._socket = socket
        self._monitor = socket.get_monitor_socket(_EVENTS)
        self._began = time.monotonic()
        self._stands = False

    async def until_lost(self) -> str:
        """Waits until the run is gone, or was never reached; says which in a line."""
        refused = False
        while True:
            while self._monitor.poll(0):
                event = parse_monitor_message(self._monitor.recv_multipart())["event"]
                if event == zmq.Event.HANDSHAKE_SUCCEEDED:
                    self._stands = True
                elif event == zmq.Event.DISCONNECTED and self._stands:
                    return f"the run at {self._address} is gone"
                elif event != zmq.Event.DISCONNECTED:
                    refused = True
            if not self._stands and time.monotonic() - self._began > REACH_S:
                why = "refuses this ticket: it is another run's" if refused else "does not answer (a firewall?)"
                return f"the run at {self._address} {why}"
            await asyncio.sleep(_LOOK_S)

    def close(self) -> None:
        """Ends the watching; the socket is closed by who made it."""
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
