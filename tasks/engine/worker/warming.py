"""Grammars compiled by the engine before anybody waits for them.

By one-token requests, as these go the whole way: vLLM's checks, the backend's compiler and its cache, the mask's
buffers and, on a GPU, the kernel that applies the mask."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tasks.engine.protocol import Warmed, WireGrammar, WireRequest, WireSampling


def warm(engine: Any, grammars: Sequence[WireGrammar], *, limit_s: float, add: Callable[[WireRequest], str]) -> Warmed:
    """Has vLLM's engine compile them. add: submits a request and gives vLLM's name for it;
    what it raises says that the engine does not take the grammar, and so will its first request."""
    started = time.monotonic()
    done = 0
    size = engine.vllm_config.scheduler_config.max_num_seqs
    for first in range(0, len(grammars), size):
        waiting = set(_added(grammars[first : first + size], add, first=first))
        while waiting and engine.has_unfinished_requests():
            for output in engine.step():
                if output.finished and output.request_id in waiting:
                    waiting.discard(output.request_id)
                    done += bool(output.outputs[0].token_ids)
            if time.monotonic() - started > limit_s:
                engine.abort_request(list(waiting))
                break
        if time.monotonic() - started > limit_s:
            break
    return Warmed(grammars=done, seconds=time.monotonic() - started)


def _added(grammars: Sequence[WireGrammar], add: Callable[[WireRequest], str], *, first: int) -> Iterator[str]:
    for number, grammar in enumerate(grammars, first):
        request = WireRequest(
            request_id=f"warm-{number}",
            prompt_token_ids=[1],
            sampling=WireSampling(temperature=0.0, max_tokens=1),
            grammar=grammar,
        )
        try:
            add(request)
        except Exception:  # noqa: BLE001, S112 - the request that has this grammar meets it too, and says why
            continue
        yield request.request_id
