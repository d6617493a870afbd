"""The masks of guided answers, made for all requests of a step in a few calls.

vLLM makes the masks one call a request, from 129 requests on in a thread pool whose threads wait for Python's lock
longer than they work, and copies them once more before the device may read them. Here a few threads have one part of
the requests each, and one call for all of a part, and write where the device reads. Who is in a step and by which
grammar is looked up when that changes, not every step. The masks are the same, bit for bit.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.engine.worker.applying import apply_whole_batches
from tasks.engine.worker.fills import FILLS, Fill
from tasks.engine.worker.following import follow_later
from tasks.engine.worker.within import grammars_of

MOST_THREADS = 4
IN_FLIGHT = 3
"""Masks that are kept apart: the device may still read one step's while the next one's are made."""
_NEEDED = ("_grammar_bitmask", "backend", "grammar_bitmask", "reasoner_cls")


class Masks:
    """Replaces how one engine makes its masks. on: whether it does now; switched between requests only."""

    def __init__(self) -> None:
        self.on = False
        self._manager: Any = None
        self._knows_how = False
        self._buffers: list[Any] = []
        self._turn = 0
        self._requests: list[Any] = []
        self._grammars: list[Any] = []

    def watch(self, engine: Any, *, on: bool, backend: str, cores: int) -> str:
        """Says who makes the masks now, `batched` or `vllm`: vLLM where it is asked for, where its core is in another
        process, where tokens are drafted or a reasoning parser decides when a grammar holds, and for the backends that
        have no such calls."""
        manager = grammars_of(engine)
        drafted = engine.vllm_config.speculative_config is not None
        if not on or drafted or backend not in FILLS or any(not hasattr(manager, name) for name in _NEEDED):
            return "vllm"
        if manager.reasoner_cls is not None:
            return "vllm"
        self._manager, self.on, self._knows_how = manager, True, True
        if backend == "xgrammar":
            follow_later(engine)
        fill = FILLS[backend](max(1, min(MOST_THREADS, cores // 2)))
        bitmask = manager.grammar_bitmask

        def grammar_bitmask(requests: Mapping[str, Any], request_ids: Sequence[str], *given: Any, **named: Any) -> Any:
            if not self.on or not request_ids:
                return bitmask(requests, request_ids, *given, **named)
            return self._made([requests[request_id] for request_id in request_ids], fill)

        manager.grammar_bitmask = grammar_bitmask
        apply_whole_batches(engine, lambda: self._buffers[self._turn] if self.on and self._buffers else None)
        return "batched"

    def switch(self, by: str) -> bool:
        """False where this engine does not know how."""
        if self._knows_how:
            self.on = by == "batched"
        return self._knows_how or by == "vllm"

    def _made(self, requests: list[Any], fill: Fill) -> Any:
        """One step's masks, a numpy array with a row for each request."""
        if requests != self._requests:  # each is equal to itself only
            self._requests = requests
            self._grammars = [request.structured_output_request.grammar for request in requests]
        if not self._buffers:
            self._buffers = self._apart()
        self._turn = (self._turn + 1) % len(self._buffers)
        mask, grammars, rows = self._buffers[self._turn], self._grammars, range(len(requests))
        ended = [row for row, grammar in enumerate(grammars) if grammar.is_terminated()]
        if ended:
            for row in ended:
                mask[row].fill_(-1)
            rest = set(rows).difference(ended)
            grammars, rows = [grammars[row] for row in rest], list(rest)
        fill(grammars, rows, mask)
        return mask[: len(requests)].numpy()

    def _apart(self) -> list[Any]:
        """Masks for as many requests as run at once, in memory that a GPU reads by itself where there is one."""
        import torch  # noqa: PLC0415 - costs seconds

        manager = self._manager
        if manager._grammar_bitmask is None:
            most = manager.vllm_config.scheduler_config.max_num_seqs
            manager._grammar_bitmask = manager.backend.allocate_token_bitmask(most)
        pinned = torch.cuda.is_available()
        return [torch.empty_like(manager._grammar_bitmask, pin_memory=pinned) for _ in range(IN_FLIGHT)]
