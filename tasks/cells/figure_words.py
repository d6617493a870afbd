"""Figures and effects as people read them."""

import re
from collections.abc import Mapping, Sequence

from schemas.cell_figures import LOAD, Changed, Effect, Figure, Repeated
from tasks.report.numbers import DASH, decimals_for, fixed, number, seconds, share, size

SHORT = {
    "throughput.output_tokens_per_s": "tokens/s",
    "throughput.prompt_tokens_per_s": "prompt tokens/s",
    "throughput.requests_per_s": "requests/s",
    "goodput.requests_per_s": "good requests/s",
    "goodput.share": "good requests",
    "generate_s": "generate",
    "e2e_ms.p50": "e2e p50",
    "e2e_ms.p99": "e2e p99",
    "ttft_ms.p50": "ttft p50",
    "ttft_ms.p99": "ttft p99",
    "tpot_ms.p50": "tpot p50",
    "tpot_ms.p99": "tpot p99",
    "memory.peak_bytes": "peak memory",
    "memory.weights_bytes": "weights",
    "memory.kv_bytes": "KV cache",
    "memory.graph_bytes": "graphs",
    "memory.activation_bytes": "activations",
    "memory.kv_tokens": "KV tokens",
    "start_s": "start",
    "start.import_s": "start: imports",
    "start.load_s": "start: weights",
    "start.compile_s": "start: compile",
    "start.capture_s": "start: graphs",
    "start.warmup_s": "start: first token",
    "start.cold": "cold start",
    "energy.j": "energy",
    "energy.j_per_output_token": "J/token",
    "engine.preemptions": "preemptions",
}
"""The heads of columns and names of lines, where they are not the figure's own name."""
_OF_LOAD = re.compile(re.escape(LOAD) + r"(?P<point>.+)\.(?P<metric>[a-z_]+_ms\.p\d+|[a-z_]+)")
_LOAD_SHORT = {
    "output_tokens_per_s": "tokens/s",
    "goodput_requests_per_s": "good requests/s",
    "knee_requests_per_s": "knee, requests/s",
}
_IN_HEAD = ("tokens/s", "requests/s", "J/token")
"""Units that the head of the column says."""


def title(name: str) -> str:
    """`e2e p50`, `free arithmetic.exact_match`, `engine.prefix_hit_rate`, `tpot p50 at free-closed-8`."""
    if (of_load := _OF_LOAD.fullmatch(name)) is not None:
        metric = of_load["metric"]
        return f"{_LOAD_SHORT.get(metric, metric).replace('_ms.', ' ')} at {of_load['point']}"
    if name.startswith("quality."):
        arm, _, metric = name.removeprefix("quality.").partition(".")
        return f"{metric}, {arm}"
    return SHORT.get(name, name)


def value(figure: Figure | Repeated | None) -> str:
    """`37.6`, `1,993 ms`, `1.34 GiB`; a dash where it was not measured."""
    if figure is None:
        return DASH
    return fixed(figure.value, 3) if figure.name.startswith("quality.") else plain_value(figure.value, figure.unit)


def plain_value(amount: float, unit: str) -> str:
    """The same of a bare number."""
    if unit == "s":
        return seconds(amount)
    if unit == "bytes":
        return size(amount)
    if unit == "share":
        return share(amount)
    if unit == "yes or no":
        return "yes" if amount else "no"
    said = f"{amount:,.0f}" if amount == round(amount) else number(amount)
    return said if unit in _IN_HEAD or not unit else f"{said} {unit}"


def repeated(found: Repeated | None) -> str:
    """`37.6 [35.1, 40.2]`: the mean over repeats with its interval, where there is one."""
    if found is None:
        return DASH
    if found.lo is None or found.hi is None or found.lo == found.hi:
        return value(found)
    return f"{value(found)} [{_bare(found.lo, found.unit)}, {_bare(found.hi, found.unit)}]"


def effect(found: Effect | None) -> str:
    """`0.87× [0.81, 0.93]`, `+0.02 [-0.05, +0.09]`; a dash where one side has no such figure."""
    if found is None:
        return DASH
    if found.ratio is not None:
        said = f"{_times(found.ratio)}×"
        return said if found.lo is None or found.hi is None else f"{said} [{_times(found.lo)}, {_times(found.hi)}]"
    if found.difference is None:
        return DASH
    decimals = decimals_for(found.lo, found.hi)
    said = fixed(found.difference, decimals, signed=True)
    ends = (found.lo, found.hi)
    if ends[0] is None or ends[1] is None:
        return said
    return f"{said} [{fixed(ends[0], decimals, signed=True)}, {fixed(ends[1], decimals, signed=True)}]"


def side(found: Effect, amount: float) -> str:
    """One side's value of an effect."""
    return fixed(amount, 3) if found.figure.startswith("quality.") else plain_value(amount, found.unit)


def changed(found: Changed | None) -> str:
    """`3 of 24 (itself: 1 of 24)`; a dash where no answer was greedy."""
    if found is None:
        return DASH
    said = f"{found.changed:,} of {found.samples:,}"
    if found.control_samples is None:
        return said
    return f"{said} (control itself {found.control_changed:,} of {found.control_samples:,})"


def settings(found: Mapping[str, object]) -> str:
    """`engine.max_num_seqs=4, engine.prefix_caching=False`."""
    return ", ".join(f"{key}={each}" for key, each in found.items()) or "as planned"


def first_line(error: str | None, *, most: int = 160) -> str:
    """The first line of an error, cut where it is long."""
    line = next(iter((error or "").splitlines()), "")
    return line if len(line) <= most else f"{line[: most - 1]}…"


def by_figure(effects: Sequence[Effect]) -> dict[str, Effect]:
    """Effects by their figure."""
    return {each.figure: each for each in effects}


def _bare(amount: float, unit: str) -> str:
    return plain_value(amount, unit).removesuffix(f" {unit}")


def _times(ratio: float) -> str:
    """Two decimals, whole where it is large; beyond a hundredth and a thousand it says no more than that."""
    if ratio < 0.01:
        return "<0.01"
    return ">1,000" if ratio > 1000 else f"{ratio:.2f}" if ratio < 100 else number(ratio)
