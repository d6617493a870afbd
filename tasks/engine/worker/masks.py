"""The masks of guided answers, made for all requests of a step in a few calls.

vLLM makes the masks one call a request, from 129 requests on in a thread pool whose threads wait for Python's lock
longer than they work, and copies them once more before the device may read them. Here a few threads have one part of
the requests each, and one call for all of a part, and write where the device reads. The masks are the same, bit for
bit.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

Row = tuple[Any, int, bool]
"""A grammar, its row of the mask, and whether it holds yet: while a model still reasons, every token may come."""

Fill = Callable[[Sequence[Any], Sequence[int], Any], None]
"""Writes the masks of these grammars into these rows of a mask."""

MOST_THREADS = 4
SMALLEST_PART = 32
"""Requests: fewer are not worth waking a thread."""
IN_FLIGHT = 3
"""Masks that are kept apart: the device may still read one step's while the next one's are made."""
_SIZE, _ALL = "fill_bitmask_parallel_batch_size", 1 << 30
_NEEDED = ("_async_submit_fill_bitmask", "_grammar_bitmask", "fill_bitmask_parallel_threshold", "grammar_bitmask")


class Masks:
    """Replaces how one engine makes its masks. on: whether it does now; switched between requests only."""

    def __init__(self) -> None:
        self.on = False
        self._manager: Any = None
        self._knows_how = False
        self._buffers: list[Any] = []
        self._turn = 0

    def watch(self, engine: Any, *, on: bool, backend: str, cores: int) -> str:
        """Says who makes the masks now, `batched` or `vllm`: vLLM where it is asked for, where its core is in another
        process, where tokens are drafted, and for the backends that have no such calls."""
        core = getattr(engine.engine_core, "engine_core", None)
        manager = getattr(core, "structured_output_manager", None)
        drafted = engine.vllm_config.speculative_config is not None
        if not on or drafted or backend not in _FILLS or any(not hasattr(manager, name) for name in _NEEDED):
            return "vllm"
        self._manager, self.on, self._knows_how = manager, True, True
        fill = _FILLS[backend](max(1, min(MOST_THREADS, cores // 2)))
        submit, bitmask = manager._async_submit_fill_bitmask, manager.grammar_bitmask
        threshold, size = manager.fill_bitmask_parallel_threshold, getattr(manager, _SIZE, _ALL)
        if not hasattr(manager, "executor_for_fillmask"):
            manager.executor_for_fillmask = ThreadPoolExecutor(1)  # vLLM ends it with the engine

        def submitted(batch: Sequence[Row]) -> "Future[None]":
            return self._made(batch, fill) if self.on else submit(batch)

        def grammar_bitmask(*given: Any, **named: Any) -> Any:
            manager.fill_bitmask_parallel_threshold = 0 if self.on else threshold
            setattr(manager, _SIZE, _ALL if self.on else size)
            return bitmask(*given, **named)

        manager._async_submit_fill_bitmask = submitted
        manager.grammar_bitmask = grammar_bitmask
        return "batched"

    def switch(self, by: str) -> bool:
        """False where this engine does not know how."""
        if self._knows_how:
            self.on = by == "batched"
        return self._knows_how or by == "vllm"

    def _made(self, batch: Sequence[Row], fill: Fill) -> "Future[None]":
        """One step's masks, made when this returns. vLLM then takes what its manager has."""
        manager = self._manager
        if not self._buffers:
            self._buffers = _apart(manager._grammar_bitmask)
        self._turn = (self._turn + 1) % len(self._buffers)
        mask = manager._grammar_bitmask = self._buffers[self._turn]
        grammars, rows = [], []
        for grammar, row, holds in batch:
            if holds and not grammar.is_terminated():
                grammars.append(grammar)
                rows.append(row)
            else:
                mask[row].fill_(-1)
        fill(grammars, rows, mask)
        done: Future[None] = Future()
        done.set_result(None)
        return done


def _apart(mask: Any) -> list[Any]:
    """Masks of the same shape, in memory that a GPU reads by itself where there is one."""
    import torch  # noqa: PLC0415 - costs seconds

    pinned = torch.cuda.is_available()
    return [torch.empty_like(mask, pin_memory=pinned) for _ in range(IN_FLIGHT)]


def _xgrammar(threads: int) -> Fill:
    from xgrammar import BatchGrammarMatcher  # noqa: PLC0415 - costs a second

    # xgrammar's own threads take a matcher at a time, and each costs more than its mask.
    callers = [BatchGrammarMatcher(max_threads=1) for _ in range(threads)]
    pool = ThreadPoolExecutor(threads, thread_name_prefix="masks")

    def fill(grammars: Sequence[Any], rows: Sequence[int], mask: Any) -> None:
        if not grammars:
            return
        matchers, rows = [grammar.matcher for grammar in grammars], list(rows)
        parts = max(1, min(threads, len(matchers) // SMALLEST_PART))
        size = -(-len(matchers) // parts)
        rest = [
            pool.submit(
                callers[part].batch_fill_next_token_bitmask,
                matchers[part * size : (part + 1) * size],
                mask,
                rows[part * size : (part + 1) * size],
            )
            for part in range(1, parts)
        ]
        callers[0].batch_fill_next_token_bitmask(matchers[:size], mask, rows[:size])
        for each in rest:
            each.result()

    return fill


def _guidance(threads: int) -> Fill:
    from llguidance import LLExecutor  # noqa: PLC0415 - costs a second
    from llguidance.torch import fill_next_token_bitmask_par  # noqa: PLC0415

    executor = LLExecutor(num_threads=threads)

    def fill(grammars: Sequence[Any], rows: Sequence[int], mask: Any) -> None:
        held = [(grammar.ll_matcher, row) for grammar, row in zip(grammars, rows, strict=True)]
        if held:
            fill_next_token_bitmask_par(executor, held, mask)

    return fill


_FILLS = {"xgrammar": _xgrammar, "guidance": _guidance}
