"""The parent's side: grammars compiled and texts matched in a child process that may die without harm."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks.guide.backends.answers import BackendFacts, Compiled, Match, Source
from tasks.guide.backends.known import BACKENDS, KINDS

MEMORY_BYTES = 4 << 30
_MORE_S = 2.0


class BackendsError(RuntimeError):
    """The child process cannot be started: vLLM or the tokenizer does not load."""


class Backends:
    """The grammar backends of one environment and one tokenizer. A context manager; one question at a time.

    model: the model's folder, whose tokenizer is used; None: a tokenizer of single bytes. names: which backends.
    python: the interpreter of another environment; None: this one. memory_bytes: what a question may take above what
    the imports take. The child starts with the first question, which takes as long as importing vLLM (5 to 10 s)."""

    def __init__(
        self,
        *,
        model: Path | None,
        names: Sequence[str] = tuple(BACKENDS),
        python: Path | None = None,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        unknown = [name for name in names if name not in BACKENDS]
        if unknown:
            raise ValueError(f"unknown backends: {', '.join(unknown)}; known: {', '.join(BACKENDS)}")
        self._options: dict[str, Any] = {
            "model": None if model is None else str(model),
            "backends": list(names),
            "memory_bytes": memory_bytes,
        }
        self._python = python
        self._child: subprocess.Popen[str] | None = None
        self._facts: dict[str, Any] = {}
        self._handles = 0

    def __enter__(self) -> "Backends":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the child. What it is busy with ends at its time limit at the latest."""
        child, self._child = self._child, None
        if child is None:
            return
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue
        try:
            child.wait(timeout=_MORE_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)  # its own session: the child and its fork, nothing else
            child.wait()

    def facts(self) -> dict[str, BackendFacts]:
        """Each backend's version, and whether an engine could use it. Raises BackendsError."""
        self._running()
        return {name: BackendFacts(name=name, **facts) for name, facts in self._facts["backends"].items()}

    @property
    def tokenizer(self) -> str | None:
        """The name of the model's folder; None for a tokenizer of single bytes."""
        model = self._options["model"]
        return None if model is None else Path(model).name

    @property
    def vllm(self) -> str | None:
        """The version of vLLM whose settings and checks are used. Raises BackendsError."""
        self._running()
        found: str | None = self._facts["vllm"]
        return found

    def compile(
        self,
        *,
        backend: str,
        content: str,
        kind: str = "json_schema",
        whitespace: bool | None = None,
        timeout_s: float = 30.0,
    ) -> Compiled:
        """Compiles a grammar as an engine would: vLLM's checks of the request, then the backend.

        backend: vLLM's name, or `auto`, which vLLM resolves by the grammar. whitespace: None: forbidden where vLLM can
        forbid it with this backend. timeout_s: for both together. Never raises for what a grammar holds.
        """
        if kind not in KINDS:
            raise ValueError(f"unknown kind of grammar: {kind}; known: {', '.join(KINDS)}")
        if whitespace is None:
            whitespace = backend not in BACKENDS or not BACKENDS[backend].forbids_whitespace
        source = Source(backend=backend, kind=kind, content=content, whitespace=whitespace)
        self._handles += 1
        return self._compile(source, handle=self._handles, timeout_s=timeout_s)

    def match(
        self, compiled: Compiled, *, text: str, masks: bool = False, apart: bool = False, timeout_s: float = 10.0
    ) -> Match:
        """Whether `text` is a whole answer of a grammar that was accepted.

        masks: look at each token's mask as a sampler does, and time it; else only follow the tokens, which is faster.
        apart: feed each character's own tokens, and not those that the tokenizer makes of the text.
        timeout_s: for this text. A text that ends the child is `crashed` or `timed out`, and the next one is asked of a
        new one. Never raises for what a text holds.
        """
        if compiled.status != "accepted":
            raise ValueError(f"the grammar was {compiled.status}: there is nothing to match")
        question = {"do": "match", "handle": compiled.handle, "text": text, "masks": masks, "apart": apart}
        answer = self._ask(question, timeout_s=timeout_s)
        if answer["status"] == "unknown":  # a new child, or more grammars since than it keeps
            if (
                self._compile(compiled.source, handle=compiled.handle, timeout_s=compiled.timeout_s).status
                != "accepted"
            ):
                return Match(status="crashed", accepted=None)
            answer = self._ask(question, timeout_s=timeout_s)
        if answer["status"] != "answered":
            return Match(status="timed out" if _late(answer) else "crashed", accepted=None)
        kept = {key: answer[key] for key in ("status", "accepted", "why", "tokens", "mask_us")}
        return Match(**kept, rest=answer.get("rest", ""), spaced=answer.get("spaced", 0))

    def _compile(self, source: Source, *, handle: int, timeout_s: float) -> Compiled:
        question = {"do": "compile", "handle": handle, "backend": source.backend, "kind": source.kind}
        question |= {"content": source.content, "whitespace": source.whitespace}
        answer = self._ask(question, timeout_s=timeout_s)
        if answer["status"] in ("died", "panicked"):
            words = (
                f"no answer within {timeout_s:g} s" if _late(answer) else answer.get("words") or _death(answer["exit"])
            )
            status: Any = "timed out" if _late(answer) else "crashed"
            return Compiled(status=status, source=source, backend=source.backend, words=words, timeout_s=timeout_s)
        return Compiled(source=source, handle=handle, timeout_s=timeout_s, **answer)

    def _ask(self, question: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
        child = self._running()
        assert child.stdin is not None and child.stdout is not None  # noqa: S101 - both are pipes, for the type checker
        try:
            child.stdin.write(json.dumps(question | {"timeout_s": timeout_s}) + "\n")
            child.stdin.flush()
            line = child.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:  # not the fork that answers but the process that forks: killed from outside
            status = child.poll()
            self.close()
            return {"status": "died", "exit": -signal.SIGKILL if status is None else status}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _running(self) -> "subprocess.Popen[str]":
        if self._child is not None and self._child.poll() is None:
            return self._child
        self._child = subprocess.Popen(
            [str(self._python or sys.executable), "-P", "-m", "tasks.guide.backends.child", json.dumps(self._options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": self._search_path(), "VLLM_LOGGING_LEVEL": "ERROR"},
            start_new_session=True,
        )
        assert self._child.stdout is not None  # noqa: S101 - a pipe, for the type checker
        line = self._child.stdout.readline()
        facts = json.loads(line) if line else {"error": f"exit status {self._child.wait()}"}
        if "error" in facts:
            self.close()
            raise BackendsError(f"the grammar backends do not load: {facts['error']}")
        self._facts = facts
        return self._child

    def _search_path(self) -> str:
        """Where the child finds this package. Another interpreter has its own packages, and gets none of ours: only
        the folder above `tasks`, which must then hold nothing that shadows them."""
        if self._python is None:
            return os.pathsep.join(path for path in sys.path if path)
        return str(Path(__file__).resolve().parents[3])


def _late(answer: dict[str, Any]) -> bool:
    return answer.get("exit") == -signal.SIGALRM


def _death(status: int) -> str:
    if status >= 0:
        return f"the process ended (exit status {status})"
    name = signal.Signals(-status).name
    memory = ", most likely for want of memory" if status in (-signal.SIGKILL, -signal.SIGABRT) else ""
    return f"the process ended ({name}{memory})"
