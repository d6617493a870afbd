"""What vLLM does for every guided token that it need not do where no model reasons before it answers: a reasoning
parser is asked twice a token, and once more for the mask, whether its text is over."""

from typing import Any

from tasks.engine.worker.within import grammars_of

_SHOULD, _TRIM, _ACCEPT = "should_advance", "trim_reasoning_for_advance", "accept_tokens"


def advance_at_once(engine: Any) -> None:
    """Grammars follow every token without asking, where this engine has no reasoning parser and its scheduler is in
    this process."""
    manager = grammars_of(engine)
    if getattr(manager, "reasoner_cls", ...) is not None:
        return
    if hasattr(manager, _ACCEPT):  # from 0.32 on the manager has it all in one
        setattr(manager, _ACCEPT, _accepted)
    elif hasattr(manager, _SHOULD) and hasattr(manager, _TRIM):
        setattr(manager, _SHOULD, _is_guided)
        setattr(manager, _TRIM, _all)


def _accepted(request: Any, token_ids: list[int]) -> bool:
    if not token_ids or not request.use_structured_output:
        return True
    return bool(request.structured_output_request.grammar.accept_tokens(request.request_id, token_ids))


def _is_guided(request: Any) -> bool:
    return bool(request.use_structured_output)


def _all(_: Any, token_ids: list[int]) -> list[int]:
    return token_ids
