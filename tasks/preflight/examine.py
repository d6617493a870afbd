"""Each grammar compiled, and JSON schemas linted, in a child process of the backend; what is known already is not done
again."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.engine import Preflight
from schemas.preflight import Examined, LintFinding, PreflightStatus, PreflightSummary
from tasks.corpus.keywords import keywords_of
from tasks.guide.backends import Backends, BackendsError, Compiled
from tasks.preflight.known import Known
from tasks.preflight.used import Used

if TYPE_CHECKING:
    from tasks.guide.lint.model import BackendLint

LINT_S = 10.0
"""The most seconds for the lint of one schema."""
_GIB = 1 << 30
_NO_MEMORY = ("std::bad_alloc", "MemoryError")
"""In the words of a backend that gave up, and did not die, at the limit of memory."""
_STATUSES: dict[str, PreflightStatus] = {
    "accepted": "accepted",
    "refused": "refused",
    "timed out": "timeout",
    "crashed": "crashed",
}


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What grammars are examined with: the engine's backend as the plan sets it, and the model's tokenizer.

    version: the backend's. variables: of the environment, which vLLM reads. rests_on: all that a verdict depends on
    beside the grammar and the limits."""

    backend: str
    version: str | None
    whitespace: bool
    options: Preflight
    model: Path
    python: Path | None
    variables: Mapping[str, str]
    cache: Path
    rests_on: Mapping[str, Any]


@dataclass
class Examination:
    """One run's. `stop` ends it from another thread."""

    bench: Bench
    notes: list[str] = field(default_factory=list)
    _backends: Backends | None = None
    _stopped: bool = False
    _start_s: float | None = None

    def stop(self) -> None:
        """Ends the child at once; what is not examined stays so."""
        self._stopped = True
        if self._backends is not None:
            self._backends.kill()

    def run(self, grammars: Sequence[Used]) -> PreflightSummary:
        """Examines what there is time for: compiles all first, and then lints. Never raises for what a grammar holds;
        where the child does not start, `lost` says why."""
        started = time.monotonic()
        found: dict[Used, Examined] = {}
        lost: str | None = None
        unlinted = 0
        try:
            self._compile(grammars, found)
            unlinted = self._lint(found)
        except BackendsError as error:
            lost = str(error)
        finally:
            if self._backends is not None:
                self._backends.close()
        return PreflightSummary(
            backend=self.bench.backend,
            backend_version=self.bench.version,
            examined=list(found.values()),
            unexamined=len(grammars) - len(found),
            unlinted=unlinted,
            lost=lost,
            notes=self.notes,
            start_s=self._start_s,
            wall_s=time.monotonic() - started,
        )

    # ---------------------------------------------------------------- compiling

    def _compile(self, grammars: Sequence[Used], found: dict[Used, Examined]) -> None:
        """First all that is known, so that time is spent on the rest only."""
        waiting = []
        for used in grammars:
            stored = self._known.get(what="compile", asked=self._compile_key(used)) if used.no_form is None else None
            if used.no_form is not None:
                found[used] = _examined(used, status="refused", message=used.no_form)
            elif stored is not None and stored.get("status") in _STATUSES.values():
                found[used] = _examined(used, **stored, cached=True)
            else:
                waiting.append(used)
        time_left = self.bench.options.limit_s
        for used in waiting:
            if self._stopped or time_left <= 0:
                return
            backends, started = self._running(), time.monotonic()  # not of vLLM's import
            verdict = self._compiled(backends, used)
            if self._stopped:  # it did not end of the grammar
                return
            found[used] = _examined(used, **verdict)
            self._keep(verdict, what="compile", asked=self._compile_key(used))
            time_left -= time.monotonic() - started

    def _compiled(self, backends: Backends, used: Used) -> dict[str, Any]:
        compiled = self._asked(backends, used)
        if compiled.status == "crashed" and not self._stopped:  # it may have been the machine's fault, and not its own
            compiled = self._asked(backends, used)
        status = _STATUSES[compiled.status]
        message = compiled.words
        if status == "timeout" and compiled.stage is None:
            message = f"the compiler took more than {self.bench.options.compile_limit_s:g} s"
        elif status == "timeout":
            message = f"the compiler took too long: {compiled.words}"
        elif status == "crashed":
            message = f"the compiler crashed: {compiled.words}"
        elif status == "refused" and any(word in str(message) for word in _NO_MEMORY):
            status = "crashed"  # the engine has no such limit, and would take the machine's memory
            message = f"the compiler took more than {self.bench.options.memory_gb:g} GiB: {compiled.words}"
        return {"status": status, "message": message, "compile_s": compiled.compile_s if status == "accepted" else None}

    def _asked(self, backends: Backends, used: Used) -> Compiled:
        return backends.compile(
            backend=self.bench.backend,
            kind=used.form,
            content=used.content,
            whitespace=self.bench.whitespace,
            timeout_s=self.bench.options.compile_limit_s,
        )

    def _compile_key(self, used: Used) -> dict[str, Any]:
        limits = [self.bench.options.compile_limit_s, self.bench.options.memory_gb]
        return {"form": used.form, "content": used.content, "limits": limits}

    # ---------------------------------------------------------------- the lint

    def _lint(self, found: dict[Used, Examined]) -> int:
        """Lints the first schemas that the backend takes, each once; gives how many are not linted."""
        if not self.bench.options.lint:
            return 0
        schemas: dict[str, list[Used]] = {}
        for used, examined in found.items():
            if examined.status == "accepted" and used.schema is not None:
                schemas.setdefault(used.written, []).append(used)
        left = 0
        time_left = self.bench.options.lint_limit_s
        for place, (written, users) in enumerate(schemas.items()):
            key = {"schema": written, "limit_s": LINT_S}
            stored = self._known.get(what="lint", asked=key)
            wanted = stored is None and place < self.bench.options.most_linted and not self._stopped
            if wanted and time_left > 0:
                backends, started = self._running(), time.monotonic()  # not of vLLM's import
                limit_s = min(LINT_S, time_left)
                stored = self._linted(backends, users[0], limit_s=limit_s)
                if stored is not None and not (stored["cut"] and limit_s < LINT_S):  # else it had too little time
                    self._keep(stored, what="lint", asked=key)
                time_left -= time.monotonic() - started
            if stored is None:
                left += 1
                continue
            lint_found = [LintFinding(**each) for each in stored["findings"]]
            for used in users:
                found[used] = found[used].model_copy(update={"lint": lint_found, "lint_cut": stored["cut"]})
        return left

    def _linted(self, backends: Backends, used: Used, *, limit_s: float) -> dict[str, Any] | None:
        """None where it came to nothing; then a note says why."""
        from tasks.guide.lint.lint import lint  # noqa: PLC0415 - not needed where all is known

        schema = used.schema
        assert schema is not None  # noqa: S101 - only schemas are handed in
        name = self.bench.backend
        try:
            report = lint(
                schema, backends=backends, names=[name], whitespace=self.bench.whitespace, limit_s=limit_s
            ).backends[0]
        except Exception as error:  # noqa: BLE001 - a lint that fails costs no run; it is said
            if not self._stopped:
                self.notes.append(f"grammar {used.grammar_id} could not be linted: {type(error).__name__}: {error}")
            return None
        if self._stopped:
            return None
        if report.status != "accepted":
            self.notes.append(f"grammar {used.grammar_id} could not be linted: {report.status}: {report.words}")
            return None
        return {"findings": _findings(report), "cut": report.cut}

    # ---------------------------------------------------------------- both

    @property
    def _known(self) -> Known:
        return Known(self.bench.cache, facts=self.bench.rests_on)

    def _keep(self, found: Mapping[str, Any], *, what: str, asked: Mapping[str, Any]) -> None:
        try:
            self._known.put(found, what=what, asked=asked)
        except OSError as error:  # a full disk: the next run asks again
            note = f"what was found out about grammars could not be kept: {error}"
            if note not in self.notes:
                self.notes.append(note)

    def _running(self) -> Backends:
        """The child, started when it is first needed. Raises BackendsError."""
        if self._backends is None:
            started = time.monotonic()
            self._backends = Backends(
                model=self.bench.model,
                names=[self.bench.backend],
                python=self.bench.python,
                memory_bytes=int(self.bench.options.memory_gb * _GIB),
                variables=self.bench.variables,
            )
            if self._stopped:
                self._backends.kill()
            self._backends.facts()
            self._start_s = time.monotonic() - started
        return self._backends


def _examined(
    used: Used,
    *,
    status: PreflightStatus,
    message: str | None,
    compile_s: float | None = None,
    cached: bool = False,
) -> Examined:
    schema = used.schema
    return Examined(
        grammar_id=used.grammar_id,
        after=used.after,
        status=status,
        message=message,
        compile_s=compile_s,
        cached=cached,
        keywords=None if schema is None else keywords_of(schema),
    )


def _findings(report: "BackendLint") -> list[dict[str, Any]]:
    found = []
    for finding in report.findings:
        hint = "" if finding.rewrite is None else f"; instead, {finding.rewrite.words}"
        found.append(
            {
                "path": finding.path,
                "problem": f"{finding.kind}: {finding.words}{hint}",
                "instance": finding.instance,
                "fault": finding.is_fault,
            }
        )
    return found
