"""The parent's side: grammars compiled and texts matched in a child process that may die without harm."""

import json
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.guide.backends.answers import BackendFacts, Compiled, Match, Source
from tasks.guide.backends.known import BACKENDS, KINDS
from tasks.guide.line_child import LineChild

MEMORY_BYTES = 4 << 30


class BackendsError(RuntimeError):
    """The child process cannot be started: vLLM or the tokenizer does not load."""


class Backends:
    """The grammar backends of one environment and one tokenizer. A context manager; one question at a time.

    model: the model's folder, whose tokenizer is used; None: a tokenizer of single bytes. names: which backends.
    python: the interpreter of another environment; None: this one. memory_bytes: what a question may take above what
    the imports take. variables: of the child's environment, beside this one's. The child starts with the first
    question, which takes as long as importing vLLM (5 to 10 s)."""

    def __init__(
        self,
        *,
        model: Path | None,
        names: Sequence[str] = tuple(BACKENDS),
        python: Path | None = None,
        memory_bytes: int = MEMORY_BYTES,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        unknown = [name for name in names if name not in BACKENDS]
        if unknown:
            raise ValueError(f"unknown backends: {', '.join(unknown)}; known: {', '.join(BACKENDS)}")
        options = {
            "model": None if model is None else str(model),
            "backends": list(names),
            "memory_bytes": memory_bytes,
        }
        self._model = model
        self._child = LineChild(
            "tasks.guide.backends.child",
            arguments=(json.dumps(options),),
            python=None if python is None else str(python),
            # Another interpreter has its own packages, and gets none of ours: only the folder above `tasks`, which must
            # then hold nothing that shadows them.
            search_path=None if python is None else str(Path(__file__).resolve().parents[3]),
            environment={"VLLM_LOGGING_LEVEL": "ERROR", **(variables or {})},
            greets=True,
            forks=True,
        )
        self._handles = self._asked = 0

    def __enter__(self) -> "Backends":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the child. What it is busy with ends at its time limit at the latest."""
        self._child.close()

    def kill(self) -> None:
        """Ends the child at once and for good, also while another thread waits for its answer, which is then that it
        crashed; so is that of every later question."""
        self._child.kill()

    def facts(self) -> dict[str, BackendFacts]:
        """Each backend's version, and whether an engine could use it. Raises BackendsError."""
        told = self._running()["backends"]
        return {name: BackendFacts(name=name, **facts) for name, facts in told.items()}

    @property
    def tokenizer(self) -> str | None:
        """The name of the model's folder; None for a tokenizer of single bytes."""
        return None if self._model is None else self._model.name

    @property
    def vllm(self) -> str | None:
        """The version of vLLM whose settings and checks are used. Raises BackendsError."""
        found: str | None = self._running()["vllm"]
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
        self._running()
        self._asked += 1
        numbered = question | {"number": self._asked, "timeout_s": timeout_s}
        answer: dict[str, Any] | None = self._child.ask(numbered)
        while answer is not None and answer.pop("number") != self._asked:
            # Of an earlier question: a fork that died between two, or an answer of one that was asked twice. The fork
            # may have died with this question unread or read, so it is asked again, and the second answer passed over.
            answer = self._child.ask(numbered) if answer["status"] == "died" else self._child.more()
        if answer is None:  # not the fork that answers but the process that forks: killed from outside
            status = self._child.bury()
            return {"status": "died", "exit": -signal.SIGKILL if status is None else status}
        return answer

    def _running(self) -> dict[str, Any]:
        """What the child said of itself. Raises BackendsError."""
        self._child.start()
        facts: dict[str, Any] | None = self._child.greeting
        if facts is None or "error" in facts:
            status = self._child.bury()
            reason = f"exit status {status}" if facts is None else facts["error"]
            raise BackendsError(f"the grammar backends do not load: {reason}")
        return facts


def _late(answer: dict[str, Any]) -> bool:
    return answer.get("exit") == -signal.SIGALRM


def _death(status: int) -> str:
    if status >= 0:
        return f"the process ended (exit status {status})"
    name = signal.Signals(-status).name
    memory = ", most likely for want of memory" if status in (-signal.SIGKILL, -signal.SIGABRT) else ""
    return f"the process ended ({name}{memory})"
