"""What the preflight found, applied to a run's requests."""

from collections.abc import Sequence
from dataclasses import replace

from schemas.preflight import Examined
from schemas.sample import Request


def quarantined(requests: Sequence[Request], examined: Sequence[Examined]) -> list[Request]:
    """The requests, with those refused whose grammar would hang or kill the engine's compiler. They keep their place
    and their names, so that they are counted with the others."""
    reasons = {(each.grammar_id, each.after): each.quarantine for each in examined if each.quarantine is not None}
    if not reasons:
        return list(requests)

    def kept(request: Request) -> Request:
        if request.grammar is None or request.refused is not None:
            return request
        reason = reasons.get((request.grammar.grammar_id, request.grammar_after))
        return request if reason is None else replace(request, refused=reason)

    return [kept(request) for request in requests]
