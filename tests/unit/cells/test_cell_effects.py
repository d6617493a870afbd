"""A candidate against its control: ratios over rounds, quality by sample, answers that changed."""

import math
from pathlib import Path

import pytest
from real_runs import FIRST, KEPT, SECOND, Row, generated, written

from schemas.cell_figures import Effect, Figure
from tasks.cells.answers import answers_changed
from tasks.cells.effects import effects, figure_effects, quality_effects, with_holm
from tasks.cells.spread import over_repeats
from tasks.compare.runs import compare_runs

CONTROL = ("20261201T080000-aaaaaa", "20261201T080100-bbbbbb")
CANDIDATE = ("20261201T080200-cccccc", "20261201T080300-dddddd")


def run(**values: float) -> dict[str, Figure]:
    """A run's figures; the directions and units of the real ones."""
    kinds = {
        "e2e": ("e2e_ms.p50", "ms", "lower"),
        "rate": ("throughput.output_tokens_per_s", "tokens/s", "higher"),
        "preempted": ("engine.preemptions", "requests", "lower"),
        "hits": ("engine.prefix_hit_rate", "share", "higher"),
        "start": ("start_s", "s", "lower"),
        "cold": ("start.cold", "yes or no", "none"),
    }
    named = {name: kinds[name] for name in values}
    return {
        full: Figure(name=full, value=values[name], unit=unit, direction=direction)  # type: ignore[arg-type]
        for name, (full, unit, direction) in named.items()
    }


def one(control: list[dict[str, Figure]], candidate: list[dict[str, Figure]]) -> Effect:
    [found] = figure_effects(control=control, candidate=candidate)
    return found


def test_a_ratio_is_the_geometric_mean_with_the_t_interval_of_the_logarithms() -> None:
    found = one([run(e2e=100), run(e2e=110), run(e2e=120)], [run(e2e=50), run(e2e=60), run(e2e=54)])
    logs = [math.log(50 / 100), math.log(60 / 110), math.log(54 / 120)]
    mean = sum(logs) / 3
    stderr = math.sqrt(sum((each - mean) ** 2 for each in logs) / 2 / 3)
    assert found.ratio == pytest.approx(math.exp(mean)) and found.candidate / found.control == pytest.approx(
        found.ratio
    )
    assert found.lo == pytest.approx(math.exp(mean - 4.302653 * stderr))  # t with two degrees of freedom
    assert found.hi == pytest.approx(math.exp(mean + 4.302653 * stderr))
    assert (found.verdict, found.rounds, found.difference) == ("better", 3, None)
    assert found.p_value is not None and 0 < found.p_value < 0.05


def test_the_side_of_one_that_is_better_depends_on_the_figure() -> None:
    control, candidate = [run(rate=100), run(rate=101)], [run(rate=50), run(rate=50.2)]
    assert one(control, candidate).verdict == "worse"
    assert one(candidate, control).verdict == "better"


def test_an_interval_with_one_in_it_decides_nothing_and_one_round_never_does() -> None:
    assert one([run(e2e=100), run(e2e=100)], [run(e2e=90), run(e2e=108)]).verdict == "undecided"
    found = one([run(e2e=100)], [run(e2e=10)])
    assert (found.verdict, found.ratio, found.lo, found.hi, found.p_value) == (
        "undecided",
        pytest.approx(0.1),
        None,
        None,
        None,
    )


def test_same_is_only_what_is_equal_in_every_round() -> None:
    assert one([run(e2e=100)], [run(e2e=100)]).verdict == "same"
    assert one([run(e2e=100), run(e2e=90)], [run(e2e=100), run(e2e=90.1)]).verdict != "same"


def test_counts_and_shares_are_told_apart_by_their_difference() -> None:
    found = one([run(preempted=0), run(preempted=1)], [run(preempted=4), run(preempted=4)])
    assert (found.ratio, found.difference, found.control, found.candidate) == (None, 3.5, 0.5, 4.0)
    hits = one([run(hits=0.5), run(hits=0.5)], [run(hits=0.75), run(hits=0.75)])
    assert (hits.ratio, hits.difference, hits.lo, hits.hi, hits.verdict) == (None, 0.25, 0.25, 0.25, "better")


def test_a_cold_start_is_not_held_against_a_warm_one() -> None:
    control = [run(start=60, cold=1), run(start=10, cold=0)]
    candidate = [run(start=12, cold=0), run(start=12, cold=0)]
    found = one(control, candidate)
    assert (found.figure, found.rounds, found.ratio) == ("start_s", 1, pytest.approx(1.2))


def test_a_figure_that_one_side_lacks_is_left_out_and_sides_must_be_of_a_length() -> None:
    found = figure_effects(control=[run(e2e=1, rate=2), run(e2e=1)], candidate=[run(e2e=1), run(e2e=1, rate=2)])
    assert [each.figure for each in found] == ["e2e_ms.p50"]
    with pytest.raises(ValueError, match="shorter"):
        figure_effects(control=[run(e2e=1)], candidate=[])


def test_holm_adjusts_over_the_candidates_of_a_control() -> None:
    control = [run(e2e=100), run(e2e=101), run(e2e=102)]
    found = {
        name: figure_effects(control=control, candidate=[run(e2e=each) for each in times])
        for name, times in {"a": (50, 52, 51), "b": (95, 99, 96), "c": (100, 101, 102)}.items()
    }
    adjusted = {name: own[0] for name, own in with_holm(found).items()}
    plain = {name: own[0].p_value for name, own in found.items()}
    assert plain["c"] is None and adjusted["c"].p_adjusted is None
    assert adjusted["a"].p_adjusted == pytest.approx(2 * plain["a"])
    assert adjusted["b"].p_adjusted == pytest.approx(max(plain["b"], 2 * plain["a"]))
    assert [each.verdict for each in adjusted.values()] == [own[0].verdict for own in found.values()]


def test_repeats_have_a_geometric_mean_where_the_figure_is_a_time() -> None:
    found = over_repeats([run(e2e=50, hits=0.2), run(e2e=200, hits=0.4), run(rate=1)])
    assert found["e2e_ms.p50"].value == pytest.approx(100) and found["e2e_ms.p50"].n == 2
    assert found["engine.prefix_hit_rate"].value == pytest.approx(0.3)
    assert (found["throughput.output_tokens_per_s"].lo, found["throughput.output_tokens_per_s"].n) == (None, 1)


def flipped(sample_ids: set[str]) -> dict[str, object]:
    """Makes the exact match of these samples of the free arm right."""

    def score(row: Row) -> Row:
        wanted = row["arm"] == "free" and row["metric"] == "exact_match" and row["sample_id"] in sample_ids
        return row | {"value": 1.0} if wanted else row

    return {"scores": score}


def test_quality_with_one_round_is_what_a_comparison_of_the_two_runs_says(tmp_path: Path) -> None:
    wrong = {row["sample_id"] for row in generated() if row["dataset"] == "arithmetic"}
    written(tmp_path, CONTROL[0])
    written(tmp_path, CANDIDATE[0], of=SECOND, changes=flipped(wrong))
    found = {each.figure: each for each in quality_effects(tmp_path, control=CONTROL[:1], candidate=CANDIDATE[:1])}
    compared = compare_runs(home=tmp_path, candidate=CANDIDATE[0], baseline=CONTROL[0]).results
    assert len(compared) == len(found) == 10 and found["quality.free.arithmetic.exact_match"].difference > 0.5
    for result in compared:
        own = result.comparison
        effect = found[f"quality.{own.candidate_arm}.{own.dataset}.{own.metric}"]
        assert (effect.difference, effect.lo, effect.hi, effect.p_value) == (own.effect, own.lo, own.hi, own.p_value)
        assert (effect.control, effect.candidate, effect.samples) == (own.baseline, own.candidate, own.n_pairs)


def test_rounds_of_equal_answers_do_not_make_chance_a_fact(tmp_path: Path) -> None:
    ids = sorted({row["sample_id"] for row in generated() if row["dataset"] == "arithmetic"})
    for run_id in CONTROL:
        written(tmp_path, run_id)
    for run_id in CANDIDATE:
        written(tmp_path, run_id, changes=flipped({ids[0], ids[1], ids[2]}))
    found = {each.figure: each for each in quality_effects(tmp_path, control=CONTROL, candidate=CANDIDATE)}
    effect = found["quality.free.arithmetic.exact_match"]
    assert effect.difference is not None and effect.difference > 0 and (effect.rounds, effect.samples) == (2, 4)
    assert effect.lo is not None and effect.hi is not None and effect.lo < 0 < effect.hi
    assert effect.verdict == "undecided"
    assert found["quality.guided.arithmetic.exact_match"].verdict == "same"


def test_effects_of_two_real_runs_have_every_side() -> None:
    found = {each.figure: each for each in effects(KEPT, control=[FIRST], candidate=[SECOND])}
    assert found["memory.kv_tokens"].verdict == "same"
    assert found["e2e_ms.p50"].ratio is not None and found["e2e_ms.p50"].verdict == "undecided"
    assert found["quality.free.arithmetic.exact_match"].ratio is None
    assert "memory.kv_bytes" not in found  # neither more nor less of it is better


def test_a_run_without_scores_is_compared_by_its_figures(tmp_path: Path) -> None:
    for run_id in (CONTROL[0], CANDIDATE[0]):
        written(tmp_path, run_id, changes={"scores": lambda _: None, "metrics": lambda _: None})
    found = effects(tmp_path, control=CONTROL[:1], candidate=CANDIDATE[:1])
    assert found and not [each for each in found if each.figure.startswith("quality.")]


def other_texts(count: int, *, arm: str = "free") -> dict[str, object]:
    ids = {row["request_id"] for row in [row for row in generated() if row["arm"] == arm][:count]}
    return {"requests": lambda row: row | {"output": f"{row['output']}!"} if row["request_id"] in ids else row}


def test_answers_that_changed_are_counted_beside_those_of_the_control_itself(tmp_path: Path) -> None:
    written(tmp_path, CONTROL[0])
    written(tmp_path, CONTROL[1], changes=other_texts(1))
    for run_id in CANDIDATE:
        written(tmp_path, run_id, changes=other_texts(3))
    found = answers_changed(tmp_path, control=CONTROL, candidate=CANDIDATE)
    assert found is not None
    assert (found.samples, found.changed) == (48, 3 + 2)
    assert (found.control_samples, found.control_changed, found.left_out) == (24, 1, 0)
    assert (found.arms["free"].changed, found.arms["guided"].changed, found.arms["guided"].samples) == (5, 0, 24)
    single = answers_changed(tmp_path, control=CONTROL[:1], candidate=CANDIDATE[:1])
    assert single is not None and (single.control_samples, single.control_changed) == (None, None)


def test_only_greedy_answers_that_both_gave_count(tmp_path: Path) -> None:
    written(tmp_path, CONTROL[0])
    lost = generated()[0]["request_id"]
    written(
        tmp_path,
        CANDIDATE[0],
        changes={"requests": lambda row: row | {"status": "error"} if row["request_id"] == lost else row},
    )
    found = answers_changed(tmp_path, control=CONTROL[:1], candidate=CANDIDATE[:1])
    assert found is not None and (found.samples, found.changed, found.left_out) == (23, 0, 1)

    def warm(row: Row) -> Row:
        return row | {"sampling": row["sampling"].replace('"temperature": 0.0', '"temperature": 0.7')}

    for run_id in (CONTROL[1], CANDIDATE[1]):
        written(tmp_path, run_id, changes={"requests": warm})
    assert answers_changed(tmp_path, control=CONTROL[1:], candidate=CANDIDATE[1:]) is None
