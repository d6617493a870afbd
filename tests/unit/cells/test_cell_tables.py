"""What came of cells in rows of text: every state, intervals where there are some, a dash for what was not measured."""

from pathlib import Path

from real_runs import FIRST, KEPT, SECOND, result

from schemas.cell_figures import Changed, Effect, Figure
from tasks.cells import figure_words as words
from tasks.cells.effects import effects, with_holm
from tasks.cells.tables import (
    Ablated,
    Arm,
    CellRun,
    ablation_table,
    cell_runs,
    cells_table,
    comparison_table,
    effects_table,
    sweep_rows,
)

DASH = "–"


def effect(figure: str, **more: object) -> Effect:
    asked = {"figure": figure, "unit": "ms", "direction": "lower", "control": 100.0, "candidate": 50.0, "ratio": 0.5}
    asked |= {"difference": None, "lo": None, "hi": None, "rounds": 1, "method": "none", "verdict": "undecided"}
    return Effect(**(asked | more))  # type: ignore[arg-type]


def test_a_sweep_has_a_row_for_each_run_in_the_order_of_the_cells() -> None:
    results = [
        result(1, run_id=SECOND, built=False, repeat=1),
        result(0, run_id=FIRST, built=True),
        result(1, run_id=SECOND, built=True),
        result(2, state="failed", error="out of memory\nmore of it", run_id=FIRST, seconds=None),
        result(3, state="waiting", seconds=None),
    ]
    rows = sweep_rows(KEPT, results)
    assert [(row["cell"], row["repeat"], row["state"], row["engine"]) for row in rows] == [
        ("max_num_seqs=0", "1", "finished", "built"),
        ("max_num_seqs=1", "1", "finished", "built"),
        ("max_num_seqs=1", "2", "finished", "reused"),
        ("max_num_seqs=2", "1", "failed", DASH),
        ("max_num_seqs=3", "1", "waiting", DASH),
    ]
    assert rows[0]["tokens/s"] == "30.3" and rows[0]["e2e p50"] == "21,411 ms" and rows[0]["start"] == "23.3\u00a0s"
    assert [row["error"] for row in rows] == ["", "", "", "out of memory", ""]
    # Its run has rows, but not those of the same work.
    assert rows[3]["tokens/s"] == rows[4]["tokens/s"] == rows[4]["time"] == DASH
    assert all(row.keys() == rows[0].keys() for row in rows)
    assert "J/token" not in rows[0] and "repeat" not in sweep_rows(KEPT, results[1:2])[0]


def test_repeats_of_a_cell_are_one_row_with_an_interval() -> None:
    runs = cell_runs(KEPT, [result(0, run_id=FIRST), result(0, repeat=1, run_id=SECOND), result(1, state="timeout")])
    together, lost = cells_table(runs)
    assert together["finished"] == "2 of 2" and together["tokens/s"].startswith("12.5 [")
    assert lost["finished"] == "0 of 1" and lost["tokens/s"] == DASH


def test_an_ablation_says_ratio_interval_and_what_was_not_measured() -> None:
    decided = effect("e2e_ms.p50", lo=0.45, hi=0.56, rounds=3, verdict="better")
    changed = Changed(samples=24, changed=3, control_samples=24, control_changed=1, left_out=0, arms={})
    rows = ablation_table(
        [Ablated(name="a", effects=[decided], changed=changed), Ablated(name="b", failed=["no memory\nat all"])]
    )
    assert rows[0]["e2e p50"] == "0.50× [0.45, 0.56]" and rows[0]["rounds"] == "3" and rows[0]["failed"] == ""
    assert rows[0]["answers changed"] == "3 of 24 (control itself 1 of 24)"
    assert rows[0]["tokens/s"] == rows[0]["J/token"] == rows[1]["e2e p50"] == rows[1]["answers changed"] == DASH
    assert (rows[1]["rounds"], rows[1]["failed"]) == ("0", "no memory")


def test_every_effect_of_real_runs_is_a_row() -> None:
    found = with_holm({"again": effects(KEPT, control=[FIRST], candidate=[SECOND])})
    rows = effects_table([Ablated(name="again", effects=found["again"])])
    by_figure = {row["figure"]: row for row in rows}
    assert len(rows) == len(found["again"]) and all(row["setting"] == "again" for row in rows)
    assert by_figure["KV tokens"]["verdict"] == "same" and by_figure["KV tokens"]["effect"] == "1.00×"
    quality = by_figure["arithmetic.exact_match, free"]
    assert quality["effect"] == "0.000 [−0.490, +0.490]" and quality["verdict"] == "same"
    assert quality["control"] == quality["candidate"]
    [only] = effects_table([Ablated(name="again", effects=found["again"])], figures=["e2e_ms.p50"])
    assert only["figure"] == "e2e p50" and only["p, Holm"] == DASH


def test_three_arms_stand_side_by_side_and_the_first_against_the_others() -> None:
    figures = [run.figures for run in cell_runs(KEPT, [result(0, run_id=FIRST), result(1, run_id=SECOND)])]
    arms = [
        Arm(name="winner", figures=figures[:1]),
        Arm(name="plan", figures=figures[1:]),
        Arm(name="default", figures=[{}]),
    ]
    rows = comparison_table(arms, {"plan": effects(KEPT, control=[SECOND], candidate=[FIRST])})
    rate = next(row for row in rows if row["figure"] == "tokens/s")
    assert (rate["winner"], rate["plan"], rate["default"]) == ("30.3", "5.18", DASH)
    assert rate["winner / plan"] == "5.85× undecided" and "winner / default" not in rate
    assert "arithmetic.exact_match, free" in [row["figure"] for row in rows]


def test_numbers_read_as_they_do_elsewhere() -> None:
    assert [words.plain_value(amount, unit) for amount, unit in ((0.25, "s"), (2**30, "bytes"), (0.5, "share"))] == [
        "250\u00a0ms",
        "1.00\u00a0GiB",
        "50\u00a0%",
    ]
    assert words.value(Figure(name="quality.free.d.m", value=0.5, unit="share", direction="higher")) == "0.500"
    assert words.effect(effect("e2e_ms.p50", ratio=0.004, lo=0.001, hi=2000.0)) == "<0.01× [<0.01, >1,000]"
    assert words.title("quality.free.my.data.exact_match") == "my.data.exact_match, free"
    assert words.first_line("x" * 200).endswith("…") and words.first_line(None) == ""


def test_a_cell_without_a_run_has_no_figures(tmp_path: Path) -> None:
    assert cell_runs(tmp_path, [result(0, state="cancelled")]) == [CellRun(result=result(0, state="cancelled"))]
