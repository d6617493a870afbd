"""The flow's end of the engine: start the process, build, submit, take what comes back."""

import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import zmq

from schemas.errors import EngineError
from tasks.engine import protocol
from tasks.engine.process import SupervisedProcess
from tasks.engine.settings import engine_environment

START_TIMEOUT_S = 600.0
_CLOSE_TIMEOUT_S = 15.0
_POLL_MS = 200


class EngineClient:
    """One engine process. A context manager: leaving it ends the process and everything below it."""

    def __init__(self, *, log_path: Path, cores: Iterable[int], compiles: bool = True) -> None:
        """Starts the process, which begins to import vLLM at once; `build` comes when the plan is made.

        compiles: whether torch.compile may be used in it at all (see `engine_environment`)."""
        # An ipc address may have 107 characters at most, so the folder is a short one. mkdtemp makes it 0700.
        self._folder = Path(tempfile.mkdtemp(prefix="assay-"))
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PAIR)
        self._socket.setsockopt(zmq.LINGER, 0)
        address = f"ipc://{self._folder}/engine"
        self._socket.bind(address)
        self._hello: protocol.Hello | None = None
        self._closed = False
        self._heard_at = time.monotonic()
        root = Path(__file__).resolve().parents[2]
        self.settings = (tuple(cores), compiles)
        self.started_at = time.monotonic()
        self._process = SupervisedProcess(
            [sys.executable, "-P", "-m", "tasks.engine.worker", address, repr(self.started_at)],
            env=engine_environment(cores=self.settings[0], compiles=compiles) | {"PYTHONPATH": str(root)},
            log_path=log_path,
        )

    def __enter__(self) -> "EngineClient":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The supervisor's id: the session of every process of this engine."""
        return self._process.pid

    @property
    def log_path(self) -> Path:
        return self._process.log_path

    def move_log(self, target: Path) -> None:
        """Gives the engine's log another name on the same disk."""
        self._process.move_log(target)

    def hello(self) -> protocol.Hello:
        """Waits until vLLM is imported. Raises EngineError if the process dies first."""
        if self._hello is None:
            message = self._receive(START_TIMEOUT_S)
            if not isinstance(message, protocol.Hello):
                raise self._error("while starting", f"unexpected {type(message).__name__}")
            self._hello = message
        return self._hello

    def build(self, *, model: str | Path, options: dict[str, Any]) -> protocol.Built:
        """Builds the engine and waits until it has answered a first token. Raises EngineError with the log's end."""
        self.hello()
        self._send(protocol.Build(model=str(model), options=options))
        message = self._receive(START_TIMEOUT_S)
        if not isinstance(message, protocol.Built):
            raise self._error("while building", f"unexpected {type(message).__name__}")
        return message

    def submit(self, requests: list[protocol.WireRequest]) -> None:
        """Hands requests over; their results come out of `results`."""
        self._heard_at = time.monotonic()
        self._send(protocol.Submit(requests=requests))

    def results(
        self, *, on_progress: Callable[[protocol.Progress], None] | None = None, wait_s: float = 1.0
    ) -> Iterator[protocol.WireResult]:
        """The results that are there or come within `wait_s`. Raises EngineError if the engine has died."""
        end = time.monotonic() + wait_s
        while (left := end - time.monotonic()) > 0:
            message = self._receive_or_none(left)
            match message:
                case None:
                    return
                case protocol.Results():
                    yield from message.results
                    return
                case protocol.Progress():
                    if on_progress is not None:
                        on_progress(message)
                case _:
                    continue

    def drain(self) -> list[protocol.WireResult]:
        """The results that have arrived and were not taken yet, without waiting. Does not ask whether the engine lives:
        it is for the end of a run, whatever ended it."""
        found: list[protocol.WireResult] = []
        while self._socket.poll(0, zmq.POLLIN):
            message = protocol.decode_from_engine(self._socket.recv())
            if isinstance(message, protocol.Results):
                found += message.results
        return found

    @property
    def silent_s(self) -> float:
        """Seconds since the engine last said anything. While it has work it speaks after every step."""
        return time.monotonic() - self._heard_at

    def abort_all(self) -> None:
        """Stops whatever runs. What had already finished still comes out of `results`."""
        self._send(protocol.Abort())

    def stats(self, *, timeout_s: float = 30.0) -> dict[str, float]:
        """The engine's counters. Only between requests: results that arrive meanwhile would be lost."""
        self._send(protocol.Stats())
        message = self._receive(timeout_s)
        if not isinstance(message, protocol.StatsReply):
            raise self._error("while asked for its counters", f"unexpected {type(message).__name__}")
        return message.counters

    def reset_prefix_cache(self, *, timeout_s: float = 30.0) -> None:
        """Forgets every cached prefix. Only between requests."""
        self._send(protocol.ResetPrefixCache())
        message = self._receive(timeout_s)
        if not isinstance(message, protocol.Done):
            raise self._error("while resetting its cache", f"unexpected {type(message).__name__}")

    def close(self) -> None:
        """Ends the engine and everything below it. May be called twice."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(zmq.Again):
            self._socket.send(protocol.encode(protocol.Close()), zmq.NOBLOCK)
        end = time.monotonic() + 2.0
        while self._process.returncode is None and time.monotonic() < end:
            time.sleep(0.02)
        self._process.close(timeout_s=_CLOSE_TIMEOUT_S)
        self._socket.close()
        self._context.term()
        shutil.rmtree(self._folder, ignore_errors=True)

    def hung(self) -> EngineError:
        """The error for an engine that lives and says nothing."""
        return self._error("while answering", f"it has said nothing for {self.silent_s:.0f} s")

    def _send(self, message: protocol.ToEngine) -> None:
        try:
            self._socket.send(protocol.encode(message), zmq.NOBLOCK)
        except zmq.Again as error:
            raise self._error("while sending", "it takes no more messages") from error

    def _receive_or_none(self, timeout_s: float) -> protocol.FromEngine | None:
        """The next message, None if none came in time. Raises EngineError if the process is gone or says so."""
        end = time.monotonic() + timeout_s
        while True:
            left_ms = (end - time.monotonic()) * 1000
            if self._socket.poll(max(0, min(_POLL_MS, left_ms)), zmq.POLLIN):
                message = protocol.decode_from_engine(self._socket.recv())
                self._heard_at = time.monotonic()
                if isinstance(message, protocol.Failed):
                    raise self._error(f"in {message.where}", message.message)
                return message
            code = self._process.returncode
            # A last message may have come between the poll and the end of the process.
            if code is not None and not self._socket.poll(0, zmq.POLLIN):
                raise self._error("without a word", f"exit status {code}")
            if left_ms <= 0:
                return None

    def _receive(self, timeout_s: float) -> protocol.FromEngine:
        message = self._receive_or_none(timeout_s)
        if message is None:
            raise self._error("", f"no answer in {timeout_s:.0f} s")
        return message

    def _error(self, when: str, what: str) -> EngineError:
        tail = self._process.log_tail(15)
        return EngineError(f"the engine failed {when}: {what}\nits log, {self.log_path}, ends with:\n{tail}")
