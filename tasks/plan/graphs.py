"""CUDA graphs and torch.compile: slower to start, faster to run."""

from schemas.errors import ConfigError
from schemas.plan import DeviceFacts, PlannedOption

LARGEST_CAPTURE = 512
"""Above this many tokens a step is bound by the GPU's arithmetic, and a graph saves next to nothing."""
NEEDS_COMPILE = ("piecewise", "full_and_piecewise")
START_COST = (
    "on an H100 it adds about 30 s (135M parameters) to 46 s (8B) to the start, and a token for one request "
    "then takes 2.8 instead of 18.5 ms (135M) or 6.4 instead of 21.8 ms (8B)"
)


def capture_sizes(max_num_seqs: int, *, per_answer: int = 1) -> list[int]:
    """Batch sizes to record, in tokens: 1, 2, 4, then every 8th to 64, every 16th to 256, every 32nd to 512, and that
    of max_num_seqs answers (or 512). A batch between two sizes is padded to the upper one.

    per_answer: tokens of one answer in a step, more than one where some are guessed; all sizes are then multiples of
    it, as vLLM wants them."""
    largest = max(LARGEST_CAPTURE // per_answer, 1) * per_answer
    top = min(max_num_seqs * per_answer, largest)
    grid = [1, 2, 4, *range(8, 64, 8), *range(64, 256, 16), *range(256, LARGEST_CAPTURE + 1, 32)]
    whole = {-(-size // per_answer) * per_answer for size in grid}
    return sorted({size for size in whole if size <= top} | {top})


def plan_compile(*, device: DeviceFacts, asked: str) -> PlannedOption:
    """The option compile: `none` or `full`."""
    if asked != "auto":
        value, source = asked, "user"
        reason = f"You set {asked}."
        if asked == "full" and device.kind == "cpu":
            reason += " On a CPU it took 57 to 90 s at each start and brought 10 to 20 % where it was measured."
        elif asked == "none":
            reason += " The engine starts sooner and runs the model as it is written."
    elif device.kind == "cpu":
        value, source = "none", "plan"
        reason = "On a CPU compiling took 57 to 90 s at each start where it was measured, for 10 to 20 % more speed."
    else:
        value, source = "full", "plan"
        reason = "On a GPU vLLM's compiled model is faster, and graphs recorded in pieces need it."
    return PlannedOption(
        option="compile",
        value=value,
        default_value="full",
        reason=reason,
        evidence=f"device {device.kind}: {device.name}",
        source=source,
        would_change="a GPU; engine.compile: full" if device.kind == "cpu" else "engine.compile: none, or full",
    )


def plan_cudagraph_mode(*, device: DeviceFacts, asked: str, compiled: str) -> tuple[PlannedOption, list[str]]:
    """The option cudagraph_mode, with a warning where the user's mode cannot be had.

    Raises ConfigError for a mode recorded in pieces without torch.compile, which vLLM would silently change.
    """
    warnings: list[str] = []
    source = "plan"
    if device.kind == "cpu":
        value = "none"
        reason = "There are no CUDA graphs on a CPU, so the mode is none."
        if asked not in ("auto", "none"):
            warnings.append(f"engine.cudagraph.mode: {asked} has no effect on a CPU: no graphs are recorded.")
        elif asked == "none":
            source = "user"
    elif asked == "auto":
        value = "full_and_piecewise" if compiled == "full" else "full_decode_only"
        reason = f"Recorded graphs spare the GPU the wait for each launch: {START_COST}."
        if compiled != "full":
            reason += " Without torch.compile only steps that write answers can be recorded."
    else:
        if asked in NEEDS_COMPILE and compiled != "full":
            raise ConfigError.one(
                f"the mode {asked} records the model in pieces, which needs torch.compile, and engine.compile is none",
                key="engine.cudagraph.mode",
                suggestion="full_decode_only, or engine.compile: full",
            )
        value, source = asked, "user"
        reason = f"You set {asked}."
        reason += " No launch is recorded: the soonest start." if asked == "none" else f" Its cost: {START_COST}."
    option = PlannedOption(
        option="cudagraph_mode",
        value=value,
        default_value="none" if device.kind == "cpu" else "full_and_piecewise",
        reason=reason,
        evidence=f"device {device.kind}: {device.name}; compile {compiled}",
        source=source,
        would_change="a GPU" if device.kind == "cpu" else "engine.compile; engine.cudagraph.mode",
    )
    return option, warnings


def plan_capture_sizes(
    *, mode: str, asked: list[int] | str, max_num_seqs: int, token_budget: int, guessed: int = 0
) -> tuple[PlannedOption, list[str]]:
    """The option cudagraph_capture_sizes (tokens a step), with a warning for sizes above the token budget. guessed:
    tokens that a speculating engine adds to each answer's own in a step."""
    warnings: list[str] = []
    if mode == "none":
        value, source = [], "plan"
        reason = "No graphs are recorded (mode none), so there are no sizes."
        if isinstance(asked, list):
            warnings.append("engine.cudagraph.sizes has no effect: no graphs are recorded.")
    elif isinstance(asked, list):
        value, source = sorted({size for size in asked if size <= token_budget}), "user"
        reason = f"You set {len(value)} sizes; each takes time and memory at the start."
        dropped = sorted(set(asked) - set(value))
        if not value:
            raise ConfigError.one(
                f"every size is above the token budget of {token_budget:,}", key="engine.cudagraph.sizes"
            )
        if dropped:
            listed = ", ".join(f"{size:,}" for size in dropped)
            warnings.append(f"engine.cudagraph.sizes: {listed}: above the token budget of {token_budget:,}, left out.")
    else:
        value, source = capture_sizes(max_num_seqs, per_answer=1 + guessed), "plan"
        each = f" with {1 + guessed} tokens each" if guessed else ""
        reason = (
            f"{len(value)} sizes up to {value[-1]:,}, since at most {max_num_seqs:,} requests answer at once{each}; "
            "each more size would make the start longer."
        )
    option = PlannedOption(
        option="cudagraph_capture_sizes",
        value=value,
        default_value=None if mode != "none" else [],
        reason=reason,
        evidence=f"mode {mode}; sequences {max_num_seqs:,}; guessed tokens {guessed}; token budget {token_budget:,}",
        source=source,
        would_change="a mode that records graphs (engine.cudagraph.mode)"
        if mode == "none"
        else "requests at once (engine.max_num_seqs) or guessed tokens (engine.speculative); engine.cudagraph.sizes",
    )
    return option, warnings
