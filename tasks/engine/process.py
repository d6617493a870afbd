"""Starting a program under the supervisor, so that it can never outlive this process."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from tasks.engine import supervisor

_LINE = 400
"""Characters of a log's line in a message: vLLM writes its whole state into one when it dies."""


class SupervisedProcess:
    """A program, and all that it starts, tied to this process by a pipe.

    Closed by `close()`, by this object's end, or by the kernel when this process dies in whatever way: then the
    supervisor kills the program's whole tree. Its standard output and error go to `log_path`.
    """

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str], log_path: Path, cwd: Path | None = None
    ) -> None:
        log_path.parent.mkdir(parents=True, exist_ok=True)
        self.log_path = log_path
        with log_path.open("ab") as log:
            self._popen = subprocess.Popen(
                [sys.executable, "-I", supervisor.__file__, *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The supervisor's process id; also the id of the session and group of everything below it."""
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """None while the program runs; else its exit status (128 + n if signal n ended it)."""
        code = self._popen.poll()
        if code is not None and code < 0:
            # The supervisor itself was killed, so nobody has swept up behind it.
            self._kill_session()
        return code

    def log_tail(self, lines: int = 30, *, since: int = 0) -> str:
        """The last lines of the program's log; of each, what a person can take in. since: no byte before this one."""
        with self.log_path.open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(since, log.tell() - 64_000))
            text = log.read().decode("utf-8", errors="replace")
        return "\n".join(line if len(line) <= _LINE else f"{line[:_LINE]} …" for line in text.splitlines()[-lines:])

    def move_log(self, target: Path) -> None:
        """Gives the log another name on the same disk; what the program writes from now on goes there too."""
        target.parent.mkdir(parents=True, exist_ok=True)
        self.log_path.replace(target)
        self.log_path = target

    def signal(self, number: int) -> None:
        """Sends the program itself a signal; close() then ends what it leaves."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.pid).children():
                child.send_signal(number)

    def wait(self, *, timeout_s: float) -> bool:
        """Waits for the program to end by itself. False if it has not after timeout_s."""
        try:
            self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def close(self, *, timeout_s: float = 10.0) -> int:
        """Ends the program and everything below it, and gives its exit status."""
        if self._popen.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._popen.stdin.close()
        try:
            self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._kill_session()
        return self._popen.wait()

    def _kill_session(self) -> None:
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                session = int((entry / "stat").read_text().rpartition(")")[2].split()[3])
                if session == self.pid:
                    os.kill(int(entry.name), signal.SIGKILL)

    def __del__(self) -> None:
        if getattr(self, "_popen", None) is not None and self._popen.poll() is None:
            self.close()
