"""A comparison of two runs over a corpus in words and rounded numbers, the same for pages and pull requests."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from tasks.compare import words
from tasks.compare.model import Result
from tasks.corpus.compare import BackendCompared, Changed, CorpusComparison
from tasks.corpus.pairs import Coverage, Ratio
from tasks.report.numbers import DASH, fixed, number

FIGURES = {
    "takes": "takes",
    "right": "right",
    "silently_wrong": "silently wrong",
    "valid_answer": "valid answer",
    "compile_ms": "compile, ms",
    "mask_us": "mask, µs",
}
_LOWER = ("silently_wrong",)
Way = Literal["lost", "won", "other"]


def backend_name(backend: BackendCompared) -> str:
    """`xgrammar`, or `xgrammar against guidance`."""
    own, other = backend.candidate, backend.baseline
    return own if own == other else f"{own} against {other}"


def versions(backend: BackendCompared) -> str:
    """`0.1.22 → 0.1.25`; one where both have the same."""
    own, other = backend.candidate_version or DASH, backend.baseline_version or DASH
    return own if own == other else f"{other} → {own}"


def results(found: CorpusComparison) -> list[Result]:
    """The shares as results of a comparison of runs, which have words and a figure already."""
    return [
        Result(
            comparison=share,
            unit="share",
            direction="lower" if share.metric in _LOWER else "higher",
            metric_version=1,
            only_candidate=0,
            only_baseline=0,
            unscored_candidate=0,
            unscored_baseline=0,
            clusters=None,
            repeats=1,
            prompts_changed=None,
        )
        for backend in found.backends
        for share in backend.shares
    ]


def sentence(found: CorpusComparison) -> str:
    """What came out, the worst first: `Worse in 1 of 3: xgrammar takes 0.900 → 0.800; 2 the same.`"""
    return words.verdicts(results(found), named=_change)


def _change(result: Result) -> str:
    one, two = words.means(result)
    return f"{result.arms} {FIGURES[result.comparison.metric]} {two} → {one}"


def way(changed: Changed) -> Way:
    """lost: it was right; won: it is right now."""
    return "lost" if changed.before == "right" else "won" if changed.after == "right" else "other"


def counted(changed: Sequence[Changed]) -> list[tuple[str, int]]:
    """How many schemas went from one verdict to another, the most first: `refused → right`."""
    counts = Counter(f"{each.before} → {each.after}" for each in changed)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def said(changed: Changed) -> str | None:
    """What the candidate says against the schema; where it says nothing, what the baseline said."""
    if changed.message:
        return changed.message
    return f"before: {changed.before_message}" if changed.before_message else None


def coverage_rows(found: CorpusComparison) -> list[dict[str, str]]:
    """A line a split and backend, the whole corpus first: each share from the baseline's to the candidate's, and the
    difference with its interval."""
    figures = [name for name in FIGURES if any(each.figure == name for one in found.backends for each in one.coverage)]
    splits = list(dict.fromkeys(each.split for backend in found.backends for each in backend.coverage))
    rows = []
    for split in splits:
        for backend in found.backends:
            own = {each.figure: each for each in backend.coverage if each.split == split}
            if own:
                row = {"split": "whole corpus" if split is None else split, "backend": backend_name(backend)}
                row["schemas"] = f"{max(each.n for each in own.values()):,}"
                for name in figures:
                    row |= _share(own.get(name), FIGURES[name])
                rows.append(row)
    return rows


def _share(each: Coverage | None, name: str) -> dict[str, str]:
    if each is None or each.candidate is None or each.baseline is None or each.effect is None:
        return {name: DASH, f"{name}, difference": DASH}
    told = _points(each.effect)
    if each.lo is not None and each.hi is not None:
        told += f" [{_points(each.lo)}, {_points(each.hi)}]"
    return {name: f"{each.baseline:.1%} → {each.candidate:.1%}", f"{name}, difference": told}


def _points(share: float) -> str:
    return fixed(100 * share, 1, signed=True)


def time_rows(found: CorpusComparison) -> list[dict[str, str]]:
    """A line a backend and time: percentiles of both, over the schemas of which both have one, and the ratio."""
    rows = []
    for backend in found.backends:
        for each in backend.ratios:
            if each.n:
                rows.append(
                    {"backend": backend_name(backend), "time": FIGURES[each.figure], "schemas": f"{each.n:,}"}
                    | _percentiles("baseline", each.baseline)
                    | _percentiles("candidate", each.candidate)
                    | {"ratio": ratio_words(each)}
                )
    return rows


def _percentiles(side: str, found: Mapping[str, float]) -> dict[str, str]:
    return {f"{side} {name}": number(value) for name, value in found.items()}


def ratio_words(each: Ratio) -> str:
    """`0.87× [0.80, 0.95]`."""
    if each.value is None:
        return DASH
    bounds = "" if each.lo is None or each.hi is None else f" [{number(each.lo)}, {number(each.hi)}]"
    return f"{number(each.value)}×{bounds}"
