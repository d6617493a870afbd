"""Several devices for one model: how they share it, and what starts the workers."""

from importlib.util import find_spec

from schemas.errors import ConfigError
from schemas.parallel import Parallel
from schemas.plan import DeviceFacts, Estimate, ModelFacts, PlannedLoad, PlannedOption


def check_parallel(parallel: Parallel, *, device: DeviceFacts) -> None:
    """Raises ConfigError for more devices than there are, and for what one of them cannot do alone."""
    one_engine = parallel.tensor * parallel.pipeline
    if device.kind == "cpu":
        if one_engine > 1:
            raise ConfigError.one(
                f"a CPU is one device: it cannot be shared as tensor {parallel.tensor}, pipeline {parallel.pipeline}",
                key="engine.parallel",
                suggestion="tensor 1 and pipeline 1; `data` spreads copies over its cores",
            )
        if parallel.data > len(device.cores):
            raise ConfigError.one(
                f"{parallel.data} copies of the engine are more than the {len(device.cores)} cores that may be used",
                key="engine.parallel.data",
                suggestion=f"at most {len(device.cores)}",
            )
    elif one_engine * parallel.data > device.count:
        words = f"tensor {parallel.tensor} x pipeline {parallel.pipeline} x data {parallel.data}"
        visible = "1 is" if device.count == 1 else f"{device.count} are"
        raise ConfigError.one(
            f"{words} needs {one_engine * parallel.data} devices, and {visible} visible",
            key="engine.parallel",
            suggestion=f"at most {device.count} together",
        )
    if parallel.executor == "uni" and one_engine > 1:
        raise ConfigError.one(
            "the executor `uni` runs one device in the core's own process",
            key="engine.parallel.executor",
            suggestion="auto, mp or ray",
        )
    if parallel.executor == "ray" and find_spec("ray") is None:
        raise ConfigError.one(
            "the executor `ray` needs the package ray, which is not installed",
            key="engine.parallel.executor",
            suggestion="pip install ray, or `mp`",
        )


def share_of_copy(load: PlannedLoad, device: DeviceFacts, *, copies: int) -> tuple[PlannedLoad, DeviceFacts]:
    """What one of the engine's copies gets of the requests, and on a CPU of the cores and the memory."""
    if copies == 1:
        return load, device
    own = PlannedLoad(prompt_tokens=load.prompt_tokens[::copies], output_tokens=load.output_tokens[::copies])
    if device.kind == "cpu":
        changes = {
            "memory_bytes": device.memory_bytes // copies,
            "cores": device.cores[: max(1, len(device.cores) // copies)],
        }
        return own, device.model_copy(update=changes)
    return own, device


def part_of_device(model: ModelFacts, parallel: Parallel) -> ModelFacts:
    """The part of the model that lies on one device."""
    if parallel.tensor * parallel.pipeline == 1:
        return model
    return model.model_copy(
        update={
            "weights_bytes": model.weights_bytes // (parallel.tensor * parallel.pipeline),
            "kv_heads": max(1, model.kv_heads // parallel.tensor),
            "layers": max(1, -(-model.layers // parallel.pipeline)),
        }
    )


def of_all_copies(time: Estimate, *, load: PlannedLoad, copies: int) -> Estimate:
    """The estimate of one copy's share, as that of the whole load."""
    return time.model_copy(
        update={
            "requests": len(load.prompt_tokens),
            "prompt_tokens": sum(load.prompt_tokens),
            "output_tokens_max": sum(load.output_tokens),
            "basis": f"{time.basis}, for one of {copies} copies",
        }
    )


def plan_parallel(parallel: Parallel, *, device: DeviceFacts) -> list[PlannedOption]:
    """The options tensor_parallel_size, pipeline_parallel_size, data_parallel_size and executor.

    Raises ConfigError as `check_parallel` does."""
    check_parallel(parallel, device=device)
    evidence = f"{device.count} visible of {device.kind}: {device.name}"
    says = {
        "tensor": (parallel.tensor, "Each layer is shared by {n} devices.", "Each layer is on one device."),
        "pipeline": (
            parallel.pipeline,
            "The layers are spread over {n} devices, one after another.",
            "All layers are on the same device.",
        ),
        "data": (
            parallel.data,
            "{n} copies of the engine share the requests; every other number is of one copy.",
            "One engine takes all requests.",
        ),
    }
    options = [
        PlannedOption(
            option=f"{name}_parallel_size",
            value=n,
            default_value=1,
            reason=(several if n > 1 else one).format(n=n),
            evidence=evidence,
            source="user" if n > 1 else "default",
            would_change=f"engine.parallel.{name}",
        )
        for name, (n, several, one) in says.items()
    ]
    asked = parallel.executor
    options.append(
        PlannedOption(
            option="executor",
            value=asked,
            default_value="auto",
            reason="vLLM chooses what starts its workers." if asked == "auto" else f"You set {asked}.",
            evidence=evidence,
            source="default" if asked == "auto" else "user",
            would_change="engine.parallel.executor",
        )
    )
    return options
