"""Load as a user measures it, on the real engine: quality and speed of one run, and what became of each request."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Done, assay, rows

pytestmark = pytest.mark.engine

FILE = """\
name: load
model: smollm2-135m-instruct
datasets: [{use: extract, limit: 4, max_tokens: 24}]
arms: [free, guided]
sampling: {temperature: 0, max_tokens: 24}
max_failed: 1.0
benchmark:
  load:
    - {kind: closed, concurrency: 4, requests: 8}
    - {kind: open, rate: 8, seconds: 1, arrivals: constant}
  warmup: 2
  repeats: 2
  slo: {ttft_ms: 60000}
  prices: {device_hour: 1.0, currency: EUR}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> Path:
    home = tmp_path_factory.mktemp("load") / "home"
    (home / "cache").mkdir(parents=True)
    (home / "cache" / "models").symlink_to(model_dir.parent)
    return home


@pytest.fixture(scope="module")
def done(home: Path) -> Done:
    file = home.parent / "load.yaml"
    file.write_text(FILE, encoding="utf-8")
    return assay("run", str(file), "--json", home=home, ASSAY_PREFECT_API_URL="", PREFECT_UI_URL="")


@pytest.fixture(scope="module")
def cells(done: Done, home: Path) -> list[dict[str, Any]]:
    assert done.code == 0, done.stderr
    return rows(home, "SELECT * FROM cells WHERE kind <> 'quality' ORDER BY order_index")


def test_every_point_is_measured_in_turns(cells: list[dict[str, Any]]) -> None:
    once = ["free-closed-4", "guided-closed-4", "free-open-8-constant", "guided-open-8-constant"]
    assert [cell["point_id"] for cell in cells] == [*once, *reversed(once)]
    assert [cell["repeat"] for cell in cells] == [0] * 4 + [1] * 4
    assert {(cell["kind"], cell["concurrency"], cell["rate"]) for cell in cells} == {
        ("closed", 4, None),
        ("open", None, 8.0),
    }


def test_each_request_has_its_phase_and_its_times(home: Path, cells: list[dict[str, Any]]) -> None:
    found = rows(home, "SELECT * FROM requests WHERE phase <> 'quality'")
    by_cell = {cell["cell_id"]: [row for row in found if row["cell_id"] == cell["cell_id"]] for cell in cells}
    for cell in cells:
        own = by_cell[cell["cell_id"]]
        assert sum(row["phase"] == "warmup" for row in own) == 2
        measured = [row for row in own if row["phase"] == "measure"]
        assert len(measured) == (8 if cell["kind"] == "closed" else 8 - 1)  # the first is due a gap after the start
        for row in measured:
            assert row["request_key"] is None
            assert 0 < row["ttft_ms"] <= row["e2e_ms"]
            assert row["valid"] is not None
            assert (row["planned_at"] is None) == (cell["kind"] == "closed")
            assert cell["started_at"] <= row["sent_at"] <= cell["ended_at"]
    same = {
        tuple(sorted(row["sample_id"] for row in by_cell[cell["cell_id"]] if row["phase"] == "measure"))
        for cell in cells
        if cell["repeat"] == 0 and cell["kind"] == "closed"
    }
    assert len(same) == 1  # both arms were asked the same


def test_metrics_are_there_for_cells_and_for_points(home: Path, cells: list[dict[str, Any]]) -> None:
    found = rows(home, "SELECT name, cell_id, value, lo, hi, n, details FROM metrics WHERE name LIKE 'perf.%'")
    for cell in cells:
        names = {row["name"] for row in found if row["cell_id"] == cell["cell_id"]}
        assert {"perf.ttft_ms.p50", "perf.tpot_ms.p99", "perf.output_tokens_per_s", "perf.goodput_share"} <= names
        assert {"perf.engine.prefix_hit_rate", "perf.cost_per_1000_requests"} <= names
    [point] = [row for row in found if row["name"] == "perf.tpot_ms.p50" and row["cell_id"] == "free-closed-4"]
    repeats = json.loads(point["details"])["repeats"]
    assert (point["n"], len(repeats)) == (2, 2)
    assert point["lo"] < point["value"] < point["hi"]
    assert point["value"] == pytest.approx(sum(repeats) / 2)


def test_the_quality_phase_is_what_it_was(home: Path, done: Done) -> None:
    assert done.json["requests"] == 8
    assert done.json["measured"] == 2 * 2 * (8 + 7)
    quality = rows(home, "SELECT count(*) AS n FROM requests WHERE phase = 'quality'")[0]["n"]
    assert quality == 8
    assert {row["n"] for row in rows(home, "SELECT n FROM metrics WHERE name = 'extract.json_valid'")} == {4}


def test_steps_know_their_cell(home: Path, cells: list[dict[str, Any]]) -> None:
    found = rows(home, "SELECT cell_id, min(ts) AS first, max(ts) AS last, count(*) AS n FROM steps GROUP BY cell_id")
    known = {row["cell_id"]: row for row in found}
    for cell in cells:
        row = known[cell["cell_id"]]
        assert row["n"] > 5
        assert cell["started_at"] <= row["first"] and row["last"] <= cell["ended_at"]
    numbers = rows(home, "SELECT count(DISTINCT step) AS steps, count(*) AS n FROM steps")[0]
    assert numbers["steps"] == numbers["n"]


def test_the_arms_are_held_against_each_other(home: Path, done: Done) -> None:
    found = rows(home, "SELECT metric, cell_id, effect, verdict FROM comparisons WHERE metric LIKE 'perf.%'")
    assert {row["cell_id"] for row in found} == {"guided-closed-4", "guided-open-8-constant"}
    assert all(row["verdict"] in ("better", "same", "worse", "undecided") for row in found)


def test_it_is_written_as_vllm_bench_writes_it(home: Path, done: Done) -> None:
    out = home.parent / "results"
    assert assay("export", "last", "--format", "vllm-bench", "--out", str(out), home=home).code == 0
    found = json.loads((out / "free-closed-4-r0.json").read_text("utf-8"))
    assert (found["completed"], found["max_concurrency"], len(found["ttfts"])) == (8, 4, 8)
    assert found["median_ttft_ms"] > 0


def test_the_report_tells_of_it(done: Done) -> None:
    text = Path(done.json["report"]).read_text("utf-8")
    assert "free-closed-4" in text or "closed 4" in text


def test_an_experiment_without_a_load_says_what_to_do(home: Path) -> None:
    done = assay("bench", "quickstart", home=home)
    assert done.code == 2
    assert "no `benchmark`" in done.stderr
    assert "--concurrency" in done.stderr
