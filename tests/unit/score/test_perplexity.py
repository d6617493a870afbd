"""Perplexities as ratios of sums: the number, its interval against a bootstrap, pairs, and what is told of them."""

import math
import random
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from schemas.dataset import MetricUse
from schemas.metric import Score
from schemas.sample import Response, Sample, Window
from tasks.score.aggregate import aggregate
from tasks.score.alarms import alarms
from tasks.score.answers import score_answers
from tasks.score.arrange import arrange
from tasks.score.paired_arms import compare_means
from tasks.score.perplexity import count_units
from tasks.score.stats.ratio import Sums, linearized, paired_ratios, pooled, ratio

near = pytest.approx
ALL = [MetricUse(use=name) for name in ("word_perplexity", "byte_perplexity", "bits_per_byte")]


def document(name: str, text: str, *, windows: int = 1, cluster: str | None = None) -> Sample:
    return Sample(
        dataset="d",
        sample_id=name,
        row_index=0,
        raw=b"{}",
        input={},
        prompt=text,
        prompt_hash="h",
        prompt_token_ids=[0, 1],
        windows=[Window(begin=0, start=1, end=2)] * windows,
        counted=text,
        cluster=cluster,
    )


def answers(name: str, *logprobs: float | None, status: Any = "ok") -> list[Response]:
    return [
        Response(
            request_id=f"{name}/{index}", dataset="d", sample_id=name, arm="free", kind="loglikelihood", status=status,
            choice_index=index, logprob_sum=value,
        )
        for index, value in enumerate(logprobs)
    ]  # fmt: skip


def scores_of(samples: Sequence[Sample], responses: Sequence[Response], uses: Sequence[MetricUse] = ALL) -> list[Score]:
    return score_answers(metrics=uses, samples=samples, responses=responses, arms=["free", "guided"], absent="none")


def made(count: int, *, seed: int, worse: float = 0.0) -> list[Sums]:
    """Documents of very unequal lengths: nats and words."""
    drawn = random.Random(seed)
    sums = []
    for _ in range(count):
        words = int(drawn.lognormvariate(5, 1)) + 5
        sums.append((words * (3 + worse + drawn.gauss(0, 0.6)), float(words)))
    return sums


# the numbers


def test_the_datasets_number_is_that_of_all_words_and_no_mean_of_documents() -> None:
    samples = [document("long", "w " * 99 + "w"), document("short", "a b", windows=2)]
    scores = scores_of(samples, [*answers("long", -100.0), *answers("short", -6.0, -4.0)])
    rows = {row.name: row for row in aggregate(scores=scores)}
    assert {row.arm for row in rows.values()} == {"free"}
    assert rows["d.word_perplexity"].value == near(math.exp(110 / 102))
    assert rows["d.byte_perplexity"].value == near(math.exp(110 / 202))
    assert rows["d.bits_per_byte"].value == near(110 / 202 / math.log(2))
    assert rows["d.bits_per_byte"].value == near(math.log2(rows["d.byte_perplexity"].value or 0))
    values = {score.sample_id: score.value for score in scores if score.metric == "word_perplexity"}
    assert values == {"long": near(math.e), "short": near(math.exp(5))}
    row = rows["d.word_perplexity"]
    assert (row.unit, row.direction, row.n, row.n_failed) == ("perplexity", "lower", 2, 0)
    assert row.details["over_samples"] == "exp_ratio"
    assert (row.details["numerator"], row.details["denominator"]) == (near(110), 102)


def test_a_document_with_a_failed_or_missing_window_is_failed_and_in_no_sum() -> None:
    samples = [document("good", "a b"), document("bad", "a b", windows=2), document("half", "a b", windows=2)]
    responses = [*answers("good", -2.0), *answers("bad", -1.0, None, status="error"), *answers("half", -50.0)]
    row = next(row for row in aggregate(scores=scores_of(samples, responses)) if row.name == "d.word_perplexity")
    assert (row.value, row.n, row.n_failed) == (near(math.e), 1, 2)
    assert (row.stderr, row.lo, row.method) == (None, None, "none")


def test_what_is_more_than_a_number_can_be_spoils_no_sum() -> None:
    chinese, english = document("chinese", "文" * 900), document("english", "a " * 999 + "a")
    scores = scores_of([chinese, english], [*answers("chinese", -2000.0), *answers("english", -1000.0)], ALL[:1])
    assert [score.value for score in scores] == [sys.float_info.max, near(math.e)]
    (row,) = aggregate(scores=scores)
    assert row.value == near(math.exp(3000 / 1001))
    assert row.lo is not None and row.lo < row.value
    (alone,) = aggregate(scores=scores[:1])
    assert (alone.value, alone.n, alone.details["numerator"]) == (None, 1, 2000)


def test_words_are_counted_as_the_harness_does() -> None:
    assert [count_units(text, per="word") for text in ("", "a", " a b ", "a\n\nb")] == [1, 1, 4, 2]
    assert [count_units(text, per="byte") for text in ("", "é", "\ud800")] == [0, 2, 3]


# the error


def bootstrapped(sums: Sequence[Sums], *, exponential: bool, clusters: Sequence[int] | None = None) -> np.ndarray:
    values = np.array(sums)
    keys = np.arange(len(sums)) if clusters is None else np.array(clusters)
    units = np.array([values[keys == key].sum(axis=0) for key in np.unique(keys)])
    drawn = np.random.default_rng(1).integers(0, len(units), size=(20_000, len(units)))
    totals = units[drawn].sum(axis=1)
    found = totals[:, 0] / totals[:, 1]
    return np.exp(found) if exponential else found


@pytest.mark.parametrize("exponential", [False, True])
@pytest.mark.parametrize("clustered", [False, True])
def test_error_and_interval_are_those_of_a_bootstrap(exponential: bool, clustered: bool) -> None:
    sums = made(300, seed=3)
    clusters = [index // 4 for index in range(300)] if clustered else None
    found = pooled(sums, exponential=exponential, clusters=clusters)
    replicates = bootstrapped(sums, exponential=exponential, clusters=clusters)
    assert found.value == near(math.exp(ratio(sums)) if exponential else ratio(sums))
    assert found.stderr == near(replicates.std(), rel=0.08)
    assert found.method == ("ratio_t_clustered" if clustered else "ratio_t")
    for end, edge in zip((found.lo, found.hi), np.quantile(replicates, [0.025, 0.975]), strict=True):
        assert end is not None and found.stderr is not None
        assert abs(end - edge) < 0.2 * found.stderr


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    held = sum(found.lo <= 3 <= found.hi for seed in range(400) if (found := pooled(made(40, seed=seed))))  # type: ignore[operator]
    assert 0.9 <= held / 400 <= 0.98


def test_equal_lengths_are_an_ordinary_mean() -> None:
    sums = [(float(value), 2.0) for value in (3, 4, 8, 1)]
    assert linearized(sums) == near([1.5, 2.0, 4.0, 0.5])
    with pytest.raises(ValueError, match="divide by"):
        ratio([(1.0, 0.0)])


# pairs


@pytest.mark.parametrize("exponential", [False, True])
def test_two_sides_are_compared_by_the_difference_of_their_own_numbers(exponential: bool) -> None:
    baseline = made(200, seed=5)
    noise = random.Random(6)
    candidate = [(above + below * noise.gauss(0.02, 0.1), below) for above, below in baseline]
    found = paired_ratios(candidate=candidate, baseline=baseline, exponential=exponential, lower_is_better=True)
    sides = [pooled(side, exponential=exponential).value or 0.0 for side in (candidate, baseline)]
    assert found.effect == near(sides[0] - sides[1])
    values = np.array([(*one, *two) for one, two in zip(candidate, baseline, strict=True)])
    totals = values[np.random.default_rng(2).integers(0, 200, size=(20_000, 200))].sum(axis=1)
    one, two = totals[:, 0] / totals[:, 1], totals[:, 2] / totals[:, 3]
    differences = np.exp(one) - np.exp(two) if exponential else one - two
    assert found.lo is not None and found.hi is not None
    assert (found.hi - found.lo) / 2 == near(1.97 * differences.std(), rel=0.1)
    assert found.method == "ratio_paired_t"
    assert (found.wins, found.losses) == (
        sum(a[0] < b[0] for a, b in zip(candidate, baseline, strict=True)),
        sum(a[0] > b[0] for a, b in zip(candidate, baseline, strict=True)),
    )


def test_a_perplexity_that_rises_is_worse_and_is_not_averaged_over_documents() -> None:
    before = [document(f"s{index}", "a b c d " * (1 + index)) for index in range(30)]
    noise = random.Random(1)
    own = {each.sample_id: -len(each.prompt) * noise.uniform(0.9, 1.1) for each in before}

    def side(factor: float) -> list[Score]:
        nats = {name: value * factor * noise.uniform(0.99, 1.01) for name, value in own.items()}
        return scores_of(before, [one for name, value in nats.items() for one in answers(name, value)], ALL[2:])

    [candidate], [baseline] = arrange(side(1.1)).values(), arrange(side(1.0)).values()
    row = compare_means(
        candidate=candidate, baseline=baseline, margin=0.02, clusters=None, lower_is_better=True, exponential=False
    )
    assert row.verdict == "worse" and row.losses == 30
    sums = list(candidate.sums.values())
    assert row.candidate == near(ratio(sums))
    assert row.candidate != near(sum(candidate.means.values()) / 30, rel=1e-4)
    assert row.effect is not None and row.candidate is not None and row.baseline is not None
    assert row.effect == near(row.candidate - row.baseline)


def test_no_pair_and_no_difference() -> None:
    empty = paired_ratios(candidate=[], baseline=[])
    assert (empty.n, empty.effect, empty.p_value) == (0, None, None)
    same = made(5, seed=1)
    found = paired_ratios(candidate=same, baseline=same)
    assert (found.effect, found.ties, found.lo) == (near(0), 5, None)
    huge = paired_ratios(candidate=[(1e6, 1.0)] * 3, baseline=[(1.0, 1.0)] * 3, exponential=True, lower_is_better=True)
    assert (huge.effect, huge.losses, huge.method) == (None, 3, "none")


# what is told


def test_a_perplexity_of_nothing_is_an_alarm_and_a_low_one_is_none() -> None:
    failed = scores_of([document("bad", "a b")], answers("bad", None, status="error"), ALL[2:])
    assert alarms(aggregate(scores=failed)) == ["d.bits_per_byte (free) scored none of 1 sample: window 0: error"]
    sure = [document(f"s{index}", "a b") for index in range(30)]
    certain = scores_of(sure, [one for each in sure for one in answers(each.sample_id, 0.0)], ALL[2:])
    (row,) = aggregate(scores=certain)
    assert (row.value, row.n) == (0, 30)
    assert alarms([row]) == []


# a name of one's own


def test_scores_and_numbers_carry_the_name_that_the_dataset_gives() -> None:
    uses = [MetricUse(use="bits_per_byte"), MetricUse.model_validate({"use": "bits_per_byte", "as": "bpb"})]
    scores = scores_of([document("a", "ab")], answers("a", -1.0), uses)
    assert [(score.metric, score.base_metric) for score in scores] == [
        ("bits_per_byte", None),
        ("bpb", "bits_per_byte"),
    ]
    first, second = aggregate(scores=scores)
    assert (second.name, second.value, second.direction) == ("d.bpb", first.value, "lower")
    assert second.details["base_metric"] == "bits_per_byte"
    with pytest.raises(ValueError, match="bits_per_byte and word_perplexity cannot be mixed"):
        arrange([*scores[1:], *scores_of([document("b", "ab")], answers("b", -1.0), [
            MetricUse.model_validate({"use": "word_perplexity", "as": "bpb"})
        ])])  # fmt: skip


@pytest.mark.parametrize("name", ["a.b", "", "x" * 65, "-a", "a b"])
def test_a_name_of_ones_own_has_no_dot(name: str) -> None:
    with pytest.raises(ValueError, match="as"):
        MetricUse.model_validate({"use": "acc", "as": name})
