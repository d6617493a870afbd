"""What the preflight found, in words and numbers."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from schemas.metric import Aggregate
from schemas.preflight import Examined, PreflightStatus, PreflightSummary
from schemas.sample import ANSWERED, Request

_PERCENTILES = (50, 95, 100)
_FAULTS_SHOWN = 3
_UNTAKEN: dict[PreflightStatus, str] = {"refused": "refused", "timeout": "timed out", "crashed": "crashed the compiler"}


def in_a_line(found: PreflightSummary) -> str:
    """For the console: how many, how long, and what is wrong with them."""
    examined = found.examined
    schemas = sum(each.keywords is not None for each in examined)
    what = "schema" if schemas == len(examined) else "grammar"
    parts = [f"{len(examined):,} {what}{'' if len(examined) == 1 else 's'}"]
    times = _times(examined)
    cached = sum(each.cached for each in examined)
    if times:
        p50, most = np.percentile(times, 50), max(times)
        parts.append(f"compiled p50 {_ms(float(p50))}, max {_ms(most)}")
    if cached:
        parts[-1] += f" ({cached:,} cached)"
    counts = Counter(each.status for each in examined)
    untaken = [f"{counts[status]:,} {word}" for status, word in _UNTAKEN.items() if counts[status]]
    parts += [", ".join(untaken)] if untaken else []
    parts += [f"{found.unexamined:,} not examined"] if found.unexamined else []
    parts += [f"{found.unlinted:,} not linted"] if found.unlinted else []
    parts += [f"{found.warmed:,} warmed in {found.warm_s:.1f} s"] if found.warm_s is not None else []
    line = ", ".join(parts)
    wrong = [each for each in examined if each.faults]
    if wrong:
        line += f"; {found.backend} gets {len(wrong):,} silently wrong: {_at(wrong[0])} (see `assay grammar lint`)"
    return line


def warnings_of(found: PreflightSummary, requests: Sequence[Request]) -> list[str]:
    """What a reader of the run must know. requests: the run's."""
    said = []
    if found.lost is not None:
        said.append(f"the grammars could not be examined before the engine gets them: {found.lost}")
    elif found.unexamined:
        said.append(
            f"{found.unexamined:,} of {found.unexamined + len(found.examined):,} grammars were not compiled "
            "beforehand, for want of time (`engine.grammar.preflight.limit_s`): the engine gets them unexamined"
        )
    apart = [each for each in found.examined if each.quarantine is not None]
    if apart:
        keys = {(each.grammar_id, each.after) for each in apart}
        n = sum(r.grammar is not None and (r.grammar.grammar_id, r.grammar_after) in keys for r in requests)
        said.append(
            f"{len(apart):,} grammar{'s are' if len(apart) > 1 else ' is'} quarantined, and {n:,} "
            f"request{'s' if n > 1 else ''} refused for it: {apart[0].grammar_id}: {apart[0].message}"
            + (", …" if len(apart) > 1 else "")
        )
    wrong = [each for each in found.examined if each.faults]
    for each in wrong[:_FAULTS_SHOWN]:
        fault = each.faults[0]
        shown = "" if fault.instance is None else f", as {fault.instance} shows"
        more = f" (and {len(each.faults) - 1} more)" if len(each.faults) > 1 else ""
        said.append(
            f"{found.backend} gets the schema {each.grammar_id}{_of(each, requests)} silently wrong: "
            f"{fault.path or '/'}: {fault.problem}{shown}{more}"
        )
    if len(wrong) > _FAULTS_SHOWN:
        said.append(
            f"{found.backend} gets {len(wrong) - _FAULTS_SHOWN:,} more schemas silently wrong; the report lists them"
        )
    return [*said, *found.notes]


def disagreements(found: PreflightSummary, requests: Sequence[Request], *, statuses: Mapping[str, str]) -> list[str]:
    """Where the engine did with a grammar what the preflight did not expect. statuses: of requests by id."""
    outcomes: dict[tuple[str, str | None], set[bool]] = {}
    for request in requests:
        status = statuses.get(request.request_id)
        if request.grammar is not None and request.refused is None and status in (*ANSWERED, "refused"):
            key = (request.grammar.grammar_id, request.grammar_after)
            outcomes.setdefault(key, set()).add(status != "refused")
    said = []
    for each in found.examined:
        taken = outcomes.get((each.grammar_id, each.after))
        if each.status == "accepted" and taken == {False}:
            said.append(f"the engine refused the grammar {each.grammar_id}, which compiled beforehand")
        if each.status == "refused" and taken == {True}:
            said.append(f"the engine took the grammar {each.grammar_id}, which was refused beforehand: {each.message}")
    if len(said) > _FAULTS_SHOWN:
        said[_FAULTS_SHOWN:] = [f"the same is true of {len(said) - _FAULTS_SHOWN:,} more grammars"]
    return said


def compile_metrics(found: PreflightSummary) -> Iterator[Aggregate]:
    """`grammar.compile_ms`: of the grammars that the backend takes, measured now or when they were first compiled."""
    times = _times(found.examined)
    counts = Counter(each.status for each in found.examined)
    for percentile in _PERCENTILES if times else ():
        yield Aggregate(
            scope="run",
            name=f"grammar.compile_ms.{'max' if percentile == 100 else f'p{percentile}'}",
            arm=None,
            value=float(np.percentile(times, percentile)),
            unit="ms",
            direction="lower",
            n=len(times),
            n_failed=len(found.examined) - counts["accepted"],
            method="percentile, linear interpolation, each grammar once",
            details={
                **{str(status): n for status, n in counts.items()},
                "cached": sum(each.cached for each in found.examined),
            },
        )


def warm_metrics(found: PreflightSummary) -> Iterator[Aggregate]:
    """`grammar.warm_s`: what it took the engine to compile, before its first request, the grammars that it takes."""
    if found.warm_s is not None:
        yield Aggregate(
            scope="run",
            name="grammar.warm_s",
            arm=None,
            value=found.warm_s,
            unit="s",
            direction="lower",
            n=found.warmed or 0,
            n_failed=found.unwarmed or 0,
            method="wall clock, all of them at once",
        )


def _times(examined: Sequence[Examined]) -> list[float]:
    return [each.compile_s * 1000 for each in examined if each.compile_s is not None]


def _ms(milliseconds: float) -> str:
    return f"{milliseconds:,.0f} ms" if milliseconds >= 10 else f"{milliseconds:.1f} ms"


def _at(each: Examined) -> str:
    return each.faults[0].path or "the whole schema"


def _of(each: Examined, requests: Sequence[Request]) -> str:
    names = sorted({r.dataset for r in requests if r.grammar is not None and r.grammar.grammar_id == each.grammar_id})
    return f" of {', '.join(names)}" if names else ""
