"""What a gate comes to: against an earlier run, against a number, for a group, where it cannot be judged."""

from pathlib import Path

import pytest

from schemas.errors import ConfigError
from schemas.experiment import Group
from schemas.gate import gate_exit_code, overall
from tasks.compare.promote import promote
from tasks.gate.check import check_gates
from tasks.gate.evaluate import evaluate
from tasks.gate.group import combined
from tasks.gate.rules import against_number, without
from tests.unit.gate.nights import ACC, FIRST, SECOND, THIRD, binary, gate, judge, judged, night
from warehouse.parquet import read_rows, write_rows
from warehouse.query import query

SAME = binary(n=400, right=200)
WORSE = binary(n=400, right=200, flipped_down=60, flipped_up=2)
SLIGHTLY = binary(n=400, right=200, flipped_down=8, flipped_up=2)


def words(*found: object) -> list[str]:
    return [each.verdict for each in found]  # type: ignore[attr-defined]


def test_the_first_night_is_skipped_and_green_and_a_loss_is_caught(tmp_path: Path) -> None:
    night(tmp_path, FIRST, {ACC: SAME}, gates=[gate()])
    first = judge(tmp_path, FIRST, gate())
    assert words(*first.verdicts) == ["skipped"] and first.exit_code == 0
    assert first.verdicts[0].reason == "no earlier green run of nightly has d.acc (free) yet"

    night(tmp_path, SECOND, {ACC: WORSE}, gates=[gate()])
    second = judge(tmp_path, SECOND, gate())
    [verdict] = second.verdicts
    assert (verdict.verdict, verdict.baseline_run_id, second.exit_code) == ("failed", FIRST, 3)
    assert verdict.effect == pytest.approx(-58 / 400) and verdict.hi is not None and verdict.hi < -0.02
    assert (verdict.n_pairs, verdict.unit, verdict.direction) == (400, "share", "higher")
    assert len(second.comparisons[0].flips) == 62

    # The failed night is not what the third is held against.
    night(tmp_path, THIRD, {ACC: WORSE}, gates=[gate()])
    third = judge(tmp_path, THIRD, gate())
    assert words(*third.verdicts) == ["failed"] and third.verdicts[0].baseline_run_id == FIRST


def test_a_night_that_is_not_decided_is_not_green(tmp_path: Path) -> None:
    night(tmp_path, FIRST, {ACC: SAME}, gates=[gate()])
    judge(tmp_path, FIRST, gate())
    night(tmp_path, SECOND, {ACC: SLIGHTLY}, gates=[gate()])
    second = judge(tmp_path, SECOND, gate())
    assert words(*second.verdicts) == ["undecided"] and second.exit_code == 0
    needed = second.verdicts[0].n_needed
    assert needed is not None and needed > 400
    assert judge(tmp_path, SECOND, gate(on_undecided="fail"), save=False).exit_code == 3
    night(tmp_path, THIRD, {ACC: SLIGHTLY}, gates=[gate()])
    assert judge(tmp_path, THIRD, gate()).verdicts[0].baseline_run_id == FIRST


def test_a_night_whose_gates_were_never_judged_is_not_green(tmp_path: Path) -> None:
    night(tmp_path, FIRST, {ACC: SAME}, gates=[gate()])
    night(tmp_path, SECOND, {ACC: SAME}, gates=[gate()])
    assert words(*judge(tmp_path, SECOND, gate()).verdicts) == ["skipped"]
    judge(tmp_path, FIRST, gate())
    assert words(*judge(tmp_path, SECOND, gate()).verdicts) == ["passed"]


def test_runs_without_gates_are_green_and_the_scope_is_experiment_model_dataset(tmp_path: Path) -> None:
    night(tmp_path, FIRST, {ACC: SAME})
    night(tmp_path, SECOND, {ACC: SAME}, name="another")
    night(tmp_path, THIRD, {ACC: SAME}, gates=[gate()])
    assert judge(tmp_path, THIRD, gate(), save=False).verdicts[0].baseline_run_id == FIRST

    for run_id, changes in ((FIRST, {"model": "other"}), (SECOND, {"status": "failed"})):
        other = tmp_path / run_id
        night(other, run_id, {ACC: SAME}, **changes)
        night(other, THIRD, {ACC: SAME}, gates=[gate()])
        assert words(*judge(other, THIRD, gate(), save=False).verdicts) == ["skipped"]
    third = tmp_path / "no-such-arm"
    night(third, FIRST, {("d", "acc", "guided"): SAME})
    night(third, THIRD, {ACC: SAME}, gates=[gate()])
    assert words(*judge(third, THIRD, gate(), save=False).verdicts) == ["skipped"]


def test_a_trial_on_a_few_rows_does_not_take_the_place_of_a_whole_night(tmp_path: Path) -> None:
    night(tmp_path, FIRST, {ACC: SAME}, fingerprint="all")
    night(tmp_path, SECOND, {ACC: binary(n=5, right=5)}, fingerprint="five")
    night(tmp_path, THIRD, {ACC: SAME}, fingerprint="all", gates=[gate()])
    assert judge(tmp_path, THIRD, gate(), save=False).verdicts[0].baseline_run_id == FIRST
    # Other rows than any night before: the newest is what there is.
    changed = tmp_path / "changed"
    night(changed, FIRST, {ACC: SAME}, fingerprint="old")
    night(changed, SECOND, {ACC: SAME}, fingerprint="older")
    night(changed, THIRD, {ACC: SAME}, fingerprint="new", gates=[gate()])
    assert judge(changed, THIRD, gate(), save=False).verdicts[0].baseline_run_id == SECOND


def test_a_pinned_baseline_catches_what_many_small_losses_hide(tmp_path: Path) -> None:
    """Each night loses a little less than the margin: last_green passes, the pinned run does not."""
    wide = gate(margin=0.06, against=["last_green", "baseline:main"])
    night(tmp_path, FIRST, {ACC: binary(n=400, right=200)})
    promote(tmp_path, FIRST, name="main")
    night(tmp_path, SECOND, {ACC: binary(n=400, right=188)}, gates=[wide])
    assert words(*judge(tmp_path, SECOND, wide).verdicts) == ["passed", "passed"]
    night(tmp_path, THIRD, {ACC: binary(n=400, right=160)}, gates=[gate(margin=0.1), wide])
    third = judge(tmp_path, THIRD, gate(margin=0.1), wide, save=False)
    assert words(*third.verdicts) == ["passed", "undecided", "failed"]
    assert [each.baseline_run_id for each in third.verdicts] == [SECOND, SECOND, FIRST]
    assert len(third.comparisons) == 2
    smallest = min(each.p_value for each in third.verdicts if each.p_value is not None)
    assert third.verdicts[2].p_adjusted == pytest.approx(3 * smallest), "Holm over all gates"


def test_a_pinned_baseline_that_is_not_there_stops_before_anything(tmp_path: Path) -> None:
    night(tmp_path, FIRST, {ACC: SAME})
    with pytest.raises(ConfigError, match="assay promote RUN --as baseline:main makes one"):
        evaluate(judged(tmp_path, FIRST), [gate(against="baseline:main")])
    # Gone while the run ran: the answers are there, and the gate cannot pass.
    found = evaluate(judged(tmp_path, FIRST), [gate(against="baseline:main")], within_run=True)
    assert words(*found.verdicts) == ["refused"] and found.exit_code == 2


class _Experiment:
    def __init__(self, *gates: object) -> None:
        self.gates = gates
        self.benchmark = None
        self.arms = ["free"]


def test_what_is_looked_at_before_the_engine_starts(tmp_path: Path) -> None:
    night(tmp_path, FIRST, {ACC: SAME})
    promote(tmp_path, FIRST, name="main")
    night(tmp_path, SECOND, {ACC: SAME}, status="failed")

    def check(*gates: object) -> None:
        check_gates(tmp_path, _Experiment(*gates))  # type: ignore[arg-type]

    check(gate(against=["last_green", "baseline:main", FIRST]))
    for against, metric, says in (
        ("baseline:mian", "d.acc", r"gates\[0\].against: there is no baseline:mian .did you mean `main`"),
        ("20261120T080000-aaaaab", "d.acc", "did you mean"),
        (SECOND, "d.acc", "is failed: only a finished run"),
        ("baseline:main", "d.other", f"run {FIRST}. has no d.other in its arm free"),
    ):
        with pytest.raises(ConfigError, match=says):
            check(gate(against=against, metric=metric))


def test_a_number_is_judged_by_the_ends_of_the_interval(tmp_path: Path) -> None:
    night(tmp_path, FIRST, {ACC: SAME})  # 0.5, from 0.451 to 0.549

    def came_to(**rule: object) -> object:
        [found] = judge(tmp_path, FIRST, gate(margin=None, against=None, **rule), save=False).verdicts
        return found

    for rule, value, verdict in (
        ("at_least", 0.45, "passed"),
        ("at_least", 0.5, "undecided"),
        ("at_least", 0.55, "failed"),
        ("at_most", 0.55, "passed"),
        ("at_most", 0.52, "undecided"),
        ("at_most", 0.45, "failed"),
    ):
        assert came_to(rule=rule, value=value).verdict == verdict  # type: ignore[attr-defined]
    decided = came_to(rule="at_least", value=0.48)
    assert decided.n_needed == pytest.approx(400 * ((0.5 - 0.4512) / 0.02) ** 2, rel=0.02)  # type: ignore[attr-defined]
    assert words(came_to(rule="at_least", value=0.1, metric="d.none")) == ["refused"]
    bare = gate(rule="at_least", value=0.5, margin=None, against=None)
    row = {"value": 0.9, "lo": None, "hi": None, "n": 1, "unit": "share", "direction": "higher", "method": "none"}
    assert against_number(bare, number=1, row=row).verdict == "undecided"
    assert against_number(bare, number=1, row=row | {"value": None}).verdict == "refused"


def test_a_metric_as_good_as_on_its_bound_is_decided_by_no_number_of_samples(tmp_path: Path) -> None:
    almost = gate(rule="at_least", value=0.1 + 0.2, margin=None, against=None)
    night(tmp_path, FIRST, {ACC: binary(n=40, right=12)}, gates=[almost])
    [verdict] = judge(tmp_path, FIRST, almost).verdicts
    assert (verdict.verdict, verdict.n_needed) == ("undecided", None)
    assert [row["n_needed"] for row in read_rows(tmp_path, "gates", FIRST)] == [None]


@pytest.mark.parametrize("side", ["candidate", "baseline"])
def test_answers_that_were_reused_are_refused(tmp_path: Path, side: str) -> None:
    night(tmp_path, FIRST, {ACC: SAME}, reused=side == "baseline")
    night(tmp_path, SECOND, {ACC: SAME}, reused=side == "candidate")
    number = gate(rule="at_least", value=0.1, margin=None, against=None)
    found = judge(tmp_path, SECOND, gate(), number, save=False)
    assert words(*found.verdicts) == ["refused", "refused" if side == "candidate" else "passed"]
    assert found.exit_code == 2 and "came from an earlier run" in str(found.verdicts[0].reason)


def test_one_metric_that_does_not_compare_leaves_the_others_judged(tmp_path: Path) -> None:
    other = ("e", "acc", "free")
    night(tmp_path, FIRST, {ACC: SAME, other: {"x": 1.0, "y": 0.0}}, targets={"x": "old"})
    night(tmp_path, SECOND, {ACC: WORSE, other: {"x": 1.0, "y": 0.0}}, targets={"x": "new"})
    run = judged(tmp_path, SECOND, datasets=("d", "e"))
    found = evaluate(run, [gate(metric="e.acc", against=FIRST), gate(against=FIRST)])
    assert words(*found.verdicts) == ["refused", "failed"]
    assert "1 of 2 samples have another target" in str(found.verdicts[0].reason)
    assert (overall(found.verdicts), found.exit_code) == ("failed", 3)


def test_a_group_is_the_mean_of_its_datasets(tmp_path: Path) -> None:
    parts = {("a", "acc", "free"): binary(n=300, right=150), ("b", "acc", "free"): binary(n=100, right=50)}
    lost = {
        ("a", "acc", "free"): binary(n=300, right=150, flipped_down=30),
        ("b", "acc", "free"): binary(n=100, right=50, flipped_down=50),
    }
    night(tmp_path, FIRST, parts)
    night(tmp_path, SECOND, lost)
    for weight, effect in (("equal", -(30 / 300 + 50 / 100) / 2), ("size", -80 / 400)):
        groups = {"all": Group(datasets=["*"], metric="acc", weight=weight)}
        run = judged(tmp_path, SECOND, groups=groups, datasets=("a", "b"))
        found = evaluate(run, [gate(metric="all.acc", against=FIRST)])
        [verdict] = found.verdicts
        assert verdict.verdict == "failed" and verdict.effect == pytest.approx(effect)
        assert verdict.n_pairs == 400 and verdict.method == f"mover_{'macro' if weight == 'equal' else 'weighted'}"
        assert {result.name for result in found.comparisons[0].results} == {"a.acc", "b.acc"}
        assert verdict.lo is not None and verdict.hi is not None and verdict.lo < effect < verdict.hi < -0.02
    run = judged(tmp_path, SECOND, groups={"all": Group(datasets=["*"], metric="acc")}, datasets=("a", "b", "c"))
    assert words(*evaluate(run, [gate(metric="all.acc", against=FIRST)]).verdicts) == ["refused"]


def test_a_group_can_be_held_against_the_last_green_run(tmp_path: Path) -> None:
    for run_id in (FIRST, SECOND):
        night(tmp_path, run_id, {ACC: SAME})
    run = judged(tmp_path, SECOND, groups={"all": Group(datasets=["*"], metric="acc")})
    card = {"scope": "group", "name": "all.acc", "arm": "free", "value": 0.5}
    write_rows(home=tmp_path, table="metrics", run_id=FIRST, rows=[card], part="group", revision=2)
    found = evaluate(run, [gate(metric="all.acc", against="last_green")])
    assert [(each.verdict, each.baseline_run_id) for each in found.verdicts] == [("passed", FIRST)]


def test_the_interval_of_a_group_of_one_is_that_of_its_dataset(tmp_path: Path) -> None:
    night(tmp_path, FIRST, {ACC: SAME})
    night(tmp_path, SECOND, {ACC: WORSE})
    comparison = judge(tmp_path, SECOND, gate(against=FIRST), save=False).comparisons[0].results[0].comparison
    whole = combined([comparison], name="g", metric="acc", weight="equal")
    assert (whole.effect, whole.lo, whole.hi) == pytest.approx((comparison.effect, comparison.lo, comparison.hi))
    twice = combined([comparison, comparison], name="g", metric="acc", weight="equal")
    assert twice.lo is not None and comparison.lo is not None and comparison.effect is not None
    assert comparison.effect - twice.lo == pytest.approx((comparison.effect - comparison.lo) / 2**0.5)


def test_what_is_kept_is_found_by_sql_and_replaced_by_the_next(tmp_path: Path) -> None:
    night(tmp_path, FIRST, {ACC: SAME})
    night(tmp_path, SECOND, {ACC: WORSE}, gates=[gate()])
    judge(tmp_path, SECOND, gate())
    sql = "SELECT gate, metric, against, baseline_run_id, verdict, margin, n_pairs FROM gates"
    assert query(home=tmp_path, sql=sql).rows == [(1, "d.acc", "last_green", FIRST, "failed", 0.02, 400)]
    assert query(home=tmp_path, sql="SELECT metric, verdict FROM comparisons").rows == [("acc", "worse")]
    assert query(home=tmp_path, sql="SELECT run_id, baseline_run_id FROM regressions").rows == [(SECOND, FIRST)]
    judge(tmp_path, SECOND, gate(margin=0.5))
    assert query(home=tmp_path, sql="SELECT verdict, margin FROM gates").rows == [("passed", 0.5)]
    assert query(home=tmp_path, sql="FROM regressions").rows == []


def test_all_together_are_the_worst_of_them() -> None:
    def made(word: str, **changes: object) -> object:
        return without(gate(**changes), number=1, against="last_green", verdict=word, reason="r")  # type: ignore[arg-type]

    for verdicts, word, code in (
        ([], "skipped", 0),
        (["skipped"], "skipped", 0),
        (["skipped", "passed"], "passed", 0),
        (["undecided", "passed"], "undecided", 0),
        (["refused", "undecided"], "refused", 2),
        (["refused", "failed", "passed"], "failed", 3),
    ):
        found = [made(each) for each in verdicts]
        assert (overall(found), gate_exit_code(found)) == (word, code)  # type: ignore[arg-type]
    strict = [made("undecided", on_undecided="fail")]
    assert (overall(strict), gate_exit_code(strict)) == ("failed", 3)  # type: ignore[arg-type]


def test_a_cell_of_a_sweep_is_never_the_last_green(tmp_path: Path) -> None:
    night(tmp_path, FIRST, {ACC: SAME})
    [row] = read_rows(tmp_path, "runs", FIRST, parse_json=True)
    row |= {"parent_run_id": "20261120T000000-aaaaaa"}
    revision = row.pop("revision") + 1
    write_rows(home=tmp_path, table="runs", run_id=FIRST, rows=[row], part="below", revision=revision)
    night(tmp_path, SECOND, {ACC: SAME}, gates=[gate()])
    [verdict] = judge(tmp_path, SECOND, gate()).verdicts
    assert (verdict.verdict, verdict.baseline_run_id) == ("skipped", None)


def test_a_run_that_measured_noise_is_never_the_last_green(tmp_path: Path) -> None:
    night(tmp_path, FIRST, {ACC: SAME}, tags={"noise": "at-16"})
    night(tmp_path, SECOND, {ACC: SAME}, gates=[gate()])
    [verdict] = judge(tmp_path, SECOND, gate()).verdicts
    assert (verdict.verdict, verdict.baseline_run_id) == ("skipped", None)
