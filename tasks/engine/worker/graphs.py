"""Which CUDA graph vLLM chose for a step, where its runner does not tell it with the step's output.

vLLM 0.26 has two model runners. The older one counts (`cudagraph_metrics`); the newer one chooses its graphs in the
same way and keeps no count, which later releases do. So its choice is read where the runner hands it on to itself."""

import inspect
from typing import Any, NamedTuple

_HANDED_ON = ["scheduler_output", "batch_desc"]
_NAME = "assay_chosen_graph"


class ChosenGraph(NamedTuple):
    """The same as vLLM's CUDAGraphStat, by the same names."""

    runtime_mode: str
    num_unpadded_tokens: int
    num_padded_tokens: int
    num_paddings: int


def watch_choices(runner: Any) -> None:
    """Keeps every choice of this runner from now on beside what the step was given, for `chosen_graph`.

    Nothing is watched where it is not that runner. runner: vLLM's model runner, in this process."""
    prepare = getattr(runner, "prepare_inputs", None)
    if prepare is None or list(inspect.signature(prepare).parameters) != _HANDED_ON:
        return

    def prepare_inputs(scheduler_output: Any, batch_desc: Any) -> Any:
        tokens = scheduler_output.total_num_scheduled_tokens
        chosen = ChosenGraph(
            runtime_mode=batch_desc.cg_mode.name,
            num_unpadded_tokens=tokens,
            num_padded_tokens=batch_desc.num_tokens,
            num_paddings=batch_desc.num_tokens - tokens,
        )
        setattr(scheduler_output, _NAME, chosen)
        return prepare(scheduler_output, batch_desc)

    runner.prepare_inputs = prepare_inputs


def chosen_graph(scheduled: Any) -> ChosenGraph | None:
    """The choice for what vLLM's scheduler gave a step (its SchedulerOutput); None where none was seen."""
    return getattr(scheduled, _NAME, None)
