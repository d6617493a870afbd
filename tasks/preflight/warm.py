"""Which grammars the engine compiles before its first request."""

from collections.abc import Sequence

from schemas.preflight import PreflightSummary
from schemas.sample import Request
from tasks.engine.client import EngineClient
from tasks.engine.protocol import WireGrammar

_CACHED = ("xgrammar", "outlines")
"""vLLM's backends that keep what they compiled. The others compile for every request, so that one grammar is enough to
have them loaded."""


def worth_warming(found: PreflightSummary, requests: Sequence[Request], *, limit_s: float) -> list[WireGrammar]:
    """Those that the backend takes, each once, the slowest first, as far as the seconds last that they took when they
    were compiled. requests: of the run; what none of them has is left out."""
    times = {
        (each.grammar_id, each.after): each.compile_s
        for each in found.examined
        if each.status == "accepted" and each.compile_s is not None
    }
    used: dict[tuple[str, str | None], WireGrammar] = {}
    for request in requests:
        if request.grammar is not None and request.refused is None:
            key = (request.grammar.grammar_id, request.grammar_after)
            if key in times and key not in used:
                used[key] = WireGrammar(
                    kind=request.grammar.kind, content=request.grammar.content, after=request.grammar_after
                )
    ordered = sorted(used, key=lambda key: -times[key])
    if found.backend not in _CACHED:
        ordered = ordered[-1:]
    chosen, spent = [], 0.0
    for key in ordered:
        if spent + times[key] <= limit_s:
            spent += times[key]
            chosen.append(used[key])
    return chosen


def warmed(
    found: PreflightSummary, requests: Sequence[Request], client: EngineClient, *, limit_s: float
) -> PreflightSummary:
    """Has the engine compile them; the summary with how many, and how long it took. Raises EngineDied."""
    grammars = worth_warming(found, requests, limit_s=limit_s)
    if not grammars:
        return found
    answer = client.warm(grammars, limit_s=2 * limit_s)
    unwarmed = len(grammars) - answer.grammars
    return found.model_copy(update={"warmed": answer.grammars, "unwarmed": unwarmed, "warm_s": answer.seconds})
