"""How long the run will take, from an earlier run's rates or from a table of measured ones."""

import itertools
import math
from dataclasses import dataclass

from schemas.plan import DeviceFacts, Estimate, ModelFacts, PlannedLoad
from tasks.plan.batch import DTYPE_BYTES
from tasks.plan.vllm_defaults import default_max_num_seqs


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What an earlier run of this model on this machine did. `source` names that run, for the reader."""

    prompt_tokens_per_s: float
    output_tokens_per_s: float
    start_s: float | None
    """From starting the worker to the first request; None if that run did not measure it."""
    source: str

    def __post_init__(self) -> None:
        if self.prompt_tokens_per_s <= 0 or self.output_tokens_per_s <= 0:
            raise ValueError("a rate must be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """One model on one device. Output in tokens/s, by the number of requests that run at once."""

    device: str
    model: str
    parameters: float
    cores: int | None
    start_s: float
    prompt_flops_per_s: float
    output_tokens_per_s: dict[int, float]


# vLLM 0.32 on two AVX-512 cores, in-process, not compiled, bfloat16: one prompt of 6,000 tokens in 11.9 s.
# vLLM 0.26 on an H100, graphs full_and_piecewise: six prompts of 14,000 tokens in 3.2 s (8B). The 135M model's prompts
# were not timed there; its row assumes the 8B model's 26,000 tokens/s, which it exceeds.
MEASURED = {
    "cpu": [
        _Measured(
            device="two AVX-512 CPU cores",
            model="a 135M model",
            parameters=135e6,
            cores=2,
            start_s=10.2,
            prompt_flops_per_s=2.4e11,
            output_tokens_per_s={1: 31, 16: 494, 256: 1190},
        )
    ],
    "cuda": [
        _Measured(
            device="an H100",
            model="a 135M model",
            parameters=135e6,
            cores=None,
            start_s=78,
            prompt_flops_per_s=2.0e13,
            output_tokens_per_s={1: 353, 8: 2_446, 64: 13_500},
        ),
        _Measured(
            device="an H100",
            model="an 8B model",
            parameters=8.0e9,
            cores=None,
            start_s=94,
            prompt_flops_per_s=5.2e14,
            output_tokens_per_s={1: 157, 8: 1_190, 64: 7_170, 256: 19_400},
        ),
    ],
}


def _at(points: dict[int, float], concurrent: int) -> float:
    """Between two measured points linearly in the logarithms of both; outside them the nearest point."""
    known = sorted(points)
    if concurrent <= known[0]:
        return points[known[0]]
    for low, high in itertools.pairwise(known):
        if concurrent <= high:
            part = math.log(concurrent / low) / math.log(high / low)
            return float(points[low] * (points[high] / points[low]) ** part)
    return points[known[-1]]


def _prompt_flops(*, prompt_tokens: list[int], parameters: float, model: ModelFacts) -> float:
    """Two operations a parameter and token, and causal attention's 2 x hidden size x layers x length squared."""
    attention = 2 * model.hidden_size * model.layers
    return sum(2 * parameters * length + attention * length**2 for length in prompt_tokens)


def _table_rates(*, load: PlannedLoad, model: ModelFacts, device: DeviceFacts) -> Rates:
    parameters = model.weights_bytes / DTYPE_BYTES[model.dtype]
    nearest = min(MEASURED[device.kind], key=lambda row: abs(math.log(row.parameters / parameters)))
    scale, speed = nearest.parameters / parameters, 1.0
    basis = f"the table of measured rates ({nearest.model} on {nearest.device})"
    if nearest.cores is None:
        scale = min(1.0, scale)  # small models on a GPU wait for launches, not for arithmetic
        basis += f", scaled to {parameters / 1e6:,.0f}M parameters"
    else:
        cores = min(float(len(device.cores)), math.inf if device.cpu_quota is None else device.cpu_quota)
        speed = cores / nearest.cores
        basis += f", scaled to {parameters / 1e6:,.0f}M parameters and {cores:g} cores"
    concurrent = min(len(load.prompt_tokens), default_max_num_seqs(device))
    lengths = [max(1, length) for length in load.prompt_tokens]
    flops = _prompt_flops(prompt_tokens=lengths, parameters=parameters, model=model)
    prompt_s = flops / (nearest.prompt_flops_per_s * speed)
    return Rates(
        prompt_tokens_per_s=sum(lengths) / prompt_s,
        output_tokens_per_s=_at(nearest.output_tokens_per_s, concurrent) * scale * speed,
        start_s=nearest.start_s,
        source=basis,
    )


def estimate(*, load: PlannedLoad, model: ModelFacts, device: DeviceFacts, rates: Rates | None) -> Estimate:
    """What the load asks of the engine and how long it takes at most, in seconds.

    Every answer is counted with its whole budget and no prefix as shared, so a run is usually shorter. rates are those
    of an earlier run on this machine; without them a table of measured rates is scaled by parameter count (and cores).
    Raises ValueError for a load without requests.
    """
    if not load.prompt_tokens:
        raise ValueError("there is nothing to estimate: no requests")
    prompt_tokens, output_tokens = sum(load.prompt_tokens), sum(load.output_tokens)
    table = _table_rates(load=load, model=model, device=device)
    used = table if rates is None else rates
    basis = f"{used.source}: {used.prompt_tokens_per_s:,.0f} prompt and {used.output_tokens_per_s:,.0f} output tokens/s"
    start_s = used.start_s
    if start_s is None:
        start_s = table.start_s
        basis += "; the start from the table of measured rates"
    return Estimate(
        requests=len(load.prompt_tokens),
        prompt_tokens=prompt_tokens,
        output_tokens_max=output_tokens,
        start_s=start_s,
        generate_s=prompt_tokens / used.prompt_tokens_per_s + output_tokens / used.output_tokens_per_s,
        basis=basis,
    )
