"""One schema, asked of one backend: does it take it, at what cost, and does it tell the schema's instances apart?"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from schemas.corpus import Case, Instance
from schemas.sample import Grammar
from tasks.corpus.keywords import keywords_of
from tasks.guide.backends import Backends, Compiled
from tasks.guide.backends.instances import IN_ANOTHER_ORDER, Taken, compact, take
from tasks.guide.backends.parts import Parts
from tasks.guide.check import check_schema
from tasks.guide.validate import validate

Row = dict[str, Any]
STATUS = {"accepted": "accepted", "refused": "refused", "timed out": "timeout", "crashed": "crashed"}
_STATUS_OF_A_TEXT = {"answered": "answered", "timed out": "timeout", "crashed": "crashed"}
_TEXT_LIMIT_S = 10.0
_MOST_LOST = 3
"""After so many instances without an answer the rest of a schema is not asked: each costs its limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A schema with what does not depend on a backend: whether it is a valid one (the reason if not), and the
    validator's word on each instance (None: it has none)."""

    case: Case
    grammar: Grammar
    fault: str | None
    validated: tuple[bool | None, ...]


def judged(case: Case) -> Judged:
    """Has the validator judge the instances of a schema. Never raises for what a schema holds."""
    grammar = Grammar(grammar_id=case.case_id, kind="json_schema", content=compact(case.content))
    fault = check_schema(case.content)
    validated = tuple(_validated(grammar, test) if fault is None else None for test in case.tests)
    return Judged(case=case, grammar=grammar, fault=fault, validated=validated)


def _validated(grammar: Grammar, test: Instance) -> bool | None:
    verdict = validate(grammar, compact(test.data))
    return verdict.valid if verdict.judged else None


def ask(
    backends: Backends, asked: Judged, *, backend: str, limit_s: float, versions: Mapping[str, str | None]
) -> tuple[Row, list[Row]]:
    """The row of `corpus_schemas` and those of `corpus_tests`. limit_s: seconds that compiling may take."""
    began = time.monotonic()
    case = asked.case
    compiled = backends.compile(backend=backend, content=asked.grammar.content, timeout_s=limit_s)
    tests = _tests(backends, asked, compiled) if compiled.status == "accepted" else []
    masks = np.array([each for test in tests for each in test["mask_us"] or ()])
    row = {
        **_named(asked, backend=backend, version=versions.get(backend)),
        "vllm_version": backends.vllm,
        "tokenizer": backends.tokenizer,
        "status": STATUS[compiled.status],
        "stage": compiled.stage,
        "message": compiled.words,
        "check_s": compiled.check_s,
        "compile_s": compiled.compile_s,
        "grown_bytes": compiled.grown_bytes,
        "peak_bytes": compiled.peak_bytes,
        **(counts(tests) if compiled.status == "accepted" else {}),
        "mask_tokens": len(masks) if tests else None,
        **_mask_figures(masks),
        "seconds": time.monotonic() - began,
    }
    return row | {"verdict": verdict(row)}, [{**test, "case_id": case.case_id, "backend": backend} for test in tests]


def failed(asked: Judged, *, backend: str, version: str | None, error: Exception) -> Row:
    """The row of a schema that could not be asked at all, with why."""
    row = _named(asked, backend=backend, version=version)
    return row | {"status": "error", "message": f"{type(error).__name__}: {error}", "verdict": "error"}


def _named(asked: Judged, *, backend: str, version: str | None) -> Row:
    case = asked.case
    return {
        "case_id": case.case_id,
        "backend": backend,
        "split": case.split,
        "name": case.name,
        "kind": "json_schema",
        "schema": asked.grammar.content,
        "schema_fault": asked.fault,
        "keywords": keywords_of(case.content),
        "backend_version": version,
        "tests": len(case.tests),
    }


def verdict(row: Mapping[str, Any]) -> str:
    """What a backend made of a schema, in a word: its status where it did not take it; `both`, `over` or `under` where
    it tells instances apart wrongly; `untested` where it gave no answer that the corpus has a verdict on."""
    if row["status"] != "accepted":
        return str(row["status"])
    if row["over"] or row["under"]:
        return "both" if row["over"] and row["under"] else "over" if row["over"] else "under"
    return "right" if row["tests_right"] else "untested"


def counts(tests: list[Row]) -> Row:
    """Of the instances of one schema: how many came out which way. An instance whose verdict is disputed, the
    corpus's word against the validator's, counts for or against nobody."""
    agreed = [test for test in tests if test["validated"] in (None, test["expected"])]
    answered = [test for test in agreed if test["accepted"] is not None]
    return {
        "tests_right": sum(test["accepted"] is test["expected"] for test in answered),
        "over": sum(test["expected"] and not test["accepted"] for test in answered),
        "under": sum(test["accepted"] and not test["expected"] for test in answered),
        "reordered": sum(test["reordered"] is True for test in answered),
        "unjudged": sum(test["accepted"] is None for test in tests),
        "disputed": len(tests) - len(agreed),
    }


def _tests(backends: Backends, asked: Judged, compiled: Compiled) -> list[Row]:
    rows: list[Row] = []
    lost = 0
    parts = Parts(asked.case.content) if isinstance(asked.case.content, dict) else None
    for number, (test, validated) in enumerate(zip(asked.case.tests, asked.validated, strict=True)):
        began = time.monotonic()
        taken = None if lost >= _MOST_LOST else _taken(backends, compiled, test.data, parts)
        lost += taken is not None and taken.accepted is None
        rows.append(
            {
                "test_index": number,
                "split": asked.case.split,
                "expected": test.valid,
                "validated": validated,
                "accepted": None if taken is None else taken.accepted,
                "status": "skipped" if taken is None else _STATUS_OF_A_TEXT[taken.match.status],
                "why": None if taken is None else taken.match.why,
                "reordered": None if taken is None or not taken.accepted else taken.form in IN_ANOTHER_ORDER,
                "instance": compact(test.data),
                "tokens": None if taken is None else taken.match.tokens,
                "mask_us": None if taken is None else taken.match.mask_us,
                "seconds": None if taken is None else time.monotonic() - began,
            }
        )
    return rows


def _taken(backends: Backends, compiled: Compiled, value: Any, parts: Parts | None) -> Taken:
    if parts is not None:
        return take(backends, compiled, value=value, parts=parts, masks=True, timeout_s=_TEXT_LIMIT_S)
    text = compact(value)  # the schema is true or false: it says nothing of an order of keys
    match = backends.match(compiled, text=text, masks=True, timeout_s=_TEXT_LIMIT_S)
    return Taken(accepted=match.accepted, form="given" if match.accepted else None, text=text, match=match)


def _mask_figures(masks: "np.ndarray[Any, Any]") -> Row:
    if not len(masks):
        return dict.fromkeys(("mask_us_mean", "mask_us_p50", "mask_us_p95", "mask_us_p99", "mask_us_max"))
    p50, p95, p99 = np.percentile(masks, [50, 95, 99])
    return {
        "mask_us_mean": float(masks.mean()),
        "mask_us_p50": float(p50),
        "mask_us_p95": float(p95),
        "mask_us_p99": float(p99),
        "mask_us_max": float(masks.max()),
    }
