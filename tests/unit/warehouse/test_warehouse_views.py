"""The views and macros from the outside: attempts, repeats, reused answers, resumed and cancelled runs, NULLs."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.unit.warehouse.load_rows import fill_load
from warehouse.parquet import compact_run, write_rows
from warehouse.query import query
from warehouse.views import definitions

RUN = "20261127T220355-3f9a2c"
LATER = "20261128T220355-7b01de"
NOW = datetime(2026, 11, 27, 22, tzinfo=UTC)


def put(home: Path, table: str, *rows: dict[str, Any], run_id: str = RUN, revision: int = 0) -> None:
    write_rows(home=home, table=table, run_id=run_id, rows=rows, part="p", revision=revision)


def ask(home: Path, sql: str) -> list[tuple[Any, ...]]:
    return query(home=home, sql=sql).rows


def request(name: str, **more: Any) -> dict[str, Any]:
    row = {"request_id": name, "attempt": 0, "dataset": "d", "sample_id": name, "arm": "free", "kind": "generate"}
    row |= {"repeat": 0, "phase": "quality", "status": "ok", "prompt_tokens": 10, "ttft_ms": 5.0, "output_tokens": 2}
    return row | more


def test_latency_counts_what_ran_to_an_end_here(home: Path) -> None:
    put(
        home,
        "requests",
        request("a", ttft_ms=1.0),
        request("retried", status="error", ttft_ms=999.0),
        request("retried", attempt=1, ttft_ms=3.0),
        request("reused", reused=True, ttft_ms=999.0),
        request("cancelled", status="cancelled", ttft_ms=999.0),
        request("refused", status="refused", ttft_ms=None),
        request("warm", phase="warmup", ttft_ms=999.0),
        request("scored", kind="loglikelihood", ttft_ms=999.0),
        request("no time", ttft_ms=None),
        request("no length", prompt_tokens=None, ttft_ms=7.0),
        request("edge", prompt_tokens=128, status="truncated", ttft_ms=8.0),
        request("measured", phase="measure", cell_id="c", ttft_ms=2.5),
    )
    sql = "SELECT phase, bucket, n, ttft_p50_ms, ttft_p95_ms FROM latency_by_bucket ORDER BY ALL"
    expected = [
        ("measure", "under 128", 1, 2.5, 2.5),
        ("quality", "128 to 511", 1, 8.0, 8.0),
        ("quality", "under 128", 3, 2.0, pytest.approx(2.9)),
        ("quality", None, 1, 7.0, 7.0),
    ]
    for _ in range(2):
        assert ask(home, sql) == expected
        compact_run(home=home, run_id=RUN)


def test_failures_are_of_last_attempts_with_their_reason(home: Path) -> None:
    put(
        home,
        "requests",
        request("fine"),
        request("healed", status="error", error="engine died"),
        request("healed", attempt=1),
        request("broke", status="ok"),
        request("broke", attempt=1, status="error", error="engine died twice"),
        request("form", status="invalid", violations=[{"path": "$.a", "message": "missing"}]),
        request("top", status="invalid", violations=[{"path": "", "message": "not an object"}]),
        request("mute", status="invalid", finish_reason="stop"),
        request("cut", status="truncated", output_tokens=100),
        request("cut unknown", status="truncated", output_tokens=None, finish_reason="length"),
        request("left", status="cancelled", finish_reason="abort"),
        request("no", status="refused", error="uniqueItems"),
        request("invalid and reused", status="invalid", reused=True, violations=[{"path": "$", "message": "m"}]),
    )
    assert dict(ask(home, "SELECT request_id, reason FROM failures")) == {
        "broke": "engine died twice",
        "form": "$.a: missing",
        "top": "not an object",
        "mute": None,
        "cut": "cut off after 100 tokens",
        "cut unknown": "length",
        "left": "abort",
        "no": "uniqueItems",
        "invalid and reused": "$: m",
    }


def score(sample_id: str, value: float | None, **more: Any) -> dict[str, Any]:
    row = {"dataset": "d", "sample_id": sample_id, "arm": "free", "repeat": 0, "metric": "m", "metric_version": 1}
    return row | {"value": value} | more


def test_flips_pair_what_is_the_same_and_only_that(home: Path) -> None:
    put(
        home,
        "scores",
        score("same", 1.0),
        score("lost", 1.0),
        score("unscored", 1.0),
        score("never scored", None),
        score("repeated", 0.0),
        score("repeated", 1.0, repeat=1),
        score("armless", 0.0, arm=None),
        score("other metric", 1.0, metric_version=1),
        score("only here", 1.0),
        score("revised", 0.0),
    )
    put(home, "scores", score("revised", 1.0), revision=1)
    put(
        home,
        "scores",
        score("same", 1.0),
        score("lost", 0.0),
        score("unscored", None),
        score("never scored", None),
        score("repeated", 1.0),
        score("repeated", 1.0, repeat=1),
        score("armless", 1.0, arm=None),
        score("other metric", 0.0, metric_version=2),
        score("revised", 1.0),
        run_id=LATER,
    )
    assert ask(home, f"SELECT sample_id, repeat, value_a, value_b FROM flips('{RUN}', '{LATER}') ORDER BY ALL") == [
        ("armless", 0, 0.0, 1.0),
        ("lost", 0, 1.0, 0.0),
        ("repeated", 0, 0.0, 1.0),
        ("unscored", 0, 1.0, None),
    ]
    assert ask(home, f"FROM flips('{RUN}', '{RUN}')") == []


def metric(name: str, value: float | None, **more: Any) -> dict[str, Any]:
    return {"scope": "dataset", "name": name, "arm": "free", "value": value, "n": 4} | more


def test_leaderboard_names_datasets_models_and_the_runs_status(home: Path) -> None:
    put(home, "runs", {"name": "n", "status": "cancelled", "started_at": NOW})
    put(home, "datasets", {"dataset": "d"}, {"dataset": "d.hard"})
    put(home, "engines", {"engine_id": "e1", "model": "m"}, {"engine_id": "e2", "model": "m"}, {"engine_id": "e3"})
    put(
        home,
        "metrics",
        metric("d.acc", 0.5),
        metric("d.hard.acc", None),
        metric("unknown.acc", 0.1),
        metric("timing.tpot_ms.p50", 9.0, scope="run", arm=None),
    )
    put(home, "metrics", metric("d.acc", 0.75), revision=1)  # the resumed session counted again
    put(home, "metrics", metric("rowless.acc", 0.2), run_id="no-row-in-runs")
    sql = "SELECT name, status, model, dataset, metric, value FROM leaderboard ORDER BY dataset"
    assert ask(home, sql) == [
        ("n", "cancelled", "m", "d", "acc", 0.75),
        ("n", "cancelled", "m", "d.hard", "acc", None),
        (None, None, None, "rowless", "acc", 0.2),
        ("n", "cancelled", "m", "unknown", "acc", 0.1),
    ]


def test_leaderboard_has_the_groups_of_datasets_too(home: Path) -> None:
    put(home, "datasets", {"dataset": "math"}, {"dataset": "math.hard"})
    put(
        home,
        "metrics",
        metric("math.acc", 0.5),
        metric("math.hard.acc", 0.3),
        metric("all.acc", 0.4, scope="group", n=8, lo=0.2, hi=0.6),
        metric("all.lm_eval.acc", None, scope="group", n=8),  # a metric's name may have a dot, a group's has none
    )
    sql = "SELECT scope, dataset, metric, value, lo, hi, n FROM leaderboard ORDER BY ALL"
    assert ask(home, sql) == [
        ("dataset", "math", "acc", 0.5, None, None, 4),
        ("dataset", "math.hard", "acc", 0.3, None, None, 4),
        ("group", "all", "acc", 0.4, 0.2, 0.6, 8),
        ("group", "all", "lm_eval.acc", None, None, None, 8),
    ]


def test_lift_is_guided_against_free_of_one_run(home: Path) -> None:
    row = {"dataset": "d", "metric": "m", "baseline": 0.5, "candidate": 0.7, "effect": 0.2}
    arms = [(RUN, "guided", "free"), (RUN, "repair", "free"), (RUN, "free", "guided"), (LATER, "guided", "free")]
    put(
        home,
        "comparisons",
        *({**row, "baseline_run_id": run, "candidate_arm": one, "baseline_arm": two} for run, one, two in arms),
    )
    assert ask(home, "SELECT run_id, free, guided, effect FROM guided_lift") == [(RUN, 0.5, 0.7, 0.2)]


def test_trend_is_in_order_of_time_and_shows_what_has_no_value(home: Path) -> None:
    for day, (run_id, value) in enumerate(((LATER, None), (RUN, 0.5))):
        put(home, "runs", {"status": "finished", "started_at": NOW + timedelta(days=day)}, run_id=run_id)
        put(home, "metrics", metric("d.acc", value), metric("d.acc2", 0.9), run_id=run_id)
    assert ask(home, "SELECT run_id, status, value FROM trend('d.acc')") == [
        (LATER, "finished", None),
        (RUN, "finished", 0.5),
    ]


def reading(second: float, power: float | None, energy: float | None, device: str = "GPU-1") -> dict[str, Any]:
    return {"ts": NOW + timedelta(seconds=second), "device": device, "power_w": power, "energy_j": energy}


def test_energy_is_of_sessions_not_of_the_pause_between_them(home: Path) -> None:
    put(home, "telemetry", reading(0, 100.0, 1_000.0), reading(10, 200.0, 2_000.0))
    put(home, "telemetry", reading(1_000, 100.0, 90_000.0), reading(1_010, 100.0, 90_500.0), revision=2)
    put(
        home,
        "requests",
        request("a", status="error", output_tokens=10),
        request("a", attempt=1, output_tokens=20),
        request("reused", reused=True, output_tokens=999),
        request("cancelled", status="cancelled", output_tokens=20),
        request("none", output_tokens=None),
    )
    sql = "SELECT seconds, mean_power_w, counter_j, power_j, output_tokens, counter_j_per_output_token FROM energy"
    for _ in range(2):
        assert ask(home, sql) == [(20.0, 125.0, 1_500.0, 2_500.0, 50, 30.0)]
        compact_run(home=home, run_id=RUN)


def test_energy_that_was_not_measured_is_null(home: Path) -> None:
    put(home, "telemetry", reading(0, None, None, "cpu"), reading(10, None, None, "cpu"))
    put(home, "telemetry", reading(0, 50.0, 7.0, "GPU-once"))
    sql = "SELECT device, mean_power_w, counter_j, power_j, counter_j_per_output_token FROM energy ORDER BY 1"
    assert ask(home, sql) == [("GPU-once", 50.0, None, None, None), ("cpu", None, None, None, None)]


def step(number: int, **more: Any) -> dict[str, Any]:
    row = {"engine_id": "e", "step": number, "stands_for": 1, "ts": NOW + timedelta(seconds=number), "running": 4}
    row |= {"waiting": 0, "prompt_tokens": 0, "decode_tokens": 4, "kv_usage": 0.25, "preempted": 0, "step_ms": 10.0}
    return row | {"prefix_queries": 0, "prefix_hits": 0} | more


def test_a_step_counts_for_those_that_it_stands_for(home: Path) -> None:
    put(
        home,
        "steps",
        step(0, prompt_tokens=100, decode_tokens=0, prefix_queries=200, prefix_hits=100, waiting=3, step_ms=50.0),
        step(1, preempted=1, kv_usage=0.5, running=8, decode_tokens=8),
        step(2000, stands_for=10),
        step(0, engine_id="older", stands_for=None, prompt_tokens=None, decode_tokens=None, kv_usage=None),
    )
    sql = """SELECT kept_steps, steps, prompt_tokens, decode_tokens, tokens_per_step, running_mean, waiting_max,
        kv_usage_mean, kv_usage_max, preempted, prefix_hit_rate, busy_s FROM engine_work ORDER BY engine_id"""
    for _ in range(2):
        found = ask(home, sql)
        assert found[0] == (
            *(3, 12, 100, 48, pytest.approx(148 / 12), pytest.approx(52 / 12), 3),
            *(pytest.approx(3.25 / 12), 0.5, 1, 0.5, pytest.approx(0.16)),
        )
        assert found[1][:5] == (1, 1, None, None, None), "a row of before there was a sampling stands for itself"
        assert (found[1][7], found[1][10]) == (None, None)
        compact_run(home=home, run_id=RUN)


def test_graphs_are_of_the_steps_that_tell_of_them(home: Path) -> None:
    put(home, "engines", {"engine_id": "gpu", "cudagraph_mode": "full"}, {"engine_id": "cpu"}, {"engine_id": "idle"})
    full = {"engine_id": "gpu", "graph_mode": "full", "graph_size": 8, "padded_tokens": 2, "decode_tokens": 6}
    put(
        home,
        "steps",
        step(0, engine_id="gpu", graph_mode="none", padded_tokens=0, prompt_tokens=60, decode_tokens=0, step_ms=90.0),
        step(1, **full),
        step(2, **full, stands_for=2),
        step(3, **full | {"graph_mode": "piecewise", "graph_size": 16}, prompt_tokens=8),
        step(0, engine_id="cpu"),
    )
    put(home, "requests", request("a", engine_id="gpu", tpot_ms=4.0), request("b", engine_id="gpu", tpot_ms=6.0))
    sql = """SELECT engine_id, steps, graph_share_steps, full_share_steps, graph_share_tokens, padding_share,
        sizes_used, decode_step_p50_ms, answers, tpot_p50_ms FROM graph_effect ORDER BY engine_id"""
    for _ in range(2):
        assert ask(home, sql) == [
            ("cpu", 1, None, None, None, None, None, 10.0, None, None),
            ("gpu", 5, 0.8, 0.6, pytest.approx(32 / 92), pytest.approx(8 / 100), [8, 16], 10.0, 2, 5.0),
            ("idle", None, None, None, None, None, None, None, None, None),
        ]
        compact_run(home=home, run_id=RUN)


def test_prompts_are_short_or_long_and_split_only_where_it_is_told(home: Path) -> None:
    put(home, "engines", {"engine_id": "e", "prefill_policy": "auto", "long_prefill_token_threshold": 512})
    put(
        home,
        "requests",
        request("a", engine_id="e", prompt_tokens=999, prefill_steps=1, ttft_ms=1.0),
        request("b", engine_id="e", prompt_tokens=10, prefill_steps=2, ttft_ms=3.0),
        request("c", engine_id="e", prompt_tokens=1000, prefill_steps=3, ttft_ms=9.0),
        request("d", engine_id="own core", prompt_tokens=1000, ttft_ms=9.0),
        request("warm", engine_id="e", phase="warmup", prefill_steps=9, ttft_ms=999.0),
        request("reused", engine_id="e", reused=True, prefill_steps=9, ttft_ms=999.0),
        request("scored", engine_id="e", kind="loglikelihood", prefill_steps=9),
    )
    sql = """SELECT engine_id, policy, threshold, prompts, n, split, steps_mean, steps_max, ttft_p50_ms
        FROM prefill_effect ORDER BY engine_id, prompts"""
    for _ in range(2):
        assert ask(home, sql) == [
            ("e", "auto", 512, "long", 1, 1, 3.0, 3, 9.0),
            ("e", "auto", 512, "short", 2, 1, 1.5, 2, 2.0),
            ("own core", None, None, "long", 1, None, None, None, 9.0),
        ]
        compact_run(home=home, run_id=RUN)


def test_no_view_of_metrics_opens_the_large_tables(home: Path) -> None:
    put(home, "requests", request("a"))
    put(home, "metrics", metric("d.acc", 1.0))
    for name in ("leaderboard", "guided_lift", "regressions", "trend('d.acc')"):
        plan = "\n".join(row[1] for row in ask(home, f"EXPLAIN FROM {name}"))
        assert "READ_PARQUET" not in plan.upper(), name
        assert "PARQUET_SCAN" not in plan.upper(), name


@pytest.mark.parametrize(
    "name",
    [
        "latency_by_bucket",
        "prefill_effect",
        "graph_effect",
        "engine_work",
        "failures",
        "energy",
        f"flips('{RUN}', '{LATER}')",
    ],
)
def test_a_condition_on_the_run_reaches_the_files(home: Path, name: str) -> None:
    for run_id in (RUN, LATER, "third", "fourth"):
        put(home, "requests", request("a"), run_id=run_id)
        put(home, "scores", score("a", 1.0), run_id=run_id)
        put(home, "telemetry", reading(0, 1.0, 1.0), run_id=run_id)
        put(home, "steps", step(0), run_id=run_id)
        put(home, "engines", {"engine_id": "e"}, run_id=run_id)
        compact_run(home=home, run_id=run_id)
    where = "" if name.startswith("flips") else f"WHERE run_id = '{RUN}'"
    plan = "\n".join(row[1] for row in ask(home, f"EXPLAIN ANALYZE FROM {name} {where}"))
    read = plan.count("Total Files Read: 4")
    assert read == 0, plan


def test_a_cell_of_a_sweep_has_the_figures_of_its_run(home: Path) -> None:
    def cell(index: int, run_id: str | None, **more: Any) -> dict[str, Any]:
        own = {"cell_index": index, "repeat": 0, "order_index": index, "name": f"c{index}", "state": "finished"}
        return own | {"cell_run_id": run_id, "built": True} | more

    def answer(name: str, **more: Any) -> dict[str, Any]:
        return request(name, **({"sent_at": NOW, "e2e_ms": 1_000.0, "tpot_ms": 20.0, "output_tokens": 8} | more))

    put(home, "runs", {"flow": "sweep", "name": "mine", "status": "finished"}, run_id=LATER)
    put(
        home,
        "sweep_cells",
        cell(0, "built"),
        cell(1, "reused", built=False),
        cell(2, "resumed"),
        cell(3, "late", state="timeout", error="the time limit was reached"),
        cell(4, None, state="failed", built=None, error="no"),
        cell(5, "cached"),
        run_id=LATER,
    )
    answers = [
        answer("a"),
        answer("b", ttft_ms=15.0, sent_at=NOW + timedelta(seconds=1), e2e_ms=3_000.0),
        answer("refused", status="refused", e2e_ms=None, output_tokens=None, ttft_ms=None),
        answer("scored", kind="loglikelihood", output_tokens=0, ttft_ms=900.0),
        answer("warm", phase="warmup", output_tokens=900),
    ]
    put(home, "requests", *answers, run_id="built")
    put(home, "requests", answer("a"), run_id="reused")
    put(home, "requests", answer("a"), run_id="resumed")
    put(home, "requests", answer("b"), run_id="resumed", revision=1)
    put(home, "requests", answer("a"), run_id="late")
    put(home, "requests", answer("a"), answer("b", reused=True), run_id="cached")
    put(home, "engines", {"engine_id": "e", "start_s": 12.0, "kv_tokens": 64}, run_id="built")
    put(home, "engines", {"engine_id": "e", "built_by": "built"}, run_id="reused")

    sql = (
        "SELECT cell, sweep, output_tokens_per_s, ttft_p50_ms, tpot_p50_ms, e2e_p50_ms FROM sweep_results ORDER BY ALL"
    )
    assert ask(home, sql) == [
        ("c0", "mine", 4.0, 10.0, 20.0, 2_000.0),  # 16 tokens from the first request to the last answer
        ("c1", "mine", 8.0, 5.0, 20.0, 1_000.0),
        *((f"c{index}", "mine", None, None, None, None) for index in (2, 3, 4, 5)),
    ]
    sql = "SELECT cell, built, built_by, start_s, saved_s, kv_tokens, answers FROM sweep_results WHERE run_id = '{}'"
    assert sorted(ask(home, sql.format(LATER))) == [
        ("c0", True, None, 12.0, None, 64, 3),
        ("c1", False, "built", None, 12.0, None, 1),
        ("c2", True, None, None, None, None, 2),
        ("c3", True, None, None, None, None, 1),
        ("c4", None, None, None, None, None, None),
        ("c5", True, None, None, None, None, 2),
    ]


def test_a_point_has_its_repeats_and_what_disturbed_them(home: Path) -> None:
    fill_load(home)
    sql = """SELECT point, kind, concurrency, cells, disturbed_cells, repeats, tpot_p50_ms, tpot_p50_lo, goodput_share
        FROM load_points"""
    assert ask(home, sql) == [("free-closed-4", "closed", 4, 2, 1, 2, pytest.approx(20.2), pytest.approx(19.6), None)]


def test_each_view_has_a_test_here() -> None:
    text = Path(__file__).read_text("utf-8")
    assert [
        each.name for each in definitions() if f"FROM {each.name}" not in text and f'"{each.name}' not in text
    ] == []
