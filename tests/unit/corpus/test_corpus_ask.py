"""Schemas asked of the real backends, outside any engine: verdicts, what hangs, what is interrupted."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from schemas.corpus import Case, Instance
from tasks.corpus.ask import ask, counts, failed, judged, verdict
from tasks.corpus.work import Batch, Options, Workers
from tasks.guide.backends import Backends

VERSIONS: dict[str, str | None] = {"xgrammar": "1", "guidance": "2", "outlines": "3"}


def case(schema: Any, *, valid: list[Any] = [], invalid: list[Any] = [], number: int = 0) -> Case:  # noqa: B006
    tests = [Instance(data=data, valid=True) for data in valid] + [Instance(data=data, valid=False) for data in invalid]
    return Case(case_id=f"{number:05d}-x", split="s", name=f"n{number}", content=schema, tests=tuple(tests))


@pytest.mark.parametrize(
    ("backend", "schema", "valid", "invalid", "wanted"),
    [
        ("xgrammar", {"type": "integer", "minimum": 3}, [3, 4], [2], ("right", 3, 0, 0)),
        ("guidance", {"type": "object", "required": ["a"]}, [{"a": 1}], [{}], ("right", 2, 0, 0)),
        ("xgrammar", {"type": "object", "required": ["a"]}, [{"a": 1}], [{}], ("both", 0, 1, 1)),
        ("xgrammar", {"type": "array", "uniqueItems": True}, [[]], [[1, 1]], ("refused", None, None, None)),
        ("xgrammar", {}, [], [], ("untested", 0, 0, 0)),
        ("guidance", True, [1, {"a": []}], [], ("refused", None, None, None)),
    ],
)
def test_what_a_backend_makes_of_a_schema(
    grammar_backends: Backends, backend: str, schema: Any, valid: list[Any], invalid: list[Any], wanted: Any
) -> None:
    asked = judged(case(schema, valid=valid, invalid=invalid))
    row, tests = ask(grammar_backends, asked, backend=backend, limit_s=30.0, versions=VERSIONS)
    assert (row["verdict"], row.get("tests_right"), row.get("over"), row.get("under")) == wanted
    assert row["verdict"] == verdict(row) and row["backend_version"] == VERSIONS[backend]
    accepted = row["status"] == "accepted"
    assert len(tests) == (len(valid) + len(invalid) if accepted else 0)
    assert (row["message"] is None) == accepted and (row["compile_s"] is not None) == accepted
    assert all(len(test["mask_us"]) >= 1 and json.loads(test["instance"]) in [*valid, *invalid] for test in tests)
    assert row["mask_tokens"] == (sum(len(test["mask_us"]) for test in tests) if tests else None)


def test_another_order_of_keys_is_told(grammar_backends: Backends) -> None:
    schema = {
        "type": "object",
        "properties": {"b": {"type": "integer"}, "a": {"type": "integer"}},
        "required": ["b", "a"],
    }
    asked = judged(case(schema, valid=[{"a": 1, "b": 2}, {"b": 2, "a": 1}]))
    row, tests = ask(grammar_backends, asked, backend="xgrammar", limit_s=30.0, versions=VERSIONS)
    assert (row["verdict"], row["reordered"]) == ("right", 1)
    assert [test["reordered"] for test in tests] == [True, False]


def test_a_disputed_instance_counts_for_nobody(grammar_backends: Backends) -> None:
    """The corpus says that 3 is no integer: the validator and the backend say it is."""
    asked = judged(case({"type": "integer"}, valid=[4], invalid=[3]))
    row, tests = ask(grammar_backends, asked, backend="guidance", limit_s=30.0, versions=VERSIONS)
    assert (row["verdict"], row["disputed"], row["under"], row["tests_right"]) == ("right", 1, 0, 1)
    assert [(test["expected"], test["validated"], test["accepted"]) for test in tests] == [
        (True, True, True),
        (False, True, True),
    ]


def test_counts_by_hand() -> None:
    def test(
        expected: bool, accepted: bool | None, validated: bool | None = None, reordered: bool | None = None
    ) -> Any:
        return {"expected": expected, "accepted": accepted, "validated": validated, "reordered": reordered}

    found = counts(
        [
            test(True, True, True, False),
            test(True, True, True, True),
            test(True, False, True),
            test(False, True, None),
            test(False, False, False),
            test(True, None, True),
            test(True, True, False),
        ]
    )
    assert found == {"tests_right": 3, "over": 1, "under": 1, "reordered": 1, "unjudged": 1, "disputed": 1}


def test_a_schema_that_is_none_is_asked_all_the_same(grammar_backends: Backends) -> None:
    asked = judged(case({"type": "object", "$ref": "https://example.invalid/other.json"}, valid=[{}]))
    row, tests = ask(grammar_backends, asked, backend="xgrammar", limit_s=30.0, versions=VERSIONS)
    assert asked.fault is not None and row["schema_fault"] == asked.fault and row["status"] in ("accepted", "refused")
    assert all(test["validated"] is None for test in tests)
    lost = failed(asked, backend="xgrammar", version="1", error=KeyError("a"))
    assert (lost["status"], lost["verdict"], lost["message"]) == ("error", "error", "KeyError: 'a'")


HANGS = {"type": "array", "items": {"type": "object", "properties": {
    f"k{number}": {"type": "string", "maxLength": 40} for number in range(12)}}, "maxItems": 40}  # fmt: skip


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers(Options(backends=["outlines", "guidance"], limit_s=4.0, jobs=2)) as found:
        yield found


@pytest.mark.slow
def test_a_schema_that_hangs_costs_itself_and_an_interrupt_nothing(workers: Workers) -> None:
    cases = [case({"type": "integer", "minimum": n}, valid=[n], invalid=[n - 1], number=n) for n in range(30)]
    cases.insert(3, case(HANGS, valid=[[]], number=90))
    kept: list[Batch] = []

    def first_then_stop(batch: Batch) -> None:
        kept.append(batch)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        workers.run(cases, done={}, on_batch=first_then_stop)
    done: dict[str, set[str]] = {}
    for row in kept[0].schemas:
        done.setdefault(row["case_id"], set()).add(row["backend"])
    assert 0 < len(done) < 31
    with Workers(replace(workers.options, jobs=1)) as anew:
        rest: list[Batch] = []
        anew.run(cases, done=done, on_batch=rest.append)
    rows = [row for batch in [kept[0], *rest] for row in batch.schemas]
    assert len({(row["case_id"], row["backend"]) for row in rows}) == len(rows) == 62
    hung = next(row for row in rows if row["case_id"].startswith("00090") and row["backend"] == "outlines")
    assert hung["status"] == hung["verdict"] == "timeout"
    assert {row["verdict"] for row in rows if row["backend"] == "guidance"} == {"right"}
