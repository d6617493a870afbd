"""Instances whose verdict is known, for 800 schemas of real projects: MaskBench, of JSONSchemaBench.

Each verdict of ours that differs from the published one stands in tests/data/maskbench_disputes.json with its reason.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.guide import Guide
from schemas.sample import Grammar
from tasks.dataset.guide import grammar_of
from tasks.guide.validate import validate

CASES = Path(__file__).parents[4] / "shared" / "data" / "maskbench" / "cases.jsonl"
DISPUTES = Path(__file__).parents[2] / "data" / "maskbench_disputes.json"
CLASSES = {"draft", "format", "dispute", "our fault"}


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    if not CASES.exists():
        pytest.skip("the MaskBench cases are not here (../shared/data/maskbench)")
    return [json.loads(line) for line in CASES.read_text().splitlines()]


@pytest.fixture(scope="module")
def grammars(cases: list[dict[str, Any]]) -> dict[str, Grammar]:
    """The grammar of each case, made as that of a row that brings its own schema."""
    guide = Guide(kind="json_schema", schema_field="schema")
    made = {case["name"]: grammar_of(guide=guide, shared=None, fields=case, choices=()) for case in cases}
    refused = {name: error for name, (_, error) in made.items() if error is not None}
    assert refused == {}
    return {name: grammar for name, (grammar, _) in made.items() if grammar is not None}


def test_every_verdict_is_the_known_one_or_a_listed_dispute(
    cases: list[dict[str, Any]], grammars: dict[str, Grammar]
) -> None:
    listed = json.loads(DISPUTES.read_text())
    assert all(entry["class"] in CLASSES and entry["reason"].endswith(".") for entry in listed)

    found: list[dict[str, Any]] = []
    why: list[str] = []
    judged = 0
    for case in cases:
        for number, test in enumerate(case["tests"]):
            judged += 1
            verdict = validate(grammars[case["name"]], json.dumps(test["data"], ensure_ascii=False))
            if verdict.valid is not test["valid"]:
                found.append({"name": case["name"], "test": number, "ours": verdict.valid, "theirs": test["valid"]})
                why.append(f"{case['name']} #{number}: {[violation.message for violation in verdict.violations[:3]]}")
    assert len(cases) == len(grammars) == 800
    assert judged == 2646
    assert found == [{key: entry[key] for key in ("name", "test", "ours", "theirs")} for entry in listed], why


def test_our_side_of_each_dispute_has_a_second_validator(cases: list[dict[str, Any]]) -> None:
    """The `jsonschema` package, by the draft that the schema names and with that draft's formats, says what we say."""
    from jsonschema.validators import validator_for

    schemas = {case["name"]: case for case in cases}
    for entry in json.loads(DISPUTES.read_text()):
        case = schemas[entry["name"]]
        checker = validator_for(case["schema"])
        second = checker(case["schema"], format_checker=checker.FORMAT_CHECKER)
        assert second.is_valid(case["tests"][entry["test"]]["data"]) is entry["ours"], entry
