"""The engine of a run as a load sends to it."""

from collections.abc import Iterator

from tasks.engine.client import EngineClient
from tasks.engine.protocol import WireRequest, WireResult
from tasks.engine.pulse import Pulse
from tasks.load.clients import Clients


class Attended:
    """One engine, or several clients of one, and whether it still works looked at meanwhile."""

    def __init__(self, server: EngineClient | Clients, pulse: Pulse) -> None:
        self._server = server
        self._pulse = pulse

    def submit(self, requests: list[WireRequest]) -> None:
        self._server.submit(requests)

    def results(self, *, wait_s: float) -> Iterator[WireResult]:
        yield from self._server.results(wait_s=wait_s)

    def look(self, *, in_flight: int) -> None:
        """Raises EngineDied for an engine that has work and has hung."""
        why = self._pulse.stopped(self._server.silent_s) if in_flight else None
        if why is not None:
            raise self._server.hung(why)
