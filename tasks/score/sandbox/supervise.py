"""The outside of the sandbox: starts one process, watches it, ends it, and says what came of it."""

import marshal
import os
import re
import secrets
import selectors
import signal
import subprocess
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType

from schemas.errors import RunError
from tasks.score.sandbox.back_ends import BOOT, WORK, BackEnd, interpreter
from tasks.score.sandbox.outcome import (
    MOST_ERROR_CHARACTERS,
    MOST_OUTPUT_CHARACTERS,
    Limits,
    Outcome,
    Program,
    Status,
)
from tasks.score.sandbox.tree import resident_bytes

START_S = 60.0
"""What a start may take, on a machine that does much else."""
_STOP_S = 10.0
_LOOK_S = 0.1
_MOST_REPORT = 64 << 10
_REPORTS: tuple[Status, ...] = ("passed", "failed", "memory", "broken_tests")


@cache
def _code(name: str) -> CodeType:
    return compile(Path(__file__).with_name(name).read_text(encoding="utf-8"), f"<{name}>", "exec")


def _sent(back_end: BackEnd, program: Program, limits: Limits) -> int:
    """A file in memory with all that the process needs."""
    job = {"text": program.text, "tests": program.tests, "entry_point": program.entry_point}
    parts = {
        "jail": _code("jail.py"),
        "runner": _code("runner.py"),
        "settings": back_end.settings(limits),
        "job": job,
    }
    handle = os.memfd_create("program")
    with os.fdopen(os.dup(handle), "wb") as file:
        file.write(marshal.dumps(parts))
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


@dataclass(kw_only=True)
class _Watched:
    """A process as it runs: what it wrote, and when it must end."""

    process: "subprocess.Popen[bytes]"
    back_end: BackEnd
    limits: Limits
    token: bytes
    started_at: float
    ready_at: float | None = None
    output: bytearray = field(default_factory=bytearray)
    output_size: int = 0
    report: bytearray = field(default_factory=bytearray)
    info: bytearray = field(default_factory=bytearray)
    first: int | None = None
    """The first process of the jail: all others of it end when it does."""
    handle: int | None = None
    verdict: tuple[Status, str | None] | None = None

    @property
    def full(self) -> bool:
        return self.output_size > self.limits.output_bytes

    def take(self, kind: str, text: bytes) -> None:
        if kind == "output":
            self.output_size += len(text)
            self.output += text[: max(0, 4 * MOST_OUTPUT_CHARACTERS - len(self.output))]
            if self.full:
                self._judge("failed", f"it wrote more than {self.limits.output_bytes} bytes of output")
        elif kind == "report":
            self.report += text[: max(0, _MOST_REPORT - len(self.report))]
            self._read_report()
        elif self.first is None:
            self.info += text[: max(0, 4096 - len(self.info))]
            found = re.search(rb'"child-pid"\s*:\s*(\d+)', self.info)
            if found:
                self.first = int(found[1])
                self.handle = _handle(self.first)

    def _judge(self, status: Status, error: str | None) -> None:
        if self.verdict is None:
            self.verdict = status, error

    def _read_report(self) -> None:
        lines = bytes(self.report).split(b"\n")[:-1]
        if lines and lines[0] == b"ready" and self.ready_at is None:
            self.ready_at = time.monotonic()
        for line in lines[1:]:
            token, _, said = line.partition(b" ")
            kind, _, words = said.decode("utf-8", "replace").partition(" ")
            if secrets.compare_digest(token, self.token):
                for status in _REPORTS:
                    if kind == status:
                        self._judge(status, _bounded(words) or None)

    def look(self) -> None:
        """Judges what only shows with time: the clock, and the memory of all processes together."""
        now = time.monotonic()
        if self.ready_at is None:
            if now - self.started_at > START_S:
                self._judge("killed", None)
            return
        if now - self.ready_at > self.limits.wall_s:
            self._judge("timeout", f"more than {self.limits.wall_s:g} s")
        pid = self.process.pid if self.first is None else self.first
        if resident_bytes(pid, at_least=2) > self.limits.memory_bytes:
            self._judge("memory", f"its processes hold more than {self.limits.memory_bytes >> 20} MiB")

    def outcome(self) -> Outcome:
        """Raises RunError where the sandbox itself did not start."""
        seconds = time.monotonic() - (self.ready_at or self.started_at)
        output = self.output.decode("utf-8", "replace")
        if self.ready_at is None and self.verdict is None:
            words = _bounded(output.strip().rpartition("\n")[2]) or f"exit status {self.process.returncode}"
            raise RunError(f"the sandbox ({self.back_end.name}) did not start: {words}; see `assay doctor`")
        status, error = self.verdict or self._by_its_end(seconds)
        return Outcome(
            status=status,
            error=error,
            output=output[-MOST_OUTPUT_CHARACTERS:],
            seconds=seconds,
            back_end=self.back_end.name,
        )

    def _by_its_end(self, seconds: float) -> tuple[Status, str]:
        code = self.process.returncode
        number = -code if code < 0 else code - 128 if code > 128 else 0
        if number == signal.SIGXCPU or (number == signal.SIGKILL and seconds >= self.limits.cpu_s):
            return "timeout", f"more than {self.limits.cpu_s} s of CPU"
        if number in set(signal.Signals):
            return "killed", f"it died of {signal.Signals(number).name}"
        return "failed", f"it ended before its tests did (exit status {code})"


def _bounded(text: str) -> str:
    return text if len(text) <= MOST_ERROR_CHARACTERS else text[: MOST_ERROR_CHARACTERS - 1] + "…"


def _stop(watched: _Watched) -> None:
    """Ends the process and all that it started, and waits until they are gone."""
    process = watched.process
    if watched.handle is not None:
        _end_the_jail(watched.handle)
        os.close(watched.handle)
    if watched.first is not None:
        try:  # the outer process ends by itself now, and must, to collect the first one
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
    else:
        process.kill()
    process.wait()
    if not watched.back_end.closed:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return


def _end_the_jail(handle: int) -> None:
    """Ends the jail's first process and waits: the kernel lets it end after all others of its jail."""
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except ProcessLookupError:  # it has ended, and was collected
        return
    with selectors.DefaultSelector() as selector:
        selector.register(handle, selectors.EVENT_READ)
        selector.select(_STOP_S)


def _handle(pid: int) -> int | None:
    """A handle that stays this process's, should its number be given to another."""
    try:
        return os.pidfd_open(pid)
    except OSError:  # it has ended, or the kernel is older than 5.3: then the outer process takes it along
        return None


def execute(program: Program, *, back_end: BackEnd, limits: Limits) -> Outcome:
    """Runs one program. Raises RunError where the sandbox itself did not start."""
    with ExitStack() as stack:
        folder = "/"
        if not back_end.closed:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="assay-code-", ignore_cleanup_errors=True))
        sent = _sent(back_end, program, limits)
        pipes = {name: os.pipe() for name in ("ticket", "report", "info")}
        inner = {"ticket": pipes["ticket"][0], "report": pipes["report"][1], "info": pipes["info"][1]}
        token = secrets.token_hex(16).encode()
        os.write(pipes["ticket"][1], token)
        os.close(pipes["ticket"][1])
        outer = {name: os.fdopen(pipes[name][0], "rb", buffering=0) for name in ("report", "info")}
        for file in outer.values():
            stack.enter_context(file)
        numbers = [str(number) for number in (sent, *inner.values())]
        command = [*back_end.prefix(limits, info=inner["info"]), interpreter(), "-s", "-P", "-S", "-B", "-c", BOOT]
        home = WORK if back_end.closed else folder
        try:
            process = subprocess.Popen(
                [*command, *numbers],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=folder,
                pass_fds=(sent, *inner.values()),
                env={"HOME": home, "TMPDIR": home, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"},
                start_new_session=True,
            )
        except OSError as error:
            raise RunError(f"the sandbox ({back_end.name}) did not start: {error}; see `assay doctor`") from error
        finally:
            for number in (sent, *inner.values()):
                os.close(number)
        watched = _Watched(process=process, back_end=back_end, limits=limits, token=token, started_at=time.monotonic())
        assert process.stdout is not None  # noqa: S101 - it is a pipe, for the type checker
        stack.enter_context(process.stdout)
        try:
            _follow(watched, {"output": process.stdout.fileno()} | {name: f.fileno() for name, f in outer.items()})
        finally:
            _stop(watched)
        return watched.outcome()


def _follow(watched: _Watched, channels: dict[str, int]) -> None:
    """Reads until there is a verdict, or until the process has ended and its channels are empty."""
    with selectors.DefaultSelector() as selector:
        for name, number in channels.items():
            selector.register(number, selectors.EVENT_READ, name)
        looked_at = time.monotonic()
        while watched.verdict is None:
            ended = watched.process.poll() is not None
            ready = selector.select(0 if ended else 0.02)
            for key, _ in ready:
                text = os.read(key.fd, 1 << 16)
                if text:
                    watched.take(key.data, text)
                else:
                    selector.unregister(key.fd)
            if ended and not ready:
                return
            if time.monotonic() - looked_at >= _LOOK_S:
                looked_at = time.monotonic()
                watched.look()
        while any(key.data == "output" for key, _ in selector.select(0)) and not watched.full:
            text = os.read(channels["output"], 1 << 16)
            if not text:
                return
            watched.take("output", text)
