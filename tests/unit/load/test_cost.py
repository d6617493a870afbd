"""What a cell's answers cost, by hand."""

from typing import Any

import pytest

from schemas.benchmark import Prices
from schemas.metric import Aggregate
from tasks.load.cost import cost_metrics
from tasks.load.energy import cell_energy
from tasks.load.readings import Readings
from tests.unit.load.cell_rows import Row, cell, grid, readings, request

OWN = cell(0.0, 3600.0)
KILOWATT = Readings(readings(grid(0.0, 3600.0, 0.5), energy_j=lambda t: 1000.0 * t))
TWO = [
    request("a", 0.0, 1800.0, prompt_tokens=1_000_000, output_tokens=400_000),
    request("b", 1800.0, 3600.0, prompt_tokens=3_000_000, output_tokens=600_000),
]
NAMES = ("perf.cost_per_million_output_tokens", "perf.cost_per_1000_requests", "perf.cost_per_correct")


def costs(prices: dict[str, Any], requests: list[Row] = TWO, own: Row = OWN, **more: Any) -> dict[str, Aggregate]:
    found = cost_metrics(own, prices=Prices(**prices), requests=requests, **{"device_count": 1} | more)
    return {each.name: each for each in found}


def close(value: Any, wanted: Any) -> bool:
    return bool(value == pytest.approx(wanted, abs=1e-6))


def test_every_part() -> None:
    found = costs(
        {"device_hour": 3.0, "kwh": 0.4, "prompt_mtok": 0.5, "output_mtok": 2.0, "currency": "EUR"},
        device_count=2,
        energy=cell_energy(OWN, readings=KILOWATT),
        scores={("d", "a", "free"): 1.0, ("d", "b", "free"): 0.25},
    )
    parts = {"device time": 6.0, "energy": 0.4, "prompt tokens": 2.0, "output tokens": 2.0}
    tokens, thousand, right = (found[name] for name in NAMES)
    assert close(tokens.value, 10.4) and close(tokens.details["parts"], parts)
    assert close(thousand.value, 10.4 * 500)
    assert close(right.value, 10.4 / 1.25)
    assert [each.unit for each in (tokens, thousand, right)] == ["EUR/Mtok", "EUR/1000 requests", "EUR/correct answer"]
    assert all(each.direction == "lower" and each.cell_id == "c" and each.arm == "free" for each in found.values())


def test_without_prices_there_is_no_cost() -> None:
    assert costs({}) == {}


def test_a_part_without_a_price_is_not_told() -> None:
    found = costs({"output_mtok": 2.0}, energy=cell_energy(OWN, readings=KILOWATT))
    assert close(found[NAMES[0]].value, 2.0) and set(found[NAMES[0]].details["parts"]) == {"output tokens"}
    assert NAMES[2] not in found


def test_energy_that_was_not_measured_is_named_and_costs_not_0() -> None:
    assert costs({"kwh": 0.4}) == {}
    found = costs({"kwh": 0.4, "device_hour": 3.0})
    assert close(found[NAMES[0]].value, 3.0) and found[NAMES[0]].details["unmeasured"] == ["energy"]
    assert "energy" not in found[NAMES[0]].details["parts"]


def test_tokens_that_are_not_known_have_no_cost() -> None:
    requests = [TWO[0], TWO[1] | {"output_tokens": None}]
    assert costs({"output_mtok": 2.0}, requests) == {}
    assert set(costs({"device_hour": 2.0}, requests)) == {NAMES[1]}


def test_a_price_of_0_is_a_price() -> None:
    assert costs({"device_hour": 0.0})[NAMES[1]].value == 0.0


def test_failures_cost_time_and_no_tokens() -> None:
    requests = [*TWO, request("c", 0.0, None, status="error", prompt_tokens=9_000_000, output_tokens=None)]
    found = costs({"device_hour": 3.0, "prompt_mtok": 1.0}, requests)
    assert close(found[NAMES[1]].value, (3.0 + 4.0) * 500)
    assert (found[NAMES[1]].n, found[NAMES[1]].n_failed) == (2, 1)
    assert costs({"device_hour": 3.0}, requests[2:]) == {}


def test_cooldown_and_answers_without_a_score_pay_for_themselves() -> None:
    requests = [*TWO, request("after", 1800.0, 4000.0, phase="cooldown", prompt_tokens=50)]
    found = costs({"device_hour": 4.0, "kwh": 1.0}, requests, energy=cell_energy(OWN, readings=KILOWATT))
    assert close(found[NAMES[0]].details["parts"], {"device time": 3.0, "energy": 0.75})
    found = costs({"device_hour": 4.0, "output_mtok": 1.0}, requests, scores={("d", "b", "free"): 0.5})
    assert close(found[NAMES[2]].details["parts"], {"device time": 2.0, "output tokens": 1.2})
    assert found[NAMES[2]].details["unscored"] == 1 and found[NAMES[2]].n == 1


def test_a_cell_without_a_window_or_answers() -> None:
    assert costs({"device_hour": 1.0}, own=cell(0.0, 10.0, ended_at=None)) == {}
    assert costs({"device_hour": 1.0}, [request("x", 0.0, 1.0, cell_id="another")]) == {}
