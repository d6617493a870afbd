"""The process's loop: takes commands, has requests answered, sends what finished."""

import asyncio
import re
import time
from collections.abc import Callable

import aiohttp
import zmq

from schemas.endpoint import EndpointEngine
from tasks.engine import protocol
from tasks.engine.endpoint.again import Circuit
from tasks.engine.endpoint.ask import Asker, Flight
from tasks.engine.endpoint.dialects import Server
from tasks.engine.endpoint.http import Http, in_words
from tasks.engine.endpoint.key import Scrub, read_key
from tasks.engine.endpoint.probe import UNUSABLE, find_base, look
from tasks.engine.endpoint.resolved import resolved
from tasks.engine.endpoint.steps import Readings, counters, read_metrics
from tasks.record.host import version_of

PROGRESS_EVERY_S = 0.4
READ_EVERY_S = 0.5
LOOK_EVERY_S = 0.1
"""How often it is looked who is late."""
_METRICS_S = 5.0


class EndpointLoop:
    """Owns the socket to the flow and the way to the server."""

    def __init__(self, socket: zmq.Socket[bytes], *, phases: dict[str, float], say: Callable[[str], None]) -> None:
        self._socket = socket
        self._phases = phases
        self._say_raw = say
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._commands: asyncio.Queue[protocol.ToEngine] = asyncio.Queue()
        self._flights: dict[str, Flight] = {}
        self._finished: list[protocol.WireResult] = []
        self._flush_planned = False
        self._output_tokens = 0
        self._prompt_tokens = 0
        self._steps = 0
        self._config: EndpointEngine | None = None
        self._server: Server | None = None
        self._http: Http | None = None
        self._asker: Asker | None = None
        self._circuit: Circuit | None = None
        self._readings = Readings()
        self._read_at = 0.0
        self._reading = asyncio.Lock()
        self._unread = False
        """Whether there was work since the metrics were last read."""
        self.scrub = Scrub(None)

    async def run(self) -> None:
        """Until Close. Raises Unusable where the server cannot be used, and whatever else goes wrong in here."""
        tasks = [self._loop.create_task(each) for each in (self._obey(), self._watch(), self._look(), self._read())]
        descriptor = int(self._socket.getsockopt(zmq.FD))
        self._loop.add_reader(descriptor, self._receive)
        self._receive()
        try:
            done, _ = await asyncio.wait([*tasks, self._ended], return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            self._loop.remove_reader(descriptor)
            for task in [*tasks, *(flight.task for flight in self._flights.values() if flight.task is not None)]:
                task.cancel()
            if self._http is not None:
                await self._http.close()

    # ------------------------------------------------------------ the socket

    def _receive(self) -> None:
        """Takes all that has come. ZeroMQ's descriptor tells of a change only once, so it is asked until nothing is
        left, and again after each message that is sent."""
        while self._has_come():
            message = protocol.decode_to_engine(self._socket.recv(zmq.NOBLOCK))
            match message:
                case protocol.ReadClock():
                    self._send(protocol.Clock(number=message.number, at=time.monotonic()))
                case protocol.Submit() if self._asker is not None:
                    for request in message.requests:
                        self._submit(request, self._asker)
                case _:
                    self._commands.put_nowait(message)

    def _has_come(self) -> bool:
        return bool(int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN)

    def _send(self, message: protocol.FromEngine) -> None:
        self._socket.send(protocol.encode(message))
        if self._has_come():
            self._loop.call_soon(self._receive)

    def _say(self, line: str) -> None:
        self._say_raw(self.scrub.words(line))

    # ------------------------------------------------------------ commands

    async def _obey(self) -> None:
        while True:
            message = await self._commands.get()
            match message:
                case protocol.Build():
                    await self._build(message)
                case protocol.Abort():
                    self._abort(message.request_ids)
                case protocol.ResetPrefixCache():
                    await self._forget_prefixes()
                case protocol.Stats():
                    await self._stats()
                case protocol.CellBegins():
                    continue  # a server's steps are read off its counters, none is left out
                case protocol.Close():
                    self._ended.set_result(None)
                    return
                case _:
                    command = re.sub(r"(?<!^)(?=[A-Z])", "_", type(message).__name__).lower()
                    self._send(protocol.Refused(command=command, reason="the engine is a server that others run"))

    async def _build(self, message: protocol.Build) -> None:
        started = time.monotonic()
        config = EndpointEngine.model_validate({**message.options, "kind": "endpoint", "model": message.model})
        key = read_key(config.api_key_env)
        self.scrub = Scrub(key)
        http, models = await find_base(config, key=key)
        self._http = http
        self._server = server = await look(config, http, models, say=self._say, phases=self._phases)
        self._config, self._circuit = config, Circuit(config.breaker)
        self._asker = Asker(
            config=config, server=server, http=http, circuit=self._circuit, deliver=self._deliver, say=self._say
        )
        if server.metrics:
            await self._read_once()
        self._phases["build_s"] = time.monotonic() - started
        self._send(protocol.Built(resolved=resolved(config, server, http), phases=dict(self._phases), sizes={}))

    def _submit(self, request: protocol.WireRequest, asker: Asker) -> None:
        assert self._config is not None  # noqa: S101 - an asker comes with one
        flight = Flight(request, total_s=self._config.timeouts.total_s)
        self._flights[request.request_id] = flight
        self._unread = True
        self._prompt_tokens += len(request.prompt_token_ids)
        flight.task = self._loop.create_task(asker.answer(flight))

    def _abort(self, request_ids: list[str]) -> None:
        for request_id in request_ids or list(self._flights):
            flight = self._flights.pop(request_id, None)
            if flight is not None and flight.task is not None:
                flight.task.cancel()
        self._send(protocol.Done(command="abort"))

    async def _forget_prefixes(self) -> None:
        """And what was counted: whoever asks next begins anew."""
        command, server, http = "reset_prefix_cache", self._server, self._http
        self._output_tokens = self._prompt_tokens = 0
        if server is None or http is None:
            self._send(protocol.Refused(command=command, reason="nothing is built"))
            return
        await self._read_the_rest()
        if not server.resets:
            reason = f"the server has no call for it ({server.dialect.name})"
            if server.dialect.name == "vllm":
                reason = "a vLLM server has a call for it only where VLLM_SERVER_DEV_MODE=1 is set"
            self._send(protocol.Refused(command=command, reason=reason))
            return
        try:
            status, content, _ = await http.call("POST", f"{http.root}/{server.dialect.reset}")
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self._send(protocol.Refused(command=command, reason=self.scrub.words(in_words(error))))
            return
        if status != 200 or b'"success":false' in content.replace(b" ", b""):
            said = self.scrub.words(f"HTTP {status}: {content.decode(errors='replace')}")
            self._send(
                protocol.Refused(command=command, reason=f"some of it is still in use, says the server ({said})")
            )
        else:
            self._send(protocol.Done(command=command))

    async def _stats(self) -> None:
        asker, found = self._asker, {"assay:steps": float(self._steps)}
        if asker is not None:
            found |= {"assay:tries": float(asker.tries_made), "assay:tries_again": float(asker.tries_again)}
        if self._server is not None and self._server.metrics:
            await self._read_the_rest()
            text = await self._metrics()
            found |= counters(text or "")
        self._send(protocol.StatsReply(counters=found))

    # ------------------------------------------------------------ answers

    def _deliver(self, result: protocol.WireResult) -> None:
        if self._flights.pop(result.request_id, None) is None:  # aborted meanwhile
            return
        self._output_tokens += result.output_tokens or 0
        self._finished.append(result)
        if not self._flush_planned:
            self._flush_planned = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_planned = False
        finished, self._finished = self._finished, []
        if finished:
            self._send(protocol.Results(results=finished))

    # ------------------------------------------------------------ what is done beside

    async def _watch(self) -> None:
        """Tells how far it is, and ends what is late."""
        told_at = 0.0
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            now = time.monotonic()
            for flight in list(self._flights.values()):
                flight.why = flight.late(now)
                if flight.why is not None and flight.task is not None:
                    flight.task.cancel()
            if self._flights and now - told_at >= PROGRESS_EVERY_S:
                told_at = now
                under_way = sum(flight.stream.tokens for flight in self._flights.values())
                self._send(
                    protocol.Progress(
                        output_tokens=self._output_tokens + under_way,
                        prompt_tokens=self._prompt_tokens,
                        unfinished=len(self._flights),
                        steps=self._steps,
                    )
                )

    async def _look(self) -> None:
        """Whether a server that was given up is back."""
        while True:
            await asyncio.sleep(self._config.breaker.look_every_s if self._config is not None else 1.0)
            if self._circuit is None or not self._circuit.open or self._http is None:
                continue
            try:
                status, _, _ = await self._http.call("GET", f"{self._http.base}/models")
            except (aiohttp.ClientError, OSError, TimeoutError):
                continue
            if status < 400:
                self._circuit.back()
                self._say("the server answers again")

    async def _read(self) -> None:
        """Reads the metrics about twice a second while there is work, and once when there is none any more."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            if self._server is None or not self._server.metrics or not self._unread:
                continue
            if time.monotonic() - self._read_at >= READ_EVERY_S:
                await self._read_the_rest()

    async def _read_the_rest(self) -> None:
        if self._unread and self._server is not None and self._server.metrics:
            self._unread = bool(self._flights)
            await self._read_once()

    async def _read_once(self) -> None:
        async with self._reading:
            self._read_at = time.monotonic()
            text = await self._metrics()
            if text is None:
                return
            steps = self._readings.take(read_metrics(text), at=time.monotonic())
        if steps is not None:
            self._steps += steps.totals.steps
            self._send(steps)

    async def _metrics(self) -> str | None:
        """The server's metrics; None where they did not come, which is said."""
        if self._http is None:
            return None
        try:
            status, content, _ = await self._http.call("GET", f"{self._http.root}/metrics", timeout_s=_METRICS_S)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self._say(f"the server's metrics did not come: {in_words(error)}")
            return None
        if status != 200:
            self._say(f"the server's metrics did not come: HTTP {status}")
            return None
        return content.decode("utf-8", errors="replace")

    # ------------------------------------------------------------ the end

    def fail(self, error: BaseException, *, details: str) -> None:
        """Tells the flow that it is over."""
        known = isinstance(error, UNUSABLE)
        words = str(error) if known else f"{type(error).__name__}: {error}"
        self._send(
            protocol.Failed(
                where="build" if self._asker is None else "the endpoint",
                message=self.scrub.words(words),
                traceback="" if known else self.scrub.lines(details),
            )
        )


def versions() -> dict[str, str]:
    """What this process is made of."""
    own = version_of("assay")  # None in a checkout that is not installed
    return {"aiohttp": aiohttp.__version__, "pyzmq": zmq.__version__} | ({} if own is None else {"assay": own})
