"""The number format, the cores, where vLLM's core runs, prefix caching and the grammar backend."""

import math

from schemas.engine import Grammar
from schemas.errors import ConfigError
from schemas.parallel import Parallel
from schemas.plan import DeviceFacts, ModelFacts, PlannedOption

BFLOAT16_CAPABILITY = 8.0
"""CUDA compute capability from which bfloat16 is computed in hardware."""
FREE_WHITESPACE_ONLY = ("outlines", "lm-format-enforcer")
"""Grammar backends for which vLLM cannot forbid white space."""


def _lacks_bfloat16(device: DeviceFacts) -> bool:
    return device.compute_capability is not None and float(device.compute_capability) < BFLOAT16_CAPABILITY


def plan_dtype(*, model: ModelFacts, device: DeviceFacts, asked: str) -> tuple[PlannedOption, list[str]]:
    """The option dtype: `asked`, or for `auto` the weights' own format, with a warning where the CPU is slow at it.

    Raises ConfigError for bfloat16 on a GPU that does not have it, which vLLM refuses.
    """
    no_bfloat16 = device.kind == "cuda" and _lacks_bfloat16(device)
    if asked != "auto":
        if asked == "bfloat16" and no_bfloat16:
            raise ConfigError.one(
                f"{device.name} (compute capability {device.compute_capability}) does not have bfloat16",
                key="model.dtype",
                suggestion="float16, or auto",
            )
        value, source = asked, "user"
        reason = f"You set {asked}; the weights are stored as {model.dtype}."
    elif model.dtype == "bfloat16" and no_bfloat16:
        value, source = "float16", "plan"
        reason = f"The weights are stored as bfloat16, which {device.name} does not have; float16 is as small."
    else:
        value, source = model.dtype, "plan"
        reason = f"The weights are stored as {model.dtype}."
    if value != "float32":
        reason += f" In {value} a greedy answer can change with what else is in its batch; in float32 it did not."
    warnings = []
    if device.kind == "cpu" and value == "bfloat16" and not _has_bfloat16_instructions(device):
        warnings.append("This CPU has no bfloat16 instructions, so bfloat16 may be slower here than float32.")
    option = PlannedOption(
        option="dtype",
        value=value,
        default_value="auto",
        reason=reason,
        evidence=f"stored as {model.dtype}; {model.weights_bytes:,} bytes of weights",
        source=source,
        would_change="weights stored in another format; model.dtype",
    )
    return option, warnings


def _has_bfloat16_instructions(device: DeviceFacts) -> bool:
    return not device.cpu_flags or bool({"avx512_bf16", "amx_bf16", "bf16"} & set(device.cpu_flags))


def plan_cores(device: DeviceFacts) -> PlannedOption:
    """The option cores: the numbers of the CPU cores that the engine's threads are bound to, one thread each.

    All that this process may use, but no more than a control group gives time for: threads that wait for each other
    lose far more than their share when one of them is stopped.
    """
    usable = device.cores
    quota = device.cpu_quota
    if quota is not None and math.floor(quota) < len(usable):
        value = usable[: max(1, math.floor(quota))]
        reason = (
            f"{len(usable)} cores may be used, but a control group allows only {quota:g} cores' worth of time: more "
            f"than {len(value)} threads would stop each other."
        )
    else:
        value = usable
        reason = f"All {len(usable)} cores that may be used; vLLM's own choice leaves one of them idle."
    return PlannedOption(
        option="cores",
        value=value,
        default_value="auto",
        reason=reason,
        evidence=f"affinity {len(usable)} cores; quota {'none' if quota is None else f'{quota:g}'}; {device.name}",
        source="plan",
        would_change="more or fewer cores that this process may use (taskset, a control group's quota)",
    )


def plan_core(*, device: DeviceFacts, asked: str, parallel: Parallel | None = None) -> PlannedOption:
    """The option core: `inprocess` or `multiprocess`. Raises ConfigError for in-process with several devices."""
    devices = 1 if parallel is None else parallel.tensor * parallel.pipeline
    if devices > 1:
        if asked == "inprocess":
            raise ConfigError.one(
                f"{devices} devices have a process each, and vLLM's core has one beside them",
                key="engine.core",
                suggestion="auto, or multiprocess",
            )
        value, source = "multiprocess", "user" if asked == "multiprocess" else "plan"
        reason = f"{devices} devices have a process each; vLLM's core schedules beside them."
    elif asked == "auto":
        value, source = "inprocess", "plan"
        reason = "vLLM's core runs in the worker itself: it starts in about half the time, with the same throughput."
    else:
        value, source = asked, "user"
        reason = f"You set {asked}."
        if asked == "multiprocess":
            reason += (
                " The start imports vLLM once for each of its processes: 28 to 34 s on two cores, against 8 to 15 s."
            )
    return PlannedOption(
        option="core",
        value=value,
        default_value="multiprocess",
        reason=reason,
        evidence=f"device {device.kind}, {device.count} visible, {devices} used by one engine",
        source=source,
        would_change="engine.core; several devices for one engine (engine.parallel)",
    )


def plan_prefix_caching(*, asked: bool, prompts: int) -> PlannedOption:
    """The option enable_prefix_caching."""
    reason = (
        f"Any of the {prompts:,} prompts that begins like an earlier one (the same instruction, or a sample's second "
        "arm) is not read again from the start."
        if asked
        else f"You turned it off: each of the {prompts:,} prompts is read whole."
    )
    return PlannedOption(
        option="enable_prefix_caching",
        value=asked,
        default_value=True,
        reason=reason,
        evidence=f"prompts {prompts:,}",
        source="default" if asked else "user",
        would_change="engine.prefix_caching",
    )


def plan_grammar(grammar: Grammar) -> tuple[list[PlannedOption], list[str]]:
    """The options grammar_backend and grammar_whitespace, with a warning where white space cannot be forbidden."""
    default = Grammar()
    warnings: list[str] = []
    whitespace, source = grammar.whitespace, "default" if grammar.whitespace == default.whitespace else "user"
    if grammar.whitespace:
        reason = "You allow free white space in guided JSON; a model may then write blanks until its budget ends."
    elif grammar.backend in FREE_WHITESPACE_ONLY:
        whitespace, source = True, "plan"
        reason = f"vLLM cannot forbid white space with {grammar.backend}, so it is allowed."
        warnings.append(f"engine.grammar: {grammar.backend} cannot forbid white space in guided JSON; it is allowed.")
    else:
        reason = "Guided JSON has no free white space: a model could otherwise write blanks until its budget ends."
    backend = PlannedOption(
        option="grammar_backend",
        value=grammar.backend,
        default_value="auto",
        reason=f"One backend, {grammar.backend}, for the whole engine: vLLM keeps the first that a request asks for, "
        "and a later request that needs another gets wrong answers.",
        evidence=f"engine.grammar.backend {grammar.backend}",
        source="default" if grammar.backend == default.backend else "user",
        would_change="engine.grammar.backend",
    )
    spaces = PlannedOption(
        option="grammar_whitespace",
        value=whitespace,
        default_value=True,
        reason=reason,
        evidence=f"backend {grammar.backend}",
        source=source,
        would_change="engine.grammar.whitespace"
        + ("; a backend for which it can be forbidden" if grammar.backend in FREE_WHITESPACE_ONLY else ""),
    )
    return [backend, spaces], warnings
