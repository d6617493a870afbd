"""The parent's side of tasks.score.math.child: one child a process, started when first needed, anew when it dies."""

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field

_MOST_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Equality:
    """Whether two answers are equal; reason: why they could not be compared as mathematics."""

    equal: bool
    reason: str | None


@dataclass
class GuardedEquality:
    """Compares answers in a child process. A pair is asked once: what hung the child is not tried again."""

    _child: "subprocess.Popen[str] | None" = None
    _known: dict[tuple[str, str, float], Equality] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _owner: int = field(default_factory=os.getpid)

    def compare(self, *, expected: str, given: str, timeout_s: float) -> Equality:
        """Whether two normalized answers are equal mathematics, within `timeout_s` seconds of processor time. Where the
        child hangs or dies they count as not equal, with the reason. Safe between threads."""
        asked = expected, given, timeout_s
        with self._lock:
            if asked not in self._known:
                if len(self._known) >= _MOST_REMEMBERED:
                    self._known.clear()
                self._known[asked] = self._ask(*asked)
            return self._known[asked]

    def _ask(self, expected: str, given: str, timeout_s: float) -> Equality:
        line = self._exchange(
            json.dumps({"expected": expected, "given": given, "timeout_s": timeout_s}) + "\n"
        )  # json.dumps escapes what is no valid Unicode
        if not line:
            return Equality(equal=False, reason=self._death(timeout_s=timeout_s))
        answer = json.loads(line)
        return Equality(equal=answer["equal"], reason=answer["reason"])

    def _exchange(self, line: str) -> str:
        child = self._running()
        assert child.stdin is not None and child.stdout is not None  # noqa: S101 - both are pipes, for the type checker
        try:
            child.stdin.write(line)
            child.stdin.flush()
            return child.stdout.readline()
        except BrokenPipeError:
            return ""

    def _running(self) -> "subprocess.Popen[str]":
        if self._owner != os.getpid():  # after a fork the child belongs to the other process
            self._child, self._owner = None, os.getpid()
        if self._child is None or self._child.poll() is not None:
            paths = os.pathsep.join(path for path in sys.path if path)
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-m", "tasks.score.math.child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                env={**os.environ, "PYTHONPATH": paths},
            )
        return self._child

    def _death(self, *, timeout_s: float) -> str:
        child, self._child = self._child, None
        if child is None:
            return "not decided: the process that compares did not start"
        _end(child)
        if child.returncode in (-signal.SIGPROF, -signal.SIGALRM):
            return f"not decided in {timeout_s:g} s"
        return f"not decided: the process that compares ended (exit status {child.returncode}), most likely for memory"

    def close(self) -> None:
        """End the child."""
        with self._lock:
            child, self._child = self._child, None
            if child is not None and self._owner == os.getpid():
                _end(child)


def _end(child: "subprocess.Popen[str]") -> None:
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                continue
    try:
        child.wait(timeout=1)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


GUARD = GuardedEquality()
atexit.register(GUARD.close)
