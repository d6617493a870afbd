"""What a run came to: of a real engine's rows, against sums made another way; and what is not measured is not there."""

import datetime
from pathlib import Path

import pytest
from real_runs import FIRST, KEPT, Row, generated, result, written

from schemas.cell_figures import Slo
from tasks.cells import figure_words as words
from tasks.cells.figures import figures_of
from tasks.cells.tables import sweep_rows
from tasks.report.numbers import percentile
from tests.unit.compare.loads import Points, measured, steady
from tests.unit.compare.two_runs import FIRST as MEASURED
from warehouse.parquet import read_rows, write_rows

RUN = "20261201T080000-aaaaaa"
GPU = "GPU-1"


def values(home: Path, run_id: str = RUN, *, slo: Slo | None = None) -> dict[str, float]:
    return {name: figure.value for name, figure in figures_of(home, run_id, slo=slo).items()}


def span(rows: list[Row]) -> tuple[float, float]:
    begin = min(row["sent_at"].timestamp() for row in rows)
    return begin, max(row["sent_at"].timestamp() + row["e2e_ms"] / 1000 for row in rows)


def test_times_and_rates_are_those_of_the_rows() -> None:
    found = figures_of(KEPT, FIRST)
    requests, answers = read_rows(KEPT, "requests", FIRST), generated()
    for name in ("ttft_ms", "tpot_ms", "e2e_ms"):
        times = [row[name] for row in answers if row[name] is not None]
        assert found[f"{name}.p50"].value == pytest.approx(percentile(times, 50))
        assert found[f"{name}.p99"].value == pytest.approx(percentile(times, 99))
    begin, end = span(requests)
    assert found["generate_s"].value == pytest.approx(end - begin)
    tokens = sum(row["output_tokens"] for row in answers)
    assert found["throughput.output_tokens_per_s"].value == pytest.approx(tokens / (end - begin))
    assert found["throughput.requests_per_s"].value == pytest.approx(40 / (end - begin))
    assert (found["e2e_ms.p50"].unit, found["e2e_ms.p50"].direction) == ("ms", "lower")
    assert found["throughput.output_tokens_per_s"].direction == "higher"


def test_sizes_start_and_quality_are_those_of_the_tables() -> None:
    found = values(KEPT, FIRST)
    [engine] = read_rows(KEPT, "engines", FIRST)
    assert found["start_s"] == engine["start_s"] and found["start.load_s"] == engine["load_s"]
    assert found["memory.kv_tokens"] == engine["kv_tokens"]
    assert found["memory.peak_bytes"] == max(
        row["process_rss_bytes"] or 0 for row in read_rows(KEPT, "telemetry", FIRST) if row["device"] == "cpu"
    )
    quality = {
        f"quality.{row['arm']}.{row['name']}": row["value"]
        for row in read_rows(KEPT, "metrics", FIRST)
        if row["scope"] == "dataset" and ".form." not in row["name"]
    }
    assert quality and {name: found[name] for name in found if name.startswith("quality.")} == quality
    assert found["engine.preemptions"] == 0


def test_what_a_cpu_does_not_have_is_not_there() -> None:
    found = values(KEPT, FIRST)
    absent = (
        "energy.j",
        "energy.j_per_output_token",
        "memory.graph_bytes",
        "start.capture_s",
        "start.cold",
        "goodput.share",
    )
    assert not set(absent) & set(found)


def test_a_reused_engine_has_no_start(tmp_path: Path) -> None:
    written(tmp_path, RUN, changes={"engines": lambda row: row | {"start_s": None}})
    found = values(tmp_path)
    assert not [name for name in found if name.startswith("start")] and "memory.kv_tokens" in found


def test_the_rest_of_an_interrupted_run_gives_no_times(tmp_path: Path) -> None:
    later = {row["request_id"] for row in generated()[:5]}
    change = {"requests": lambda row: row | {"revision": 3} if row["request_id"] in later else row}
    written(tmp_path, RUN, changes=change)
    found = values(tmp_path)
    assert not [name for name in found if "_ms." in name or name.startswith("throughput") or name == "generate_s"]
    assert "quality.free.arithmetic.exact_match" in found and "memory.kv_tokens" in found


def test_answers_of_an_earlier_run_give_no_times(tmp_path: Path) -> None:
    first = generated()[0]["request_id"]
    written(tmp_path, RUN, changes={"requests": lambda row: row | {"reused": row["request_id"] == first}})
    assert "throughput.output_tokens_per_s" not in values(tmp_path)


def test_goodput_counts_what_came_within_every_limit(tmp_path: Path) -> None:
    answers = sorted(generated(), key=lambda row: row["e2e_ms"])
    lost = answers[0]["request_id"]
    written(
        tmp_path, RUN, changes={"requests": lambda row: row | {"status": "error"} if row["request_id"] == lost else row}
    )
    limit = answers[9]["e2e_ms"]
    begin, end = span([row for row in read_rows(tmp_path, "requests", RUN) if row["status"] != "error"])
    found = values(tmp_path, slo=Slo(e2e_ms=limit))
    assert found["goodput.share"] == pytest.approx(9 / 24)
    assert found["goodput.requests_per_s"] == pytest.approx(9 / (end - begin))
    assert values(tmp_path, slo=Slo(e2e_ms=0.001))["goodput.requests_per_s"] == 0
    both = values(tmp_path, slo=Slo(e2e_ms=limit, ttft_ms=0.001))
    assert both["goodput.share"] == 0


def test_an_answer_of_one_token_keeps_a_limit_on_the_time_per_token(tmp_path: Path) -> None:
    single = {"output_tokens": 1, "tpot_ms": None}
    written(tmp_path, RUN, changes={"requests": lambda row: row | single if row["kind"] == "generate" else row})
    assert values(tmp_path, slo=Slo(tpot_ms=0.001))["goodput.share"] == 1
    assert values(tmp_path, slo=Slo())["generate_s"] > 0 and "goodput.share" not in values(tmp_path, slo=Slo())


def readings(home: Path, *, seconds: tuple[float, float], counter: bool, watts: float = 200.0) -> None:
    """A GPU that draws so many watts, read twice a second from before the first request until after it."""
    begin, _ = span(read_rows(home, "requests", RUN))
    moments = [seconds[0] + step / 2 for step in range(int(2 * (seconds[1] - seconds[0])) + 1)]
    rows = [
        {
            "ts": datetime.datetime.fromtimestamp(begin + moment, datetime.UTC),
            "device": GPU,
            "power_w": watts,
            "energy_j": 5_000 + 100 * moment if counter else None,
            "memory_bytes": 7_000_000 + int(moment),
        }
        for moment in moments
    ]
    write_rows(home=home, table="telemetry", run_id=RUN, rows=rows, part="gpu", revision=0)


def on_gpu(row: Row) -> Row:
    return row | {"resolved": row["resolved"].replace('"device": "cpu"', '"device": "cuda"')}


@pytest.mark.parametrize(("counter", "watts"), [(True, 100), (False, 200)])
def test_energy_is_that_of_the_phase_by_counter_else_by_power(tmp_path: Path, counter: bool, watts: float) -> None:
    written(tmp_path, RUN, changes={"engines": on_gpu, "telemetry": lambda _: None})
    readings(tmp_path, seconds=(-3.0, 40.0), counter=counter)
    found = values(tmp_path)
    assert found["energy.j"] == pytest.approx(watts * found["generate_s"], rel=1e-6)
    tokens = sum(row["output_tokens"] for row in generated())
    assert found["energy.j_per_output_token"] == pytest.approx(found["energy.j"] / tokens)
    assert found["memory.peak_bytes"] == 7_000_040


def test_readings_that_end_early_give_no_energy(tmp_path: Path) -> None:
    written(tmp_path, RUN, changes={"engines": on_gpu, "telemetry": lambda _: None})
    readings(tmp_path, seconds=(-3.0, 10.0), counter=True)
    assert "energy.j" not in values(tmp_path)


def test_an_engine_on_the_cpu_of_a_machine_with_a_gpu_has_its_own_memory_and_no_energy(tmp_path: Path) -> None:
    written(tmp_path, RUN)
    readings(tmp_path, seconds=(-3.0, 40.0), counter=True)
    found = values(tmp_path)
    assert "energy.j" not in found and found["memory.peak_bytes"] > 1_000_000_000


def test_a_run_without_rows_has_no_figures(tmp_path: Path) -> None:
    assert figures_of(tmp_path, RUN) == {}


def test_each_measured_point_has_its_figures(tmp_path: Path) -> None:
    points: Points = {
        "free-closed-8": {"tpot_ms.p50": steady(), "output_tokens_per_s": steady(2.0), "late_ms.p99": steady()},
        "free-open-2.5": {"ttft_ms.p50": [50.0, 70.0, 60.0]},
    }
    measured(tmp_path, MEASURED, points)
    found = figures_of(tmp_path, MEASURED)
    loads = {name: figure for name, figure in found.items() if name.startswith("load.")}
    assert set(loads) == {
        "load.free-closed-8.tpot_ms.p50",
        "load.free-closed-8.output_tokens_per_s",
        "load.free-open-2.5.ttft_ms.p50",
    }
    assert loads["load.free-closed-8.tpot_ms.p50"].direction == "lower"
    assert loads["load.free-closed-8.output_tokens_per_s"].direction == "higher"
    assert loads["load.free-open-2.5.ttft_ms.p50"].value == 60.0
    assert [words.title(name) for name in sorted(loads)] == [
        "tokens/s at free-closed-8",
        "tpot p50 at free-closed-8",
        "ttft p50 at free-open-2.5",
    ]
    [row] = sweep_rows(tmp_path, [result(0, run_id=MEASURED, built=True)])
    assert {"tokens/s at free-closed-8", "ttft p50 at free-open-2.5"} <= row.keys()
    assert "tokens/s" not in row, "nothing was answered, so that there is no column of it"
