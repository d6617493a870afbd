"""A child process that is asked by lines of JSON: started when first needed, anew when it died, never shared by a fork.

What may hang or crash (a validator, algebra) runs in it under a limit of its own, and costs an answer, not the run.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class LineChild:
    """Runs `python -m module`, which answers each line on its stdin by one on its stdout. Hold `lock` while asking.

    arguments: of the command. python, search_path: the interpreter and where it finds this package; None: this one's.
    greets: whether the child says something of itself before it is asked, which is then `greeting`. forks: whether it
    has children of its own, which end with it."""

    module: str
    arguments: tuple[str, ...] = ()
    python: str | None = None
    search_path: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    greets: bool = False
    forks: bool = False
    greeting: Any = None
    process: "subprocess.Popen[str] | None" = None
    lock: threading.RLock = field(default_factory=threading.RLock)
    killed: bool = False
    """Ended by `kill`: none is started again, and whatever is asked has no answer."""
    _owner: int = field(default_factory=os.getpid)

    def start(self) -> None:
        """Starts the child if there is none, and takes its greeting; None where it died before it."""
        if not self.killed:
            self._running()

    def ask(self, question: Mapping[str, Any]) -> Any:
        """The child's answer; None where it died of the question: then `bury` says how."""
        if self.killed:
            return None
        child = self._running()
        assert child.stdin is not None and child.stdout is not None  # noqa: S101 - both are pipes, for the type checker
        try:
            child.stdin.write(json.dumps(question) + "\n")  # escapes what is no valid Unicode
            child.stdin.flush()
        except BrokenPipeError:
            return None
        return self.more()

    def more(self) -> Any:
        """Another line of the child, without a question; None where it ended."""
        assert self.process is not None and self.process.stdout is not None  # noqa: S101 - for the type checker
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def bury(self) -> int | None:
        """The exit status of a child that died (negative: the signal); None if there is none."""
        child, self.process = self.process, None
        if child is None:
            return None
        self._end(child)
        return child.returncode

    def kill(self) -> None:
        """Ends the child at once and for good, whatever it is busy with: who waits for its answer, on another thread,
        gets None."""
        self.killed = True
        child = self.process
        if child is not None and self._owner == os.getpid() and child.poll() is None:
            self._kill(child)

    def close(self) -> None:
        """Ends the child."""
        with self.lock:
            child, self.process = self.process, None
            if child is not None and self._owner == os.getpid():
                self._end(child)

    def _running(self) -> "subprocess.Popen[str]":
        if self._owner != os.getpid():  # after a fork the child belongs to the other process
            self.process, self._owner = None, os.getpid()
        if self.process is None or self.process.poll() is not None:
            paths = os.pathsep.join(path for path in sys.path if path)
            self.process = subprocess.Popen(
                [self.python or sys.executable, "-P", "-m", self.module, *self.arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                env={**os.environ, "PYTHONPATH": self.search_path or paths, **self.environment},
                start_new_session=self.forks,
            )
            if self.killed:  # while it was being started
                self._kill(self.process)
            if self.greets:
                assert self.process.stdout is not None  # noqa: S101 - a pipe, for the type checker
                line = self.process.stdout.readline()
                self.greeting = json.loads(line) if line else None
        return self.process

    def _end(self, child: "subprocess.Popen[str]") -> None:
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue
        try:
            child.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self._kill(child)
            child.wait()

    def _kill(self, child: "subprocess.Popen[str]") -> None:
        if self.forks:
            os.killpg(child.pid, signal.SIGKILL)  # its own session: the child and its forks, nothing else
        else:
            child.kill()
