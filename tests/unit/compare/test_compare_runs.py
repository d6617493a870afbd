"""Two runs against each other: methods and verdicts, what is counted, what is refused, what is told."""

import random
from pathlib import Path
from typing import Any

import pytest
from scipy import stats
from two_runs import FIRST, SECOND, THIRD, Made, binary, config, timing, write

from schemas.errors import ConfigError
from tasks.compare.model import Result, RunComparison
from tasks.compare.runs import compare_runs
from tasks.compare.save import save_comparison
from tasks.score.stats.holm import holm
from warehouse.query import query
from warehouse.retention import Policy, plan_prune

FREE = ("d", "exact_match", "free")
GUIDED = ("d", "exact_match", "guided")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def compared(home: Path, candidate: Made, baseline: Made, **more: Any) -> RunComparison:
    write(home, baseline)
    write(home, candidate)
    return compare_runs(home=home, candidate=candidate.run_id, baseline=baseline.run_id, **more)


def only(comparison: RunComparison) -> Result:
    [result] = comparison.results
    return result


def test_right_and_wrong_get_mcnemar_and_a_score_interval(home: Path) -> None:
    before = Made(run_id=FIRST, values={FREE: binary(n=400, right=200)})
    after = Made(run_id=SECOND, values={FREE: binary(n=400, right=200, flipped_up=4, flipped_down=40)})
    found = compared(home, after, before)
    own = only(found).comparison
    assert (own.n_pairs, own.wins, own.losses, own.ties) == (400, 4, 40, 356)
    assert own.effect == pytest.approx(-0.09)
    assert own.p_value == pytest.approx(stats.binomtest(4, 44).pvalue)
    assert own.method == "mcnemar_exact+tango"
    assert own.verdict == "worse"
    assert own.lo is not None and own.hi is not None and own.lo < -0.09 < own.hi < -0.02
    assert found.counts == {"worse": 1, "undecided": 0, "better": 0, "same": 0}
    assert {flip.change for flip in found.flips} == {"won", "lost"}
    assert sum(flip.change == "lost" for flip in found.flips) == 40


def test_a_margin_below_what_the_samples_can_tell_is_undecided_and_says_how_many_could(home: Path) -> None:
    before = Made(run_id=FIRST, values={FREE: binary(n=1319, right=600)})
    after = Made(run_id=SECOND, values={FREE: binary(n=1319, right=600, flipped_up=33, flipped_down=33)})
    own = only(compared(home, after, before, margin=0.01)).comparison
    assert own.verdict == "undecided"
    assert own.n_needed is not None and 1319 < own.n_needed < 3000
    wider = compare_runs(home=home, candidate=SECOND, baseline=FIRST, margin=0.02)
    assert only(wider).comparison.verdict == "same"


def test_no_flip_at_all_has_an_interval_and_not_none_of_no_width(home: Path) -> None:
    values = {FREE: binary(n=100, right=40)}
    own = only(compared(home, Made(run_id=SECOND, values=values), Made(run_id=FIRST, values=values))).comparison
    assert own.lo is not None and own.hi is not None
    assert own.lo < -0.03 and own.hi > 0.03
    assert own.verdict == "undecided"


def test_repeats_are_averaged_by_sample_and_compared_by_paired_t(home: Path) -> None:
    rng = random.Random(5)
    before = {f"s{i}": [float(rng.random() < 0.5) for _ in range(4)] for i in range(60)}
    after = {f"s{i}": [float(rng.random() < 0.8) for _ in range(4)] for i in range(60)}
    result = only(compared(home, Made(run_id=SECOND, values={FREE: after}), Made(run_id=FIRST, values={FREE: before})))
    means = [[sum(values) / 4 for values in side.values()] for side in (after, before)]
    expected = stats.ttest_rel(*means)
    own = result.comparison
    assert (own.method, own.n_pairs, result.repeats) == ("paired_t", 60, 4)
    assert own.p_value == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval()
    assert (own.lo, own.hi) == (pytest.approx(interval.low), pytest.approx(interval.high))
    assert own.verdict == "better"


def test_one_answer_a_sample_against_several_is_no_case_for_mcnemar(home: Path) -> None:
    before = Made(run_id=FIRST, values={FREE: {f"s{i}": 1.0 for i in range(9)}})
    after = Made(run_id=SECOND, values={FREE: {f"s{i}": [1.0, 0.0 if i < 3 else 1.0] for i in range(9)}})
    assert only(compared(home, after, before)).comparison.method == "paired_t"


def test_clusters_are_drawn_whole(home: Path) -> None:
    """Forty questions about each of ten texts, of which one got harder: that is one loss, not forty."""
    ids = [f"s{i:03}" for i in range(400)]
    clusters = {sample_id: f"text-{i // 40}" for i, sample_id in enumerate(ids)}
    before = Made(run_id=FIRST, values={FREE: dict.fromkeys(ids, 1.0)}, clusters=clusters)
    after = Made(run_id=SECOND, values={FREE: {each: float(i >= 40) for i, each in enumerate(ids)}}, clusters=clusters)
    result = only(compared(home, after, before))
    own = result.comparison
    assert result.clusters == 10
    assert own.method.startswith("cluster_bootstrap")
    assert own.verdict == "undecided"
    assert own.p_value is not None and own.p_value > 0.05
    write(home, Made(run_id=THIRD, values=after.values))
    assert only(compare_runs(home=home, candidate=THIRD, baseline=FIRST)).clusters == 10  # as the baseline has them
    write(home, Made(run_id=FIRST, values=before.values))
    loose = only(compare_runs(home=home, candidate=THIRD, baseline=FIRST))
    assert (loose.clusters, loose.comparison.verdict) == (None, "worse")  # the same flips, beyond doubt


def test_lower_can_be_better_as_the_run_recorded_it(home: Path) -> None:
    card = {"scope": "dataset", "name": "d.distance", "arm": "free", "unit": "edits", "direction": "lower"}
    key = ("d", "distance", "free")
    rng = random.Random(1)
    before = {f"s{i}": 5 + rng.random() for i in range(40)}
    after = {each: value + 1 + rng.random() for each, value in before.items()}
    one = Made(run_id=SECOND, values={key: after}, aggregates=[card])
    result = only(compared(home, one, Made(run_id=FIRST, values={key: before}, aggregates=[card])))
    assert (result.unit, result.direction) == ("edits", "lower")
    assert result.comparison.effect is not None and result.comparison.effect > 1
    assert (result.comparison.verdict, result.comparison.losses) == ("worse", 40)


def test_a_metric_that_nobody_knows_is_refused(home: Path) -> None:
    values = {("d", "exact_mach", "free"): binary(n=9, right=3)}
    with pytest.raises(ConfigError, match=r"neither run says whether more is better.*did you mean exact_match"):
        compared(home, Made(run_id=SECOND, values=values), Made(run_id=FIRST, values=values))


def test_holm_is_over_all_metrics_and_arms(home: Path) -> None:
    def values(**more: int) -> dict[tuple[str, str, str], dict[str, float]]:
        return {
            FREE: binary(n=100, right=50, flipped_down=more.get("free", 0)),
            GUIDED: binary(n=100, right=50, flipped_down=more.get("guided", 0)),
            ("d", "json_valid", "free"): binary(n=100, right=50, flipped_down=more.get("valid", 0)),
        }

    after = Made(run_id=SECOND, values=values(free=6, guided=8, valid=1))
    found = compared(home, after, Made(run_id=FIRST, values=values()))
    assert len(found.results) == 3
    assert found.arms is None
    raw = [result.comparison.p_value for result in found.results]
    assert [result.comparison.p_adjusted for result in found.results] == holm(raw)
    assert found.results[0].comparison.p_adjusted > found.results[0].comparison.p_value  # type: ignore[operator]
    some = compare_runs(home=home, candidate=SECOND, baseline=FIRST, metrics=["json_valid"])
    assert only(some).comparison.p_adjusted == only(some).comparison.p_value
    both = compare_runs(home=home, candidate=SECOND, baseline=FIRST, metrics=["d.exact_match"], arms=("free", None))
    assert only(both).arms == "free"


def test_samples_in_no_pair_are_counted_and_told(home: Path) -> None:
    before = Made(run_id=FIRST, values={FREE: {"a": 1.0, "b": 0.0, "c": None, "old": 1.0, "e": 1.0}})
    after = Made(run_id=SECOND, values={FREE: {"a": 1.0, "b": 1.0, "c": 1.0, "e": None, "n1": 1.0, "n2": 0.0}})
    found = compared(home, after, before)
    result = only(found)
    assert result.comparison.n_pairs == 2
    assert (result.only_candidate, result.only_baseline) == (2, 1)
    assert (result.unscored_candidate, result.unscored_baseline) == (1, 1)
    said = "\n".join(found.notes)
    assert "2 samples only in the candidate and 1 only in the baseline are left out" in said
    assert "1 samples have no score in the candidate and 1 none in the baseline" in said
    assert [flip.sample_id for flip in found.flips] == ["b"]


def test_nothing_scored_on_one_side_is_undecided_and_no_number(home: Path) -> None:
    before = Made(run_id=FIRST, values={FREE: {"a": 1.0, "b": 0.0}})
    after = Made(run_id=SECOND, values={FREE: {"a": None, "b": None}})
    own = only(compared(home, after, before)).comparison
    assert (own.verdict, own.candidate, own.effect, own.p_value, own.n_pairs) == ("undecided", None, None, None, 0)


def test_nothing_in_common_is_refused(home: Path) -> None:
    before = Made(run_id=FIRST, values={FREE: {"a": 1.0}})
    with pytest.raises(
        ConfigError, match="no sample is common: of d the candidate has 1, as 'z', the baseline 1, as 'a'"
    ):
        compared(home, Made(run_id=SECOND, values={FREE: {"z": 1.0}}), before)
    write(home, Made(run_id=THIRD, values={("other", "exact_match", "free"): {"a": 1.0}}))
    with pytest.raises(ConfigError, match=r"no dataset and metric is common.*other\.exact_match.*d\.exact_match"):
        compare_runs(home=home, candidate=THIRD, baseline=FIRST)


def test_another_target_is_refused_with_the_first_five(home: Path) -> None:
    values = {FREE: binary(n=20, right=3)}
    changed = {f"s{i:04}": {"x": i} for i in range(4, 11)}
    with pytest.raises(ConfigError) as refused:
        compared(home, Made(run_id=SECOND, values=values, targets=changed), Made(run_id=FIRST, values=values))
    said = str(refused.value)
    assert said.startswith("7 of 20 samples have another target")
    assert "d/s0004: {'x': 4} against 's0004'" in said
    assert said.count("against 's") == 5
    assert "s0009" not in said


def test_one_and_one_point_nought_are_one_target(home: Path) -> None:
    values = {FREE: {"a": 1.0}}
    write(home, Made(run_id=FIRST, values=values, targets={"a": 1}))
    write(home, Made(run_id=SECOND, values=values, targets={"a": 1.0}))
    write(home, Made(run_id=THIRD, values=values, targets={"a": 1.5}))
    assert compare_runs(home=home, candidate=SECOND, baseline=FIRST).results
    with pytest.raises(ConfigError, match="another target"):
        compare_runs(home=home, candidate=THIRD, baseline=FIRST)


def test_other_options_are_refused_but_not_for_their_white_space(home: Path) -> None:
    values = {("d", "acc", "free"): {"a": 1.0}}
    write(home, Made(run_id=FIRST, values=values, choices={"a": ["x", "y"]}))
    write(home, Made(run_id=SECOND, values=values, choices={"a": [" x", " y"]}))
    write(home, Made(run_id=THIRD, values=values, choices={"a": ["y", "x"]}))
    assert compare_runs(home=home, candidate=SECOND, baseline=FIRST).results
    with pytest.raises(ConfigError, match="1 of 1 samples have other options to choose from"):
        compare_runs(home=home, candidate=THIRD, baseline=FIRST)


def test_another_version_of_a_metric_is_refused_and_a_common_one_is_found(home: Path) -> None:
    values = {FREE: binary(n=9, right=3)}
    with pytest.raises(ConfigError, match=r"d\.exact_match: .* version 2 .* version 1;.*assay rescore"):
        compared(home, Made(run_id=SECOND, values=values, version=2), Made(run_id=FIRST, values=values))
    write(
        home, Made(run_id=FIRST, values={FREE: binary(n=9, right=4)}, version=2)
    )  # scored again, beside the old scores
    result = only(compare_runs(home=home, candidate=SECOND, baseline=FIRST))
    assert result.metric_version == 2
    assert result.comparison.baseline == pytest.approx(4 / 9)


def test_two_arms_of_one_run(home: Path) -> None:
    values = {FREE: binary(n=50, right=20), GUIDED: binary(n=50, right=20, flipped_up=20)}
    write(home, Made(run_id=FIRST, values=values | {("d", "acc", "free"): binary(n=50, right=9)}))
    found = compare_runs(home=home, candidate=FIRST, baseline=FIRST, arms=("guided", "free"))
    own = only(found).comparison
    assert (own.candidate_arm, own.baseline_arm, own.verdict, own.wins) == ("guided", "free", "better", 20)
    assert found.differences == ()
    assert (found.candidate.label, found.baseline.label) == (f"{FIRST}:guided", f"{FIRST}:free")
    assert found.arms == "guided against free"
    assert found.notes == ("the candidate has no scores of d.acc, so that is not compared",)
    flip = found.flips[0]
    assert flip.candidate_answers[0].request_id != flip.baseline_answers[0].request_id
    for arms in (None, ("free", "free"), ("free", None)):
        with pytest.raises(ConfigError, match="would be compared with itself"):
            compare_runs(home=home, candidate=FIRST, baseline=FIRST, arms=arms)


def test_arms_that_are_not_there(home: Path) -> None:
    write(home, Made(run_id=FIRST, values={FREE: {"a": 1.0}}))
    write(home, Made(run_id=SECOND, values={GUIDED: {"a": 1.0}}))
    with pytest.raises(ConfigError, match="has no scores of an arm guidd"):
        compare_runs(home=home, candidate=SECOND, baseline=FIRST, arms=("guidd", "free"))
    with pytest.raises(ConfigError, match="no arm is common: the candidate has guided, the baseline free"):
        compare_runs(home=home, candidate=SECOND, baseline=FIRST)
    found = compare_runs(home=home, candidate=SECOND, baseline=FIRST, arms=("guided", "free"))
    assert only(found).arms == "guided against free"


def test_what_else_differs_is_told_by_its_name(home: Path) -> None:
    values = {FREE: {"a": 1.0, "b": 0.0}}
    block = config()["datasets"][0] | {"config": {"prompt": {"text": "Now: {{ q }}"}}, "sampling": {"temperature": 1}}
    after = Made(
        run_id=SECOND,
        name="other",
        values=values,
        prompts={"b": "What is bee, please?"},
        engine={"engine_version": "2.0", "model_fingerprint": "ff"},
        config=config(model={"name": "larger"}, datasets=[{"name": "more"}, block]),
    )
    found = compared(home, after, Made(run_id=FIRST, values=values))
    told = {each.what: (each.candidate, each.baseline) for each in found.differences}
    assert told["experiment"] == ("other", "nightly")
    assert told["model.name"] == ("larger", "tiny")
    assert told["datasets.d.config.prompt.text"] == ("Now: {{ q }}", "{{ q }}")
    assert told["datasets.d.sampling.temperature"] == ("1", "0.0")
    assert told["datasets.more"] == ("there", None)
    assert told["vLLM"] == ("2.0", "1.0")
    assert told["model weights"] == ("ff", None)
    assert told["d: prompts of 1 of 2 samples, as in b"] == ("What is bee, please?", "What is b?")
    assert "tags" not in told and not any(each.startswith("vllm") for each in told)
    result = only(found)
    assert (result.prompts_changed, result.comparison.prompts_differ) == (1, True)


def test_of_the_same_again_nothing_differs(home: Path) -> None:
    values = {FREE: {"a": 1.0}}
    found = compared(home, Made(run_id=SECOND, values=values), Made(run_id=FIRST, values=values))
    assert found.differences == ()
    assert (only(found).prompts_changed, only(found).comparison.prompts_differ) == (0, False)


def test_times_stand_side_by_side_without_a_verdict(home: Path) -> None:
    values = {FREE: {"a": 1.0}}
    fast = [timing("ttft_ms.p50", 50.0), timing("tpot_ms.p50", None), timing("output_tokens_per_s", 10.0, arm=None)]
    slow = [timing("ttft_ms.p50", 100.0), timing("tpot_ms.p50", 4.0), timing("output_tokens_per_s", 0.0, arm=None)]
    after = Made(run_id=SECOND, values=values, aggregates=fast)
    found = compared(home, after, Made(run_id=FIRST, values=values, aggregates=slow))
    told = {(each.name, each.arm): each.ratio for each in found.timings}
    assert told == {
        ("timing.ttft_ms.p50", "free"): 0.5,
        ("timing.tpot_ms.p50", "free"): None,
        ("timing.output_tokens_per_s", None): None,
    }
    assert [result.name for result in found.results] == ["d.exact_match"]


def test_answers_of_an_earlier_run_and_runs_that_did_not_finish_are_told(home: Path) -> None:
    values = {FREE: {"a": 1.0, "b": 0.0}}
    after = Made(run_id=SECOND, values=values, reused=True)
    found = compared(home, after, Made(run_id=FIRST, values=values, status="cancelled"))
    assert (found.candidate.answers, found.candidate.reused, found.baseline.reused) == (2, 2, 0)
    assert "2 of 2 answers of the candidate were taken from an earlier run" in found.notes
    assert any(note.startswith("the baseline is cancelled") for note in found.notes)


def test_a_run_without_scores_and_a_margin_that_is_none_are_refused(home: Path) -> None:
    write(home, Made(run_id=FIRST, values={FREE: {"a": 1.0}}))
    write(home, Made(run_id=SECOND, values={}, status="running"))
    with pytest.raises(ConfigError, match=r"has no scores to compare \(it has not ended"):
        compare_runs(home=home, candidate=SECOND, baseline=FIRST)
    for margin in (-0.01, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="a margin is 0 or more"):
            compare_runs(home=home, candidate=FIRST, baseline=SECOND, margin=margin)


def test_flips_hold_what_was_answered_the_largest_loss_first(home: Path) -> None:
    key = ("d", "json_fields", "free")
    before = {"a": 1.0, "b": 1.0, "c": 0.25, "d": 0.5}
    after = {"a": 0.75, "b": 0.0, "c": 1.0, "d": 0.5}
    found = compared(home, Made(run_id=SECOND, values={key: after}), Made(run_id=FIRST, values={key: before}))
    assert [(flip.sample_id, flip.change) for flip in found.flips] == [("b", "lost"), ("a", "lost"), ("c", "won")]
    flip = found.flips[0]
    assert (flip.candidate, flip.baseline, flip.target) == (0.0, 1.0, '"b"')
    assert [answer.output for answer in flip.candidate_answers] == [f"{SECOND} says b"]
    assert [answer.output for answer in flip.baseline_answers] == [f"{FIRST} says b"]
    assert flip.candidate_answers[0].extracted == "taken 0.0"


def test_kept_comparisons_are_found_by_sql_and_replaced_by_the_next(home: Path) -> None:
    before = Made(run_id=FIRST, values={FREE: binary(n=200, right=100)})
    after = Made(run_id=THIRD, values={FREE: binary(n=200, right=100, flipped_down=30)}, tags={"keep": "yes"})
    found = compared(home, after, before)
    write(home, Made(run_id=SECOND, values=before.values))
    sql = "SELECT run_id, baseline_run_id, dataset, metric, margin FROM regressions ORDER BY ALL"
    assert query(home=home, sql=sql).rows == []
    save_comparison(home, found)
    save_comparison(home, compare_runs(home=home, candidate=THIRD, baseline=SECOND))
    assert query(home=home, sql=sql).rows == [
        (THIRD, FIRST, "d", "exact_match", 0.02),
        (THIRD, SECOND, "d", "exact_match", 0.02),
    ]
    save_comparison(home, compare_runs(home=home, candidate=THIRD, baseline=FIRST, margin=0.5))
    assert query(home=home, sql="SELECT verdict, margin FROM comparisons ORDER BY margin").rows == [
        ("worse", 0.02),
        ("same", 0.5),
    ]
    fates = plan_prune(home, Policy(older_than_s=0, keep_tags={"keep": None})).fates
    assert {fate.run_id: fate.reason for fate in fates if not fate.goes} == {
        FIRST: f"it is the baseline of {THIRD}, which stays",
        SECOND: f"it is the baseline of {THIRD}, which stays",
        THIRD: "it is kept by its tag keep=yes",
    }
