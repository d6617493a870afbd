"""How each grammar backend writes the masks of many requests in a few calls."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tasks.engine.worker.following import accept_together

Fill = Callable[[Sequence[Any], Sequence[int], Any], None]
"""Writes the masks of these grammars into these rows of a mask. The grammars are vLLM's, which have not ended."""

SMALLEST_PART = 64
"""Requests: fewer are not worth waking a thread."""


def xgrammar(threads: int) -> Fill:
    """What the grammars have yet to follow first; then in so many threads, one part of the requests each. A thread that
    does more than this one call waits for Python's lock longer than it works."""
    from xgrammar import BatchGrammarMatcher  # noqa: PLC0415 - costs a second

    # xgrammar's own threads take a matcher at a time, and each costs more than its mask.
    callers = [BatchGrammarMatcher(max_threads=1) for _ in range(threads)]
    pool = ThreadPoolExecutor(threads, thread_name_prefix="masks")

    def fill(grammars: Sequence[Any], rows: Sequence[int], mask: Any) -> None:
        if not grammars:
            return
        accept_together(grammars)
        matchers, rows = [grammar.matcher for grammar in grammars], list(rows)
        parts = max(1, min(threads, len(matchers) // SMALLEST_PART))
        size = -(-len(matchers) // parts)
        cuts = [slice(part * size, (part + 1) * size) for part in range(parts)]
        rest = [
            pool.submit(caller.batch_fill_next_token_bitmask, matchers[cut], mask, rows[cut])
            for caller, cut in zip(callers[1:], cuts[1:], strict=False)
        ]
        callers[0].batch_fill_next_token_bitmask(matchers[cuts[0]], mask, rows[cuts[0]])
        for each in rest:
            each.result()

    return fill


def guidance(threads: int) -> Fill:
    """By llguidance's own executor of so many threads."""
    from llguidance import LLExecutor  # noqa: PLC0415 - costs a second
    from llguidance.torch import fill_next_token_bitmask_par  # noqa: PLC0415

    executor = LLExecutor(num_threads=threads)

    def fill(grammars: Sequence[Any], rows: Sequence[int], mask: Any) -> None:
        held = [(grammar.ll_matcher, row) for grammar, row in zip(grammars, rows, strict=True)]
        if held:
            fill_next_token_bitmask_par(executor, held, mask)

    return fill


FILLS = {"xgrammar": xgrammar, "guidance": guidance}
