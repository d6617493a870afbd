"""The table of a measured load at the end of a run: what it says, and that it fits a terminal."""

from collections.abc import Mapping
from typing import Any

import pytest
from rich.console import Console

from flows.console_load import WIDTH, benchmark_table, knee_lines
from tasks.compare.points import Measured

_LONG = {
    "output_tokens_per_s": 123_456.0,
    **{f"{name}_ms.{q}": 1_234_567.0 for name in ("ttft", "tpot", "e2e") for q in ("p50", "p99")},
}


def point(arm: str, name: str, numbers: Mapping[str, float], *, disturbed: bool = False, **more: Any) -> Measured:
    rows = {f"perf.{key}": {"value": value, "unit": "EUR/Mtok", "details": {}} for key, value in numbers.items()}
    cells = [{"repeat": 0, "disturbed": ["host_busy"] if disturbed else []}, {"repeat": 1, "disturbed": []}]
    return Measured(point_id=f"{arm}-{name}", arm=arm, name=name, rows=rows, cells=cells, **({"kind": "closed"} | more))


def shown(*points: Measured) -> list[str]:
    console = Console(width=200, highlight=False, record=True, quiet=True)
    with console.capture() as captured:
        console.quiet = False
        console.print(benchmark_table(points))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_a_line_a_load_and_arm_with_medians() -> None:
    numbers = {"output_tokens_per_s": 377.3, "ttft_ms.p50": 83.56, "ttft_ms.p99": 102.0, "goodput_share": 0.95}
    title, heads, free, guided, caption = shown(
        point("guided", "closed-8", numbers, concurrency=8, disturbed=True),
        point("free", "closed-8", numbers | {"output_tokens_per_s": 400.0}, concurrency=8),
    )
    assert title == "load, medians over 2 repeats"
    assert heads.split() == ["arm", "tokens/s", "ttft,", "ms", "tpot,", "ms", "e2e,", "ms", "in", "SLO"]
    assert free.split() == ["closed", "8", "free", "400", "83.6", "/", "102", "–", "/", "–", "–", "/", "–", "95", "%"]
    assert guided.split() == ["guided", "!", "377", "83.6", "/", "102", "–", "/", "–", "–", "/", "–", "95", "%"]
    assert caption.startswith("! a repeat was disturbed")


def test_what_no_point_has_has_no_column() -> None:
    heads = shown(point("free", "closed-8", _LONG | {"failed_share": 0.0}, concurrency=8))[1]
    assert "SLO" not in heads
    assert "failed" not in heads
    assert "Mtok" not in heads
    costs = {"failed_share": 0.02, "cost_per_million_output_tokens": 1.5}
    heads = shown(point("free", "closed-8", {"output_tokens_per_s": 1.0} | costs, concurrency=8))[1]
    assert heads.split()[-2:] == ["failed", "EUR/Mtok"]
    joules = costs | {"joules_per_output_token": 0.4}
    assert shown(point("free", "closed-8", joules, concurrency=8))[1].split()[-1] == "J/token"


@pytest.mark.parametrize("arm", ["free", "an arm with a very long name of its own"])
def test_it_fits_a_hundred_columns_and_cuts_no_number(arm: str) -> None:
    everything = _LONG | {"goodput_share": 0.5, "failed_share": 0.1, "cost_per_million_output_tokens": 123_456.0}
    load = {"stages": [{"rate": float(rate)} for rate in range(20)]}
    lines = shown(point(arm, "staged-0", everything, kind="staged", load=load))
    assert max(map(len, lines)) <= WIDTH
    assert "1,234,567 / 1,234,567" in lines[2]
    assert "123,456" in lines[2]
    assert "stages 0, 1, 2" in lines[2]


def test_names_are_text_and_nothing_else() -> None:
    lines = shown(point("[red]x\x1b[31m", "closed-1", {"output_tokens_per_s": 1.0}, concurrency=1))
    assert "[red]x" in "\n".join(lines)
    assert "\x1b" not in "\n".join(lines)


def test_the_knee_has_a_line_of_its_own() -> None:
    details = {"share": 0.95, "decided": True, "above": 16.0, "probes": [{"rate": 14.9, "met": 40, "asked": 40}]}
    rows = {"perf.knee_requests_per_s": {"value": 14.9, "unit": "requests/s", "details": details}}
    found = Measured(point_id="free-saturate", arm="free", name="saturate", kind="saturate", rows=rows, cells=[])
    [(word, text)] = knee_lines([found, point("free", "closed-8", {"output_tokens_per_s": 1.0}, concurrency=8)])
    assert word == "knee" and text.startswith("free: 14.9 requests/s keep the SLO for 95 % of the requests")
    assert "16" in text
    assert knee_lines([]) == []
