"""What makes two numbers of one name two different things: another metric behind it, another text, other windows."""

from collections.abc import Iterable

from schemas.errors import ConfigError, Problem
from tasks.compare.pairs import Pair
from tasks.compare.read import RunRows

_SHOWN = 5


def check_measured(*, candidate: RunRows, baseline: RunRows, pairs: Iterable[Pair]) -> list[str]:
    """Raises ConfigError where a name stands for another metric on each side, or documents have other words or bytes;
    gives a note for each dataset whose documents were read in other windows."""
    problems: list[Problem] = []
    notes: list[str] = []
    for pair in pairs:
        name = f"{pair.dataset}.{pair.metric}"
        if pair.candidate.base != pair.baseline.base:
            problems.append(
                Problem(
                    message=f"{name} is {pair.candidate.base} in the candidate and {pair.baseline.base} in the "
                    "baseline; these scores do not compare",
                    suggestion="name the others with --metric",
                )
            )
            continue
        problems += _other_texts(pair, name=name)
        notes += _other_windows(pair, candidate=candidate, baseline=baseline)
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    return list(dict.fromkeys(notes))


def _other_texts(pair: Pair, *, name: str) -> list[Problem]:
    ours, theirs = pair.candidate.sums, pair.baseline.sums
    differing = [key for key in ours if key in theirs and ours[key][1] != theirs[key][1]]
    if not differing:
        return []
    said = ", ".join(f"{key}: {ours[key][1]:,.0f} against {theirs[key][1]:,.0f}" for key in differing[:_SHOWN])
    message = (
        f"{name}: {len(differing)} documents have other words or bytes in the candidate than in the baseline, so they "
        f"are other texts: {said}{'; …' if len(differing) > _SHOWN else ''}"
    )
    return [Problem(message=message, suggestion="compare runs on the same documents")]


def _other_windows(pair: Pair, *, candidate: RunRows, baseline: RunRows) -> list[str]:
    sides = []
    for side in (candidate, baseline):
        rows = (side.samples.get((pair.dataset, sample_id)) for sample_id in pair.common)
        sides.append({row["window_tokens"] for row in rows if row is not None} - {None})
    if not all(sides) or sides[0] == sides[1]:
        return []
    one, two = (" and ".join(f"{length:,}" for length in sorted(side)) for side in sides)
    return [
        f"{pair.dataset}: the candidate read documents in windows of {one} tokens, the baseline in windows of {two}: "
        "longer windows alone make a perplexity lower; `document.window` makes them alike"
    ]
