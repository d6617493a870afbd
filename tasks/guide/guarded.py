"""The parent's side of tasks.guide.child: one child a process, started when first needed, started anew when it dies."""

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field

from schemas.sample import Grammar
from tasks.guide.judge import validator_name
from tasks.guide.verdict import Verdict, Violation, refused

TRIES_PER_GRAMMAR = 3


@dataclass
class GuardedJudge:
    """Judges answers in a child process. A grammar that killed it TRIES_PER_GRAMMAR times is not tried again."""

    _child: "subprocess.Popen[str] | None" = None
    _deaths: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _owner: int = field(default_factory=os.getpid)

    def judge(self, grammar: Grammar, text: str, *, timeout_s: float) -> Verdict:
        """The verdict on `text`, or a verdict that says that the validator timed out or died. Safe between threads."""
        name = validator_name(grammar.kind)
        with self._lock:
            if self._deaths.get(grammar.grammar_id, 0) >= TRIES_PER_GRAMMAR:
                message = f"not validated: this grammar ended the validator {TRIES_PER_GRAMMAR} times before"
                return refused(validator=name, message=message)
            asked = {
                "grammar_id": grammar.grammar_id,
                "kind": grammar.kind,
                "content": grammar.content,
                "text": text,
                "timeout_s": timeout_s,
            }
            line = self._exchange(json.dumps(asked) + "\n")
            if not line:
                self._deaths[grammar.grammar_id] = self._deaths.get(grammar.grammar_id, 0) + 1
                return refused(validator=name, message=self._death(timeout_s=timeout_s))
        answer = json.loads(line)
        violations = [Violation(**violation) for violation in answer["violations"]]
        return Verdict(valid=answer["valid"], validator=answer["validator"], violations=violations)

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
                [sys.executable, "-P", "-m", "tasks.guide.child"],
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
            return "the validator did not start"
        self._drop(child)
        if child.returncode == -signal.SIGALRM:
            return f"timed out: the validator took more than {timeout_s:g} s"
        return f"the validator ended (exit status {child.returncode}), most likely for want of memory"

    @staticmethod
    def _drop(child: "subprocess.Popen[str]") -> None:
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

    def close(self) -> None:
        """End the child."""
        with self._lock:
            child, self._child = self._child, None
            if child is not None and self._owner == os.getpid():
                self._drop(child)


GUARD = GuardedJudge()
atexit.register(GUARD.close)
