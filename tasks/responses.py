"""From what the engine sent back to a row of the table `requests`."""

import datetime
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from schemas.engine import Sampling
from schemas.errors import ConfigError
from schemas.sample import Request
from tasks.engine.protocol import WireGrammar, WireRequest, WireResult, WireSampling
from tasks.guide.validate import validate, whitespace_share
from tasks.record.rows import quality_cell_id
from tasks.requests import drawn_with
from tasks.score.reasoning import UNFINISHED, cut_at_stop, parse_reasoning

FAILED = frozenset({"error", "refused", "cancelled"})
"""The states that count against `max_failed`."""
FINAL = frozenset({"ok", "invalid", "truncated", "refused"})
"""The states that a resumed run does not ask again."""


Words = Callable[[Request], tuple[str, list[dict[str, Any]] | None]]
"""A request's prompt as text, and as messages."""


@dataclass(frozen=True, kw_only=True)
class RowContext:
    """What every row of one engine and run shares."""

    engine_id: str
    sampling: dict[str, Sampling]
    """By dataset."""
    keys: dict[str, str]
    """request_key by request_id."""
    attempts: dict[str, int]
    """How often a request was tried before, by request_id; missing means never."""
    cell_id: str | None = None
    """The measured cell that it is asked in; None in the quality phase."""
    words: Words | None = None
    """What a server that takes no token ids gets in their place; None for an engine that takes them."""
    phase: str = "quality"
    """Of a measured cell: warmup, measure or cooldown."""
    wall_offset_s: float = field(default_factory=lambda: time.time() - time.monotonic())
    """What turns a monotonic time of this machine into UTC seconds."""

    def utc(self, monotonic_s: float | None) -> datetime.datetime | None:
        if monotonic_s is None:
            return None
        return datetime.datetime.fromtimestamp(monotonic_s + self.wall_offset_s, tz=datetime.UTC)


def wire_request(request: Request, sampling: Sampling, *, words: Words | None = None) -> WireRequest:
    """The request as the engine process takes it. words: of one that takes no token ids.

    One of an exact length goes on past the model's end of text. That alone does it, with no stop string: vLLM's
    min_tokens would have every step look for what it must forbid, which the guided request did not pay for."""
    sampling = drawn_with(request, sampling)
    text, messages = (None, None) if words is None else words(request)
    return WireRequest(
        request_id=request.request_id,
        prompt_token_ids=request.prompt_token_ids,
        sampling=WireSampling(
            temperature=sampling.temperature,
            max_tokens=request.max_tokens,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            seed=sampling.seed,
            stop=request.engine_stop,
            ignore_eos=request.exactly,
        ),
        grammar=None
        if request.grammar is None
        else WireGrammar(kind=request.grammar.kind, content=request.grammar.content, after=request.grammar_after),
        continuation_start=request.continuation_start,
        adapter=request.adapter,
        text=text,
        messages=messages,
    )


def output_tokens(result: WireResult) -> int | None:
    """The engine's own count; None where a server does not tell."""
    if result.token_ids or result.output_tokens is None:
        return len(result.token_ids) if result.token_ids or not result.text else None
    return result.output_tokens


def response_row(request: Request, result: WireResult, context: RowContext) -> dict[str, Any]:
    """One row of `requests`. An answer is validated here, by a validator that is not the grammar engine."""
    row = _asked(request, context) | _timings(result, context)
    row |= {
        "error": result.error,
        "finish_reason": result.finish_reason,
        "stop_reason": result.stop_reason,
        "cached_tokens": result.cached_tokens,
        "preemptions": result.preemptions,
        "tries": result.tries,
        # What a server counted, where it got text or messages.
        **({} if result.prompt_tokens is None else {"prompt_tokens": result.prompt_tokens}),
    }
    if result.error is not None:
        return row | {"status": "refused" if result.refused else "error"}
    if request.kind == "loglikelihood":
        logprobs = result.logprobs or []
        return row | {"status": "ok", "logprobs": logprobs, "logprob_sum": sum(logprobs), "output_tokens": 0}
    row |= {
        "output": result.text,
        "output_token_ids": result.token_ids if result.token_ids or result.output_tokens is None else None,
        "output_tokens": output_tokens(result),
    }
    if result.reasoning is not None:
        row["reasoning"] = result.reasoning
    if request.reasoning_parser is not None:
        return row | _without_reasoning(request, result, parser=request.reasoning_parser)
    return row | _judged(request, result.text, finish_reason=result.finish_reason)


def refused_row(request: Request, context: RowContext) -> dict[str, Any]:
    """The row of a request that was never sent, because of its own schema or pattern."""
    return _asked(request, context) | {"status": "refused", "error": request.refused}


def unmatched_row(request: Request, context: RowContext, *, why: str) -> dict[str, Any]:
    """The row of a request that was never sent, since no length is known that it should have."""
    return _asked(request, context) | {"status": "cancelled", "error": why}


def lost_row(request: Request, context: RowContext, *, why: str) -> dict[str, Any]:
    """The row of a request of a measured cell to which no answer came."""
    return _asked(request, context) | {"status": "error", "error": why}


def killer_row(request: Request, context: RowContext, *, words: str) -> dict[str, Any]:
    """The row of a request that engines die of. words: the last one's last."""
    error = f"the engine died of this request: it was in flight when two died, the second time alone. {words}"
    return _asked(request, context) | {"status": "error", "error": error}


def _asked(request: Request, context: RowContext) -> dict[str, Any]:
    sampling = drawn_with(request, context.sampling[request.dataset])
    return {
        "request_id": request.request_id,
        "attempt": context.attempts.get(request.request_id, 0),
        # What is measured is asked anew each time: its answer is nobody's to use again.
        "request_key": context.keys[request.request_id] if context.cell_id is None else None,
        "cell_id": context.cell_id or quality_cell_id(context.engine_id, request.arm),
        "engine_id": context.engine_id,
        "dataset": request.dataset,
        "sample_id": request.sample_id,
        "arm": request.arm,
        "kind": request.kind,
        "choice_index": request.choice_index,
        "repeat": request.repeat,
        "repair_try": request.repair_try,
        "phase": context.phase,
        "adapter": request.adapter,
        "sampling": sampling.model_dump() | {"max_tokens": request.max_tokens, "stop": request.stop},
        "reused": False,
        "prompt_tokens": len(request.prompt_token_ids),
        "encoded_apart": request.encoded_apart if request.kind == "loglikelihood" else None,
    }


def _without_reasoning(request: Request, result: WireResult, *, parser: str) -> dict[str, Any]:
    """The answer behind the reasoning, judged. No answer, and `truncated`, where the reasoning never ended.

    The engine got no stop strings: the answer is cut at the first of them here, and the row says that it ended so."""
    try:
        reasoning, answer, closed = parse_reasoning(parser, result.text, begun=request.reasoning_begun)
    except ConfigError as error:  # a plugin's parser that fails on this answer
        return {"status": "error", "error": str(error)}
    row: dict[str, Any] = {"reasoning": reasoning}
    if reasoning is not None:
        row["ttft_text_ms"] = None  # the first text was the reasoning's
    if not closed:
        return row | {"output": None, "status": "truncated", "error": UNFINISHED}
    answer, stopped_by = cut_at_stop(answer, request.stop)
    finish_reason = result.finish_reason if stopped_by is None else "stop"
    if stopped_by is not None:
        row |= {"finish_reason": finish_reason, "stop_reason": stopped_by}
    return row | {"output": answer} | _judged(request, answer, finish_reason=finish_reason)


def _judged(request: Request, answer: str, *, finish_reason: str | None) -> dict[str, Any]:
    status = "truncated" if finish_reason == "length" and not request.exactly else "ok"
    if request.check is None:
        return {"status": status}
    verdict = validate(request.check, answer)
    if status == "ok" and not verdict.valid:
        status = "invalid"
    json_kind = request.check.kind in ("json_schema", "json_object")
    return {
        "status": status,
        "valid": verdict.valid,
        "validator": verdict.validator,
        "violations": [{"path": v.path, "message": v.message} for v in verdict.violations],
        "whitespace_share": whitespace_share(answer) if json_kind else None,
    }


def _timings(result: WireResult, context: RowContext) -> dict[str, Any]:
    """ttft, tpot and e2e from the arrival of each token; queued, prefill and decode on the engine's own clock."""
    first, last, sent, n = result.first_token_at, result.last_token_at, result.sent_at, output_tokens(result)
    return {
        "sent_at": context.utc(sent),
        "ttft_ms": None if first is None else (first - sent) * 1000,
        "ttft_text_ms": None if result.first_text_at is None else (result.first_text_at - sent) * 1000,
        "tpot_ms": None if first is None or last is None or n is None or n < 2 else (last - first) * 1000 / (n - 1),
        "e2e_ms": None if last is None else (last - sent) * 1000,
        "queued_ms": result.queued_ms,
        "prefill_ms": result.prefill_ms,
        "decode_ms": result.decode_ms,
        "prefill_steps": result.prefill_steps,
        "draft_tokens": result.draft_tokens,
        "accepted_tokens": result.accepted_tokens,
        "gaps_ms": result.gaps_ms,
        "gap_tokens": result.gap_tokens,
    }
