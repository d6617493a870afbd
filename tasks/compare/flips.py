"""The samples that changed between two runs, both ways, with what was answered."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from schemas.metric import Score
from tasks.compare.model import Answer, Flip
from tasks.compare.pairs import Pair
from tasks.compare.read import RunRows, outputs

TEXTS = 100
"""Of one result, so many flips each way hold their answers' texts."""


def flips_of(
    pair: Pair, *, lower_is_better: bool, samples: Mapping[tuple[str, str], Mapping[str, object]]
) -> list[Flip]:
    """The samples whose values differ, the largest loss first, then the largest gain; without the answers' texts."""
    found = []
    for sample_id in pair.scored:
        one, two = pair.candidate.means[sample_id], pair.baseline.means[sample_id]
        if one == two:
            continue
        row = samples.get((pair.dataset, sample_id))
        target = None if row is None or row["target"] is None else json.dumps(row["target"], ensure_ascii=False)
        flip = Flip(
            dataset=pair.dataset,
            metric=pair.metric,
            candidate_arm=pair.candidate_arm,
            baseline_arm=pair.baseline_arm,
            sample_id=sample_id,
            change="won" if (one > two) != lower_is_better else "lost",
            candidate=one,
            baseline=two,
            candidate_answers=_answers(pair.candidate_scores[sample_id]),
            baseline_answers=_answers(pair.baseline_scores[sample_id]),
            target=target,
        )
        found.append(flip)
    return sorted(found, key=lambda flip: (flip.change == "won", -abs(flip.candidate - flip.baseline), flip.sample_id))


def with_texts(
    home: Path, flips: Sequence[Sequence[Flip]], *, candidate: RunRows, baseline: RunRows, most: int = TEXTS
) -> list[Flip]:
    """All flips in a row, the first of each result and each way with their answers' texts."""
    chosen = {
        id(flip) for own in flips for way in ("lost", "won") for flip in [f for f in own if f.change == way][:most]
    }
    held = [flip for own in flips for flip in own if id(flip) in chosen]
    ours = outputs(home, candidate.run_id, request_ids=_requests(flip.candidate_answers for flip in held))
    theirs = outputs(home, baseline.run_id, request_ids=_requests(flip.baseline_answers for flip in held))
    return [
        replace(
            flip,
            candidate_answers=_filled(flip.candidate_answers, ours),
            baseline_answers=_filled(flip.baseline_answers, theirs),
        )
        if id(flip) in chosen
        else flip
        for own in flips
        for flip in own
    ]


def _answers(scores: Iterable[Score]) -> tuple[Answer, ...]:
    return tuple(
        Answer(
            repeat=score.repeat,
            value=score.value,
            extracted=score.extracted,
            reason=score.reason,
            request_id=score.request_id,
        )
        for score in scores
    )


def _requests(answers: Iterable[Iterable[Answer]]) -> list[str]:
    found = (answer.request_id for each in answers for answer in each)
    return list(dict.fromkeys(request_id for request_id in found if request_id is not None))


def _filled(answers: Iterable[Answer], texts: Mapping[str, str]) -> tuple[Answer, ...]:
    return tuple(
        answer if answer.request_id is None else replace(answer, output=texts.get(answer.request_id))
        for answer in answers
    )
