"""How long the run will take, from an earlier run's rates or from a table of measured ones."""

import itertools
import math
from dataclasses import dataclass

from schemas.plan import DeviceFacts, Estimate, ModelFacts, PlannedLoad
from tasks.plan.batch import DTYPE_BYTES
from tasks.plan.vllm_defaults import default_max_num_seqs


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """What an earlier run of this model on this machine took. `source` names that run, for the reader."""

    load: PlannedLoad
    generate_s: float
    start_s: float | None
    """From starting the worker to the first request; None if that run did not measure it."""
    source: str

    def __post_init__(self) -> None:
        if self.generate_s <= 0 or not self.load.prompt_tokens:
            raise ValueError("an earlier run has a load and took time")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rates:
    """Tokens per second, as the table of measured rates has them for a load."""

    prompt_tokens_per_s: float
    output_tokens_per_s: float
    start_s: float
    source: str

    def seconds(self, load: PlannedLoad) -> float:
        return sum(load.prompt_tokens) / self.prompt_tokens_per_s + sum(load.output_tokens) / self.output_tokens_per_s


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
            start_s=8.3,
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


def _table_rates(*, load: PlannedLoad, model: ModelFacts, device: DeviceFacts) -> _Rates:
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
    return _Rates(
        prompt_tokens_per_s=sum(lengths) / prompt_s,
        output_tokens_per_s=_at(nearest.output_tokens_per_s, concurrent) * scale * speed,
        start_s=nearest.start_s,
        source=basis,
    )


def estimate(*, load: PlannedLoad, model: ModelFacts, device: DeviceFacts, earlier: EarlierRun | None) -> Estimate:
    """What the load asks of the engine and how long it takes, in seconds.

    The table of measured rates, scaled by parameter count (and cores), counts every answer with its whole budget and no
    prefix as shared. An earlier run on this machine says how far from the truth that was, and corrects it.
    Raises ValueError for a load without requests.
    """
    if not load.prompt_tokens:
        raise ValueError("there is nothing to estimate: no requests")
    table = _table_rates(load=load, model=model, device=device)
    generate_s, start_s, basis = table.seconds(load), table.start_s, f"from {table.source}"
    if earlier is not None:
        then = _table_rates(load=earlier.load, model=model, device=device).seconds(earlier.load)
        generate_s *= earlier.generate_s / then
        basis = f"from {earlier.source}, which took {earlier.generate_s:,.0f} s for {len(earlier.load.prompt_tokens):,}"
        start_s = earlier.start_s if earlier.start_s is not None else table.start_s
    return Estimate(
        requests=len(load.prompt_tokens),
        prompt_tokens=sum(load.prompt_tokens),
        output_tokens_max=sum(load.output_tokens),
        start_s=start_s,
        generate_s=generate_s,
        basis=basis,
    )
