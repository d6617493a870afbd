"""The flow's end of the engine: start the process, build, submit, take what comes back."""

import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zmq

from schemas.errors import EngineError
from tasks.engine import protocol
from tasks.engine.failure import EngineDied, How
from tasks.engine.process import SupervisedProcess
from tasks.engine.settings import ProcessSettings, engine_environment, own_search_path

START_TIMEOUT_S = 600.0
_CLOSE_TIMEOUT_S = 15.0
_POLL_MS = 200
_WARM_GRACE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What an engine was built with, and what it became. by: the run that built it, where it matters."""

    model: str
    options: dict[str, Any]
    built: protocol.Built
    by: str | None = None


class EngineClient:
    """One engine process. A context manager: leaving it ends the process and everything below it."""

    def __init__(
        self,
        *,
        log_path: Path,
        cores: Iterable[int] = (),
        compiles: bool = True,
        settings: ProcessSettings | None = None,
    ) -> None:
        """Starts the process, which begins to import vLLM at once; `build` comes when the plan is made.

        settings: what must be known before; without them, cores and compiles alone (see `ProcessSettings`)."""
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
        self._log_from = log_path.stat().st_size if log_path.exists() else 0
        self._steps: list[protocol.Steps] = []
        self.standing: Standing | None = None
        """What it was built with; None before."""
        self.settings = settings or ProcessSettings(cores=tuple(cores), compiles=compiles)
        known = self.settings
        environment = engine_environment(cores=known.cores, compiles=known.compiles) | dict(known.variables)
        self.started_at = time.monotonic()
        program = [f"tasks.engine.{known.program}", address, repr(self.started_at)]
        if known.copies > 1:
            program = [f"{program[0]}.copies", *program[1:], str(known.copies), str(known.devices)]
        self._process = SupervisedProcess(
            [known.python or sys.executable, "-m", *program],
            env=environment | {"PYTHONPATH": self._search_path(known.python), "PYTHONSAFEPATH": "1"},
            log_path=log_path,
        )

    def _search_path(self, python: str | None) -> str:
        """Where the process finds the worker; another interpreter finds nothing else of this environment there."""
        if python is None:
            return own_search_path()
        tasks = Path(__file__).resolve().parents[1]
        alone = self._folder / "worker"
        alone.mkdir()
        (alone / "tasks").symlink_to(tasks)
        return str(alone)

    def __enter__(self) -> "EngineClient":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The supervisor's id: the session of every process of this engine."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status of its process; None while it lives."""
        return self._process.returncode

    @property
    def log_path(self) -> Path:
        return self._process.log_path

    def move_log(self, target: Path) -> None:
        """Gives the engine's log another name on the same disk."""
        self._process.move_log(target)

    def share_log(self, target: Path) -> None:
        """Gives the engine's log a second name on the same disk, for a run that takes over an engine that stands."""
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.hardlink_to(self.log_path)

    def hello(self, *, timeout_s: float = START_TIMEOUT_S) -> protocol.Hello:
        """Waits until vLLM is imported. Raises EngineDied if the process dies first."""
        if self._hello is None:
            message = self._receive(timeout_s)
            if not isinstance(message, protocol.Hello):
                raise self._error("while starting", f"unexpected {type(message).__name__}")
            self._hello = message
        return self._hello

    def build(
        self, *, model: str | Path, options: dict[str, Any], timeout_s: float = START_TIMEOUT_S, by: str | None = None
    ) -> protocol.Built:
        """Builds the engine and waits until it has answered a first token. by: the run that it is for. Raises
        EngineDied with the log's end."""
        self.hello(timeout_s=timeout_s)
        self._send(protocol.Build(model=str(model), options=options, trace_dir=str(self.log_path.parent / "trace")))
        message = self._receive(timeout_s)
        if not isinstance(message, protocol.Built):
            raise self._error("while building", f"unexpected {type(message).__name__}")
        self.standing = Standing(model=str(model), options=dict(options), built=message, by=by)
        return message

    def submit(self, requests: list[protocol.WireRequest]) -> None:
        """Hands requests over; their results come out of `results`."""
        self._heard_at = time.monotonic()
        self._send(protocol.Submit(requests=requests))

    def results(
        self, *, on_progress: Callable[[protocol.Progress], None] | None = None, wait_s: float = 1.0
    ) -> Iterator[protocol.WireResult]:
        """The results that are there or come within `wait_s`. Raises EngineDied if the engine has died."""
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

    @property
    def socket(self) -> "zmq.Socket[bytes]":
        """What its messages come by, for one who waits for several engines at once."""
        return self._socket

    def arrived(self) -> Iterator[protocol.WireResult]:
        """The results that are there, without waiting. Raises EngineDied if the engine has died."""
        while (message := self._receive_or_none(0.0)) is not None:
            if isinstance(message, protocol.Results):
                yield from message.results

    def drain(self) -> list[protocol.WireResult]:
        """The results that have arrived and were not taken yet, without waiting. Does not ask whether the engine lives:
        it is for the end of a run, whatever ended it."""
        found: list[protocol.WireResult] = []
        while self._socket.poll(0, zmq.POLLIN):
            message = protocol.decode_from_engine(self._socket.recv())
            if isinstance(message, protocol.Results):
                found += message.results
            elif isinstance(message, protocol.Steps):
                self._steps.append(message)
        return found

    def take_steps(self) -> list[protocol.Steps]:
        """What the engine told of its steps since this was last asked. It comes with whatever else is received."""
        taken, self._steps = self._steps, []
        return taken

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
        """Forgets every cached prefix. Only between requests. Raises EngineError where some of it is still in use."""
        self._send(protocol.ResetPrefixCache())
        message = self._reply("reset_prefix_cache", "while resetting its cache", timeout_s)
        if isinstance(message, protocol.Refused):
            raise EngineError(f"the engine cannot forget its cached prefixes: {message.reason}")

    def cell_begins(self) -> None:
        """Has it tell all of the steps that come first now, as at its own beginning."""
        self._send(protocol.CellBegins())

    def reschedule(self, *, threshold: int, budget: int, yields: bool = False, timeout_s: float = 30.0) -> None:
        """Another long-prompt threshold, whether it yields, and token budget (at most the built one) from the next step
        on. Only between requests. Raises EngineError where vLLM's scheduler is not within reach, or for a budget that
        is too large."""
        self._send(
            protocol.Reschedule(
                long_prefill_token_threshold=threshold, max_num_batched_tokens=budget, prefill_yields=yields
            )
        )
        message = self._reply("reschedule", "while rescheduling", timeout_s)
        if isinstance(message, protocol.Refused):
            raise EngineError(f"the engine cannot change its schedule: {message.reason}")

    def make_masks(self, *, by: str, timeout_s: float = 30.0) -> None:
        """Has the masks of guided answers made by another from now on, `batched` or `vllm`; only between requests.
        Raises EngineError for an engine that was not built with `batched`."""
        self._send(protocol.MakeMasks(by=by))
        message = self._reply("make_masks", "while changing who makes masks", timeout_s)
        if isinstance(message, protocol.Refused):
            raise EngineError(f"the engine cannot have its masks made by {by}: {message.reason}")

    def warm(self, grammars: Sequence[protocol.WireGrammar], *, limit_s: float) -> protocol.Warmed:
        """Has the engine compile these grammars, for at most about so many seconds. Only between requests."""
        self._send(protocol.Warm(grammars=list(grammars), limit_s=limit_s))
        message = self._receive_or_none(limit_s + _WARM_GRACE_S)
        if message is None:
            raise self.hung("it was given grammars to compile and said nothing any more", while_="compiling grammars")
        if not isinstance(message, protocol.Warmed):
            raise self._error("while compiling grammars", f"unexpected {type(message).__name__}")
        return message

    def sleep(self, *, level: int = 1, timeout_s: float = 120.0) -> None:
        """Has the engine give its GPU memory back; only between requests, and built with `sleep_mode`. level 1 keeps
        the weights in the host's memory, 2 forgets them."""
        self._send(protocol.Sleep(level=level))
        self._reply("sleep", "while put to sleep", timeout_s)

    def wake(self, *, timeout_s: float = 120.0) -> None:
        """Has the engine take its memory again."""
        self._send(protocol.Wake())
        self._reply("wake", "while waking", timeout_s)

    def _reply(self, command: str, when: str, timeout_s: float) -> protocol.Done | protocol.Refused:
        """What it says to this command. What it still had to say of requests that were aborted comes before, and is
        dropped: it must not be taken for the answers of who asks next."""
        end = time.monotonic() + timeout_s
        while True:
            message = self._receive(max(0.0, end - time.monotonic()))
            match message:
                case protocol.Done(command=said) | protocol.Refused(command=said) if said == command:
                    return message
                case protocol.Progress() | protocol.Results() | protocol.Done():
                    continue
                case _:
                    raise self._error(when, f"unexpected {type(message).__name__}")

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

    def hung(self, why: str, *, while_: str = "answering") -> EngineDied:
        """The error for an engine that lives and says nothing. why: how that was noticed."""
        return self._error(f"while {while_}", why, how="hung")

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
                    raise self._error(f"in {message.where}", message.message, details=message.traceback)
                if isinstance(message, protocol.Steps):
                    self._steps.append(message)
                    continue
                return message
            code = self._process.returncode
            # A last message may have come between the poll and the end of the process.
            if code is not None and not self._socket.poll(0, zmq.POLLIN):
                raise self._error("without a word", f"exit status {code}", how="exit")
            if left_ms <= 0:
                return None

    def _receive(self, timeout_s: float) -> protocol.FromEngine:
        message = self._receive_or_none(timeout_s)
        if message is None:
            raise self._error("to answer", f"nothing came for {timeout_s:.0f} s", how="timeout")
        return message

    def _error(self, when: str, what: str, *, how: How = "reported", details: str = "") -> EngineDied:
        tail = self._process.log_tail(15)
        return EngineDied(
            f"the engine failed {when}: {what}\nits log, {self.log_path}, ends with:\n{tail}",
            how=how,
            words=what,
            details=details,
            status=self._process.returncode,
            log=self._process.log_tail(200, since=self._log_from),
        )
