"""Masks of a step in which every request is guided go to the logits as they are.

vLLM looks up in Python which row of the mask belongs to which logits, and copies that list too; where each row has its
own place there is nothing to look up."""

from collections.abc import Callable
from typing import Any

_NEEDED = ("apply_grammar_bitmask", "copy_stream", "grammar_bitmask")


def apply_whole_batches(engine: Any, latest: Callable[[], Any]) -> None:
    """Wherever vLLM's second model runner works on a GPU. latest: the step's masks, a pinned tensor with a row for each
    request that may run; None while vLLM makes its own."""
    from tasks.engine.worker.memory import worker_of  # noqa: PLC0415

    runner = getattr(worker_of(engine), "model_runner", None)
    worker = getattr(runner, "structured_outputs_worker", None)
    if any(not hasattr(worker, name) for name in _NEEDED):
        return
    import torch  # noqa: PLC0415 - costs seconds
    from xgrammar.kernels.apply_token_bitmask_inplace_triton import (  # noqa: PLC0415
        apply_token_bitmask_inplace_triton,
    )

    theirs = worker.apply_grammar_bitmask

    def apply_grammar_bitmask(logits: Any, batch: Any, request_ids: list[str], bitmask: Any) -> None:
        masks = latest()
        if masks is None or len(request_ids) != logits.shape[0] or batch.req_ids != request_ids:
            theirs(logits, batch, request_ids, bitmask)
            return
        mask = worker.grammar_bitmask[: len(request_ids)]
        with torch.cuda.stream(worker.copy_stream):
            mask.copy_(masks[: len(request_ids)], non_blocking=True)
        current = torch.cuda.current_stream()
        current.wait_stream(worker.copy_stream)
        apply_token_bitmask_inplace_triton(logits, mask)
        worker.copy_stream.wait_stream(current)

    worker.apply_grammar_bitmask = apply_grammar_bitmask
