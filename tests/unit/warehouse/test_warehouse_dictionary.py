"""The dictionary equals the schema, and every query in it runs and answers."""

from pathlib import Path

import pytest

from tests.unit.warehouse.load_rows import fill_load
from warehouse.dictionary import dictionary
from warehouse.query import query
from warehouse.schema import TABLES
from warehouse.views import Definition, definitions

README = Path(__file__).parents[3] / "warehouse" / "README.md"


def test_the_readme_is_what_the_generator_prints() -> None:
    assert README.read_text("utf-8") == dictionary(), "run python -m warehouse.dictionary > warehouse/README.md"


def test_everything_is_documented() -> None:
    for table in TABLES.values():
        assert table.doc.endswith(".")
        for column in table:
            assert column.doc.endswith((".", "…")), f"{table.name}.{column.name}"
            for suffix, unit in (("_ms", "ms"), ("_s", "s"), ("_bytes", "bytes"), ("_j", "J"), ("_w", "W")):
                if column.name.endswith(suffix):
                    assert column.unit.split("/")[0] == unit, f"{table.name}.{column.name}"


@pytest.mark.parametrize("definition", definitions(), ids=lambda each: each.name)
def test_every_example_answers(shared: Path, tmp_path: Path, definition: Definition) -> None:
    home = shared
    if definition.name == "load_points":  # few runs measure load, and those of the other tests do not
        home = tmp_path
        fill_load(home)
    assert query(home=home, sql=definition.example).rows


def test_leaderboard_splits_the_name_at_the_dataset(shared: Path) -> None:
    sql = "SELECT name, model, dataset, metric, arm, value, lo, hi, n FROM leaderboard ORDER BY run_id"
    assert query(home=shared, sql=sql).rows == [
        ("quickstart", "tiny", "arithmetic", "exact_match", "free", value, 0.1, 0.9, 2) for value in (0.5, 0.6)
    ]


def test_lift_is_within_a_run_and_regressions_between_runs(shared: Path) -> None:
    lift = query(home=shared, sql="SELECT run_id, effect FROM guided_lift ORDER BY ALL").rows
    assert lift == [("20261127T220355-3f9a2c", -0.1), ("20261128T220355-7b01de", -0.1)]
    worse = query(home=shared, sql="SELECT run_id, baseline_run_id, candidate_arm FROM regressions").rows
    assert worse == [("20261128T220355-7b01de", "20261127T220355-3f9a2c", "free")]


def test_failures_give_reason_and_start_of_the_last_attempt(shared: Path) -> None:
    rows = query(home=shared, sql="SELECT sample_id, status, reason, length(output_start) FROM failures").rows
    assert rows == [("1", "invalid", "$.a: missing", 200)] * 2


def test_latency_is_by_prompt_length(shared: Path) -> None:
    sql = "SELECT bucket, n, ttft_p50_ms, tpot_p50_ms FROM latency_by_bucket WHERE run_id < '20261128' ORDER BY 1 DESC"
    assert query(home=shared, sql=sql).rows == [("under 128", 2, 10.5, None), ("128 to 511", 1, 12.0, None)]


def test_energy_is_by_counter_and_by_power(shared: Path) -> None:
    sql = "SELECT counter_j, power_j, seconds, output_tokens, counter_j_per_output_token FROM energy"
    assert query(home=shared, sql=sql).rows == [(1000.0, 2200.0, 20.0, 16, 62.5)] * 2


def test_flips_and_trend(shared: Path) -> None:
    flips = (
        "FROM flips('20261127T220355-3f9a2c', '20261128T220355-7b01de') SELECT sample_id, value_a, value_b ORDER BY 1"
    )
    assert query(home=shared, sql=flips).rows == [("0", 1.0, 0.0), ("1", 0.0, 1.0)]
    trend = "SELECT value FROM trend('arithmetic.exact_match')"
    assert query(home=shared, sql=trend).rows == [(0.5,), (0.6,)]
    assert query(home=shared, sql="FROM trend('no.such')").rows == []
