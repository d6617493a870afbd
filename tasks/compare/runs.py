"""Two runs on the same samples: is the candidate better, worse, the same, and is that more than chance?

The methods are those of two arms: right or wrong, one answer a sample and no clusters, exact McNemar and Tango's
interval; otherwise paired t on the samples' means over their repeats, or the cluster bootstrap. A ratio of sums over
samples, as perplexity is, is compared as such: see tasks/score/stats/ratio.py. Holm over everything that is compared at
once; the verdict is `not_worse` with a margin.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from schemas.errors import ConfigError
from tasks.compare.differences import around_first_difference, differences, prompts_changed, timings
from tasks.compare.flips import flips_of, with_texts
from tasks.compare.judges import check_judges
from tasks.compare.measured import check_measured
from tasks.compare.model import Difference, Flip, Result, RunComparison, Side
from tasks.compare.pairs import Pair, arm_pairs, check_targets, paired_scores
from tasks.compare.read import RecordedRun, RunRows, answer_counts, kind_of, prompt, read_run
from tasks.compare.speed import Speed, compare_speed, split_metrics
from tasks.score.arrange import clusters_of
from tasks.score.paired_arms import compare_means
from tasks.score.stats.holm import holm

MARGIN = 0.02


def check_margin(margin: float) -> None:
    """Raises ConfigError for one that is none."""
    if not margin >= 0 or math.isinf(margin):
        raise ConfigError.one(f"a margin is 0 or more, not {margin}", key="--margin")


def compare_runs(
    *,
    home: Path,
    candidate: str,
    baseline: str,
    arms: tuple[str | None, str | None] | None = None,
    margin: float = MARGIN,
    metrics: Collection[str] | None = None,
    ended: bool = False,
    speed_margin: float = 0.0,
) -> RunComparison:
    """Compares two runs, by their ids, or two arms of one run. Reads only; `tasks.compare.save` keeps it.

    arms: (candidate's, baseline's); with neither, each arm that both have is compared with itself. margin: the loss
    that still counts as the same, 0 or more, in the metrics' own units. metrics: names, with or without their dataset;
    None for all that both have. ended: the candidate has all its answers, whatever its row says yet.
    effect = candidate - baseline; wins and verdicts look at the metric's direction. Measured loads that both have are
    compared too (`speed`), `perf.*` among metrics names their numbers; speed_margin: the share by which the candidate
    may be slower and is not `worse` yet.

    Samples join by dataset and sample_id, and it is counted what is on one side only and what has no value. Another
    prompt, model, engine, version or sampling is told in `differences`. Raises ConfigError for a run without scores, a
    run compared with itself, an unknown arm or metric, nothing in common, another target, options or text of a sample,
    another version of a metric, another metric under the same name, another judge, or
    a margin below 0.
    """
    check_margin(margin)
    check_margin(speed_margin)
    of_answers, of_speed = split_metrics(metrics)
    own = read_run(home, candidate)
    other = own if baseline == candidate else read_run(home, baseline)
    compared = arm_pairs(candidate=own, baseline=other, arms=arms)
    speed = compare_speed(candidate=own, baseline=other, arms=compared, metrics=of_speed, margin=speed_margin)
    pairs, notes = _answers(own, other, arms=compared, metrics=of_answers, measured=bool(speed.results))
    notes = check_targets(candidate=own, baseline=other, pairs=pairs) + notes
    notes += check_judges(home, candidate=candidate, baseline=baseline, pairs=pairs)
    notes += check_measured(candidate=own, baseline=other, pairs=pairs)
    results, flips, prompts = _compared(home, pairs, candidate=own, baseline=other, margin=margin)
    named = arms or (None, None)
    sides = (
        side_of(home, own, arm=named[0] or named[1], arms=[pair[0] for pair in compared]),
        side_of(home, other, arm=named[1] or named[0], arms=[pair[1] for pair in compared]),
    )
    return RunComparison(
        candidate=sides[0],
        baseline=sides[1],
        margin=margin,
        results=tuple(results),
        flips=tuple(flips),
        differences=(*prompts, *differences(own, other)),
        timings=tuple(timings(own, other, compared)),
        notes=(
            *([] if ended else _side_notes("candidate", sides[0])),
            *_side_notes("baseline", sides[1]),
            *notes,
            *_notes(results),
            *speed.notes,
        ),
        compared_at=datetime.now(UTC),
        speed=speed.results,
    )


def compare_measured(
    *,
    home: Path,
    candidate: RecordedRun,
    baseline: RecordedRun,
    speed: Speed,
    arms: Sequence[tuple[str, str]],
    ended: bool = False,
) -> RunComparison:
    """The same of measured loads alone, which were compared already."""
    sides = (
        side_of(home, candidate, arm=None, arms=[pair[0] for pair in arms]),
        side_of(home, baseline, arm=None, arms=[pair[1] for pair in arms]),
    )
    return RunComparison(
        candidate=sides[0],
        baseline=sides[1],
        margin=0.0,
        results=(),
        flips=(),
        differences=tuple(differences(candidate, baseline)),
        timings=(),
        notes=(
            *([] if ended else _side_notes("candidate", sides[0])),
            *_side_notes("baseline", sides[1]),
            *speed.notes,
        ),
        compared_at=datetime.now(UTC),
        speed=speed.results,
    )


def _answers(
    own: RunRows,
    other: RunRows,
    *,
    arms: Sequence[tuple[str, str]],
    metrics: Collection[str] | None,
    measured: bool,
) -> tuple[list[Pair], list[str]]:
    """What of the answers can be compared; nothing where only speed was asked for, or a side has no scores but its
    measured load. Raises as `paired_scores` does."""
    if metrics is not None and not metrics:
        return [], []
    lacking = [which for which, side in (("candidate", own), ("baseline", other)) if not side.scores]
    if not lacking or not (measured or (metrics is None and len(lacking) == 2)):
        return paired_scores(candidate=own, baseline=other, arms=arms, metrics=metrics)
    return [], [] if len(lacking) == 2 else [f"the {lacking[0]} has no scores: answers are not compared"]


def _compared(
    home: Path, pairs: Sequence[Pair], *, candidate: RunRows, baseline: RunRows, margin: float
) -> tuple[list[Result], list[Flip], list[Difference]]:
    """Results with Holm's p values, the flips, and one prompt of each dataset whose prompts differ."""
    results: list[Result] = []
    flips: list[list[Flip]] = []
    prompts: dict[str, Difference] = {}
    for pair in pairs:
        changed = prompts_changed(candidate, baseline, pair)
        result = _result(pair, changed, candidate=candidate, baseline=baseline, margin=margin)
        results.append(result)
        lower = result.direction == "lower"
        flips.append(flips_of(pair, lower_is_better=lower, samples=candidate.samples))
        if changed and pair.dataset not in prompts:
            key = (pair.dataset, changed[0])
            texts = [prompt(home, side.run_id, key=key) for side in (candidate, baseline)]
            one, two = around_first_difference(texts[0] or "", texts[1] or "")
            what = f"{pair.dataset}: prompts of {len(changed)} of {len(pair.scored)} samples, as in {changed[0]}"
            prompts[pair.dataset] = Difference(what=what, candidate=one, baseline=two)
    adjusted = holm([result.comparison.p_value for result in results])
    results = [
        replace(result, comparison=replace(result.comparison, p_adjusted=p))
        for result, p in zip(results, adjusted, strict=True)
    ]
    return results, with_texts(home, flips, candidate=candidate, baseline=baseline), list(prompts.values())


def _result(pair: Pair, changed: list[str] | None, *, candidate: RunRows, baseline: RunRows, margin: float) -> Result:
    kind = kind_of(pair.metric, base=pair.candidate.base, sides=(candidate, baseline), dataset=pair.dataset)
    common, clusters = pair.common, _clusters(pair, candidate, baseline)
    found = compare_means(
        candidate=pair.candidate,
        baseline=pair.baseline,
        margin=margin,
        clusters=clusters,
        lower_is_better=kind.direction == "lower",
        exponential=kind.over_samples == "exp_ratio",
    )
    comparison = replace(
        found,
        dataset=pair.dataset,
        metric=pair.metric,
        candidate_arm=pair.candidate_arm,
        baseline_arm=pair.baseline_arm,
        prompts_differ=bool(changed),
    )
    groups = clusters_of(pair.scored, clusters=clusters)
    return Result(
        comparison=comparison,
        unit=kind.unit,
        direction=kind.direction,
        metric_version=pair.candidate.version,
        only_candidate=len(pair.candidate_scores) - len(common),
        only_baseline=len(pair.baseline_scores) - len(common),
        unscored_candidate=sum(sample_id not in pair.candidate.means for sample_id in common),
        unscored_baseline=sum(sample_id not in pair.baseline.means for sample_id in common),
        clusters=None if groups is None else len(set(groups)),
        repeats=max(pair.candidate.most_repeats, pair.baseline.most_repeats),
        prompts_changed=None if changed is None else len(changed),
    )


def _clusters(pair: Pair, candidate: RunRows, baseline: RunRows) -> dict[str, str]:
    """Each sample's cluster, as the candidate has it, else as the baseline does."""
    found: dict[str, str] = {}
    for sample_id in pair.scored:
        rows = (side.samples.get((pair.dataset, sample_id)) for side in (candidate, baseline))
        cluster = next((row["cluster"] for row in rows if row is not None and row["cluster"] is not None), None)
        if cluster is not None:
            found[sample_id] = cluster
    return found


def side_of(home: Path, rows: RecordedRun, *, arm: str | None, arms: Sequence[str]) -> Side:
    """One of the two, with how many answers these arms have. arm: the one that was named."""
    answers, reused = answer_counts(home, rows.run_id, arms=arms)
    return Side(
        run_id=rows.run_id,
        name=str(rows.run["name"]),
        status=str(rows.run["status"]),
        started_at=rows.run["started_at"],
        arm=arm,
        model=rows.model,
        answers=answers,
        reused=reused,
    )


def _side_notes(which: str, side: Side) -> list[str]:
    found = []
    if side.status != "finished":
        found.append(f"the {which} is {side.status}: it may have answered only some of its samples")
    if side.reused:
        found.append(f"{side.reused} of {side.answers} answers of the {which} were taken from an earlier run")
    return found


def _notes(results: Sequence[Result]) -> list[str]:
    found = []
    for result in results:
        name = f"{result.name} ({result.arms})"
        one, two = result.only_candidate, result.only_baseline
        if one or two:
            found.append(f"{name}: {one} samples only in the candidate and {two} only in the baseline are left out")
        one, two = result.unscored_candidate, result.unscored_baseline
        if one or two:
            found.append(f"{name}: {one} samples have no score in the candidate and {two} none in the baseline")
    return found
