"""Every speed metric against the golden cases beside it."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from schemas.cell_figures import Slo
from tasks.load.measured import Measured
from tasks.load.metric import Latency, Total

FOLDER = Path(__file__).parents[3] / "tasks" / "load" / "metrics"
MODULES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
CASES = [
    pytest.param(module, case, id=f"{module}: {case['name']}")
    for module in MODULES
    for case in json.loads((FOLDER / f"{module}.golden.json").read_text(encoding="utf-8"))
]


def metric(module: str) -> Latency | Total:
    found = importlib.import_module(f"tasks.load.metrics.{module}").METRIC
    assert isinstance(found, Latency | Total)
    return found


@pytest.mark.parametrize(("module", "case"), CASES)
def test_golden(module: str, case: dict[str, Any]) -> None:
    own = metric(module)
    if isinstance(own, Latency):
        assert own.of(Measured(**case["request"])) == pytest.approx(case["values"])
    else:
        found = own.of([Measured(**each) for each in case["requests"]], Slo(**case.get("slo", {})))
        assert found == (None if case["value"] is None else pytest.approx(case["value"]))


@pytest.mark.parametrize("module", MODULES)
def test_each_says_its_formula_unit_direction_and_source(module: str) -> None:
    text = " ".join((importlib.import_module(f"tasks.load.metrics.{module}").__doc__ or "").split())
    own = metric(module)
    assert text.startswith(f"{own.name}: ")
    assert all(word in text for word in ("Formula: ", "Unit: ", f"{own.direction} is better", "Source: "))


def test_names_are_each_their_own() -> None:
    names = [metric(module).name for module in MODULES]
    assert len(set(names)) == len(names)
