"""One request's way through vLLM: its parameters, the arrival of its tokens, its result."""

import time
from dataclasses import dataclass, field
from typing import Any

from tasks.engine.grammar_form import engine_form, vllm_arguments
from tasks.engine.protocol import WireGrammar, WireRequest, WireResult


def sampling_parameters(request: WireRequest, *, read_cache: bool = True, structured: Any = None) -> Any:
    """vLLM's SamplingParams for one request. Raises vLLM's own errors for values that it does not take, and NoForm for
    a grammar that the engine's backend has no form for. structured: the engine's StructuredOutputsConfig.

    read_cache: a log-likelihood request may take its context from the prefix cache. vLLM forbids it by default, since
    it has no log-probabilities of cached tokens; the context's are not needed (see `InFlight.needs_rerun`)."""
    from vllm import SamplingParams  # noqa: PLC0415 - costs seconds
    from vllm.sampling_params import RequestOutputKind  # noqa: PLC0415

    sampling = request.sampling
    if request.continuation_start is not None:
        return SamplingParams(
            temperature=0.0,
            max_tokens=1,
            prompt_logprobs=0,
            skip_reading_prefix_cache=not read_cache,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
            skip_clone=True,  # they are this request's alone
        )
    return SamplingParams(
        temperature=sampling.temperature,
        max_tokens=sampling.max_tokens,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        seed=sampling.seed,
        stop=sampling.stop,
        ignore_eos=sampling.ignore_eos,
        structured_outputs=None if request.grammar is None else _structured_outputs(request.grammar, structured),
        output_kind=RequestOutputKind.DELTA,
        skip_clone=True,
    )


def _structured_outputs(grammar: WireGrammar, structured: Any) -> Any:
    from vllm.sampling_params import StructuredOutputsParams  # noqa: PLC0415

    form, content = engine_form(
        kind=grammar.kind,
        content=grammar.content,
        after=grammar.after,
        backend=getattr(structured, "backend", "xgrammar"),
        whitespace=not getattr(structured, "disable_any_whitespace", True),
    )
    return StructuredOutputsParams(**vllm_arguments(form=form, content=content))


@dataclass(slots=True)
class InFlight:
    """A request that vLLM works on."""

    request: WireRequest
    engine_id: str = ""
    """vLLM's own name for it, which is not `request_id`."""
    sent_at: float = field(default_factory=time.monotonic)
    token_ids: list[int] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    first_token_at: float | None = None
    first_text_at: float | None = None
    last_token_at: float | None = None
    gaps_ms: list[float] = field(default_factory=list)
    gap_tokens: list[int] = field(default_factory=list)

    def needs_rerun(self, output: Any) -> bool:
        """Whether the cache also held a part of the continuation, whose log-probabilities are then missing."""
        start, cached = self.request.continuation_start, output.num_cached_tokens
        return start is not None and output.finished and cached is not None and cached >= start

    def add(self, completion: Any, now: float) -> int:
        """Adds what a step brought, vLLM's CompletionOutput of it or a Delta; how many tokens that was."""
        n = len(completion.token_ids)
        if n:
            if self.last_token_at is None:
                self.first_token_at = now
            else:
                self.gaps_ms.append((now - self.last_token_at) * 1000)
                self.gap_tokens.append(n)
            self.last_token_at = now
            self.token_ids.extend(completion.token_ids)
            if completion.text:
                if self.first_text_at is None:
                    self.first_text_at = now
                self.text.append(completion.text)
        return n

    def result(self, output: Any, now: float) -> WireResult:
        """The result of a request that is finished, with its last step added. output: vLLM's RequestOutput."""
        completion = output.outputs[0]
        result = WireResult(
            request_id=self.request.request_id,
            token_ids=self.token_ids,
            text="".join(self.text),
            finish_reason=completion.finish_reason,
            stop_reason=None if completion.stop_reason is None else str(completion.stop_reason),
            sent_at=self.sent_at,
            finished_at=now,
            cached_tokens=output.num_cached_tokens,
            first_token_at=self.first_token_at,
            first_text_at=self.first_text_at,
            last_token_at=self.last_token_at,
            gaps_ms=self.gaps_ms,
            gap_tokens=self.gap_tokens,
        )
        _add_engine_times(result, output.metrics)
        if self.request.continuation_start is not None:
            result.logprobs = _continuation_logprobs(output, self.request.continuation_start)
            result.token_ids, result.text = [], ""
        elif completion.finish_reason == "error":
            result.error = "the engine gave this request up while it compiled or followed its grammar"
            result.refused = self.request.grammar is not None
        return result


def _is_the_requests_fault(error: Exception) -> bool:
    """Whether vLLM would never take this request: asking again would change nothing."""
    from vllm import exceptions  # noqa: PLC0415 - costs seconds

    # Older releases have validation errors that are ValueErrors, newer ones a class of their own.
    own = (getattr(exceptions, "VLLMClientError", ValueError), getattr(exceptions, "VLLMValidationError", ValueError))
    return isinstance(error, (ValueError, TypeError, NotImplementedError, *own))


def not_taken(request: WireRequest, error: Exception) -> WireResult:
    """The result of a request that vLLM did not take: refused, if asking again would change nothing."""
    now = time.monotonic()
    return WireResult(
        request_id=request.request_id,
        token_ids=[],
        text="",
        finish_reason=None,
        stop_reason=None,
        sent_at=now,
        finished_at=now,
        refused=_is_the_requests_fault(error),
        error=f"{type(error).__name__}: {error}",
    )


def _add_engine_times(result: WireResult, stats: Any) -> None:
    """The engine's own clock: queued, scheduled, first and last token, all monotonic."""
    if stats is None:
        return
    result.preemptions = getattr(stats, "num_preemptions", None)  # before 0.30, the StepLog counts them
    if stats.queued_ts and stats.scheduled_ts:
        result.queued_ms = (stats.scheduled_ts - stats.queued_ts) * 1000
    if stats.scheduled_ts and stats.first_token_ts:
        result.prefill_ms = (stats.first_token_ts - stats.scheduled_ts) * 1000
    if stats.first_token_ts and stats.last_token_ts:
        result.decode_ms = (stats.last_token_ts - stats.first_token_ts) * 1000


def _continuation_logprobs(output: Any, start: int) -> list[float]:
    """log P of each token from `start` on, given all before it.

    Counted from the end: of a prompt whose beginning was cached, some releases list only what they computed."""
    token_ids = output.prompt_token_ids
    listed = output.prompt_logprobs[start - len(token_ids) :]
    return [each[token_id].logprob for each, token_id in zip(listed, token_ids[start:], strict=True)]
