"""Which kernels compute, what is kept of compiling, and vLLM's own arguments."""

from typing import Any

from schemas.engine import VllmEngine
from schemas.errors import ConfigError
from schemas.plan import DeviceFacts, PlannedOption

_CPU_BACKENDS = ("CPU_ATTN", "CPU_MLA", "AMX_MLA")
_NO_CPU = "vLLM has it for GPUs only"


def plan_attention(*, asked: str, device: DeviceFacts) -> PlannedOption:
    """The option attention_backend. Raises ConfigError for a GPU's backend on a CPU, which vLLM would silently leave
    out."""
    if asked != "auto" and device.kind == "cpu" and asked not in _CPU_BACKENDS:
        raise ConfigError.one(
            f"{asked} is no attention backend of a CPU", key="engine.attention_backend", suggestion="auto, or CPU_ATTN"
        )
    return PlannedOption(
        option="attention_backend",
        value=asked,
        default_value="auto",
        reason="vLLM chooses the fastest that the device and the model have."
        if asked == "auto"
        else f"You set {asked}.",
        evidence=f"device {device.kind}: {device.name}",
        source="default" if asked == "auto" else "user",
        would_change="engine.attention_backend",
    )


def plan_switches(engine: VllmEngine, *, device: DeviceFacts) -> list[PlannedOption]:
    """The options sleep_mode and batch_invariant. Raises ConfigError for either on a CPU, where vLLM fails."""
    options = []
    for name, value, yes, no in (
        (
            "sleep_mode",
            engine.sleep_mode,
            "The engine can give its GPU memory back and take it again without starting anew.",
            "The engine keeps its memory until it ends.",
        ),
        (
            "batch_invariant",
            engine.batch_invariant,
            "Kernels whose result does not depend on what shares the batch: slower, and the same answers again.",
            "The fastest kernels: in bfloat16 an answer can change with what shares its batch.",
        ),
    ):
        if value and device.kind == "cpu":
            raise ConfigError.one(f"does not work on a CPU: {_NO_CPU}", key=f"engine.{name}", suggestion="leave it out")
        options.append(
            PlannedOption(
                option=name,
                value=value,
                default_value=False,
                reason=yes if value else no,
                evidence=f"device {device.kind}: {device.name}",
                source="user" if value else "default",
                would_change=f"engine.{name}",
            )
        )
    return options


def plan_compile_cache(*, engine: VllmEngine, folder: str | None, compiled: str) -> PlannedOption:
    """The option compile_cache: the folder for what is compiled. folder: None for vLLM's own."""
    used = "What torch.compile makes is kept there, so that the next start of the same engine is a warm one."
    unused = "Nothing is compiled, so that the folder stays as it is."
    return PlannedOption(
        option="compile_cache",
        value=folder,
        default_value="~/.cache/vllm",
        reason=used if compiled != "none" else unused,
        evidence=f"compile {compiled}",
        source="plan" if engine.compile_cache == "auto" else "user",
        would_change="engine.compile_cache",
    )


def plan_rest(engine: VllmEngine) -> list[PlannedOption]:
    """The options python, trace_steps and extra."""
    steps = engine.trace_steps
    traced = f"torch's profiler records the first {steps} steps; they are slower, so that no time of them counts."
    names = ", ".join(engine.extra)
    return [
        _as_asked("python", engine.python, None, "You chose another environment's vLLM.", "This environment's vLLM."),
        _as_asked("trace_steps", steps, 0, traced, "No step is recorded."),
        _as_asked(
            "extra", dict(engine.extra), {}, f"You pass {names} to vLLM as they are.", "No other argument of vLLM's."
        ),
    ]


def _as_asked(name: str, value: Any, default: Any, yes: str, no: str) -> PlannedOption:
    return PlannedOption(
        option=name,
        value=value,
        default_value=default,
        reason=yes if value != default else no,
        evidence=f"engine.{name}",
        source="user" if value != default else "default",
        would_change=f"engine.{name}",
    )
