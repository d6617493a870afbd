"""The lint of a schema: each backend asked with instances whose verdict is known."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tasks.guide.backends import BACKENDS, Backends
from tasks.guide.lint.asking import COMPILE_S, Asking, OutOfTime
from tasks.guide.lint.faults import Faults
from tasks.guide.lint.model import BackendLint, Finding, Lint
from tasks.guide.lint.notes import mask_times, order_note, slow_note
from tasks.guide.lint.probes import Probe, probes
from tasks.guide.lint.refusal import way_out
from tasks.guide.lint.verdicts import Verdicts

LIMIT_S = 60.0
_TIMED = 3


def lint(
    schema: dict[str, Any],
    *,
    backends: Backends,
    names: Sequence[str],
    given: Sequence[Any] = (),
    seed: int = 0,
    whitespace: bool | None = None,
    limit_s: float = LIMIT_S,
    on_backend: Callable[[str], None] | None = None,
) -> Lint:
    """Asks each backend. The schema must be a valid one (tasks.guide.check).

    given: instances to ask with, beside those that are made.
    whitespace: as the engine's `grammar.whitespace`; None: forbidden where it can be. limit_s: seconds for each
    backend; what is found by then is reported, and `cut` says so. on_backend: called with each backend's name as its
    turn comes. Raises BackendsError where the child process cannot start.
    """
    verdicts = Verdicts(schema, grammar_id=f"lint-{seed}")
    asked = probes(verdicts, seed=seed, given=given)
    vllm = backends.vllm  # the child starts here, at no backend's expense
    found = []
    for name in names:
        if on_backend is not None:
            on_backend(name)
        asking = Asking(backends=backends, backend=name, whitespace=whitespace, until=time.monotonic() + limit_s)
        whole = backends.tokenizer is not None or BACKENDS[name].splits_characters
        found.append(_one(asking, verdicts, asked if whole else [probe for probe in asked if probe.text.isascii()]))
    return Lint(vllm=vllm, tokenizer=backends.tokenizer, seed=seed, backends=found)


def _one(asking: Asking, verdicts: Verdicts, asked: list[Probe]) -> BackendLint:
    facts = asking.backends.facts()[asking.backend]
    common: dict[str, Any] = {"backend": asking.backend, "version": facts.version, "engine_fault": facts.engine_fault}
    if not facts.usable:
        return BackendLint(**common, status="refused", words=facts.engine_fault)
    compiled = asking.compile(verdicts.schema, timeout_s=COMPILE_S)
    common |= {"status": compiled.status, "words": compiled.words}
    common |= {"check_s": compiled.check_s, "compile_s": compiled.compile_s}
    if compiled.status != "accepted":
        try:
            return BackendLint(**common, avoid=way_out(asking, verdicts, asked))
        except OutOfTime:
            return BackendLint(**common, cut=True)
    findings: list[Finding] = []
    counts = {"valid": 0, "invalid": 0, "unknown": 0}
    faults = Faults(asking=asking, verdicts=verdicts)
    cut = False
    spent: list[float] = []
    try:
        for probe in asked:
            taken = asking.takes(verdicts.schema, probe.value, parts=verdicts.parts)
            if taken is None or taken.accepted is None:
                counts["unknown"] += 1
                continue
            counts["valid" if probe.valid else "invalid"] += 1
            faults.saw(probe, taken)
        timed = [probe for probe in asked if probe.valid][-_TIMED:]
        spent = mask_times(asking, verdicts.schema, verdicts, timed)
        findings.extend(order_note(asking, verdicts, asked))
        findings.extend(slow_note(asking, verdicts, compiled=compiled, spent=spent, timed=timed))
        faults.explain()
    except OutOfTime:
        cut = True
    noted = {finding.kind for finding in findings}
    findings.extend(each for each in faults.found.values() if each.kind != "order" or "order" not in noted)
    findings.sort(key=lambda finding: (not finding.is_fault, finding.kind, finding.path, finding.instance or ""))
    return BackendLint(**common, **counts, mask_us=_summary(spent), findings=findings, cut=cut)


def _summary(spent: list[float]) -> dict[str, float]:
    if not spent:
        return {}
    p50, p99 = np.percentile(spent, [50, 99])
    return {"mean": float(np.mean(spent)), "p50": float(p50), "p99": float(p99), "max": float(max(spent))}
