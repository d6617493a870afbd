"""The policy `auto`: whether splitting long prompts gains anything for this mix, the threshold, and the budget.

vLLM's scheduler gives a step's budget first to the requests that run, in their order, then to those that wait, first
come, first served; a request takes its next tokens, but no more than the threshold and what is left of the budget. So
with the threshold off, a long prompt takes whole steps, and what came after it waits. With it, the long prompts that
run at once take `long ones x threshold` of a step, and what is left of the budget serves the others in the same step.

What a step costs is counted in tokens of a short prompt: one a token, more where attention looks far back, and a fixed
number for the step itself. That number, and how well the whole fits, are measured (docs/decisions/010).

Where the threshold yields (tasks/engine/worker/yielding.py), it holds only while short prompts wait. If all requests
run at once, that is the first step or few of them: the smallest pieces then cost next to nothing, and gain the most.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_low

from schemas.plan import DeviceFacts, ModelFacts
from tasks.plan.batch import DTYPE_BYTES

LONG_PROMPT = 1_000
"""Tokens from which a prompt is long enough to be split, by the rule and here."""
SHORT_PART = 4
"""A prompt is short if it has at most this part (a quarter) of the median long one, and is not long itself."""
WAITING_SHARE = 0.1
"""Of all requests: fewer short ones than that behind long ones are not worth a slower whole."""
LEAST_GAIN = 2.0
"""How much sooner the short ones must be read for splitting to be worth it."""
AIMED_LOSS = 0.045
"""How much longer all reading together may take: the pieces are made that long. A whole run, which also writes
answers, loses less."""
MOST_LOSS = 0.06
"""Above it, long prompts are not split. Measured, a run loses less than what is predicted of its reading."""
ROOM_SHARE = 4
"""The short prompts get their tokens in one step, or at least this part (a quarter) of the budget."""
BUDGET_FACTOR = 2
"""How far `auto` may raise the budget above vLLM's own: its activations take memory."""
MULTIPLE = 16
"""Tokens of which a budget is a multiple."""
LEAST_THRESHOLD = {"cpu": 128, "cuda": 256}
"""Tokens of the smallest piece, and what a piece is a multiple of. A GPU's kernels work in tiles: on an H100 sixteen
prompts in pieces of 384 took 7 % longer than whole, in pieces of 256 4 %, in pieces of 512 2 %."""

# The fixed cost of a step. On an H100 with the 8B shape (32 layers), threshold 256 instead of 1,024 made 41 more steps
# and took 0.44 s more: 0.33 ms a layer; the prompts' 1.7e15 operations took 2.44 s. On two AVX-512 cores (135M) a step
# of one token takes 32 ms and a token of a prompt 1.1 ms; both grow with the model, so their ratio stands for others.
LAYER_S = 0.00032
H100_FLOPS_PER_S = 7.0e14
CPU_STEP_TOKENS = 27.0
PEAK_TFLOPS = {
    "b200": 2250,
    "gh200": 989,
    "h200": 989,
    "h100": 989,
    "l40s": 362,
    "a100": 312,
    "a10": 125,
    "l4": 121,
}
"""Dense bfloat16 operations per second by data sheet, in 1e12: other GPUs relative to the H100."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """What a step costs, in tokens. fixed: of the step itself. attention: what a token adds per token before it."""

    fixed: float
    attention: float
    source: str

    def prompt(self, tokens: float) -> float:
        """The cost of reading that many tokens of one prompt, from its beginning."""
        return tokens * (1 + self.attention * tokens)

    def fill(self, budget: int) -> float:
        """How many tokens of long prompts a step must hold at least for all reading to take at most AIMED_LOSS longer
        than in steps of the whole budget."""
        return self.fixed / (AIMED_LOSS + self.fixed / budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """The requests as the engine meets them. at_once: the long prompts of the fullest stretch that can run at once.
    long_tokens: their mean length. beside: the tokens of the other prompts of that stretch. kv_bound: whether the
    memory for keys and values, and not the number of requests, bounds at_once."""

    requests: int
    long: int
    short: int
    waiting: int
    at_once: int
    long_tokens: int
    longest: int
    beside: int
    kv_bound: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoPrefill:
    """What `auto` decided. threshold 0 is off. gain: how much sooner the short prompts are read; loss: how much longer
    all reading takes, both predicted; None where there is nothing to weigh."""

    threshold: int
    budget: int
    reason: str
    evidence: str
    budget_reason: str | None
    would_change: str
    gain: float | None = None
    loss: float | None = None


def step_cost(*, model: ModelFacts, device: DeviceFacts) -> StepCost:
    """What a step costs on this device with this model, from measurements on an H100 and on a CPU."""
    parameters = model.weights_bytes / DTYPE_BYTES[model.dtype]
    attention = model.hidden_size * model.layers / parameters
    if device.kind == "cpu":
        return StepCost(fixed=CPU_STEP_TOKENS, attention=attention, source="measured on two AVX-512 cores")
    words = re.split(r"[^a-z0-9]+", device.name.lower())
    known = next((name for name in PEAK_TFLOPS if name in words), None)
    peak = PEAK_TFLOPS["h100" if known is None else known]
    token_s = 2 * parameters / (H100_FLOPS_PER_S * peak / PEAK_TFLOPS["h100"])
    if known == "h100":
        source = "measured on an H100 with an 8B model"
    elif known is None:
        source = "measured on an H100 with an 8B model; this device is not known, so it is taken for one"
    else:
        source = "measured on an H100 with an 8B model, scaled by the data sheets"
    return StepCost(fixed=LAYER_S * model.layers / token_s, attention=attention, source=source)


def mix_of(prompt_tokens: Sequence[int], *, max_num_seqs: int, kv_tokens: int) -> Mix | None:
    """The mix, with prompts in the order in which the engine gets them; None if no prompt is long.

    kv_tokens: how many tokens the memory for keys and values holds."""
    long = [tokens for tokens in prompt_tokens if tokens >= LONG_PROMPT]
    if not long:
        return None
    most_short = min(median_low(long) // SHORT_PART, LONG_PROMPT - 1)
    short = waiting = inside = total = beside = 0
    best = (0, 0, 0)
    last_long: int | None = None
    for at, tokens in enumerate(prompt_tokens):
        if at >= max_num_seqs:
            left = prompt_tokens[at - max_num_seqs]
            if left >= LONG_PROMPT:
                inside, total = inside - 1, total - left
            else:
                beside -= left
        if tokens >= LONG_PROMPT:
            inside, total, last_long = inside + 1, total + tokens, at
        else:
            beside += tokens
            if tokens <= most_short:
                short += 1
                waiting += last_long is not None and at - last_long < max_num_seqs
        best = max(best, (inside, total, beside))
    inside, total, beside = best
    mean = -(-total // inside)
    room = max(1, kv_tokens // mean)
    return Mix(
        requests=len(prompt_tokens),
        long=len(long),
        short=short,
        waiting=waiting,
        at_once=min(inside, room),
        long_tokens=mean,
        longest=max(long),
        beside=beside,
        kv_bound=room < inside,
    )


def plan_auto(
    *,
    prompt_tokens: Sequence[int],
    budget: int,
    budget_is_users: bool,
    max_num_seqs: int,
    kv_tokens: int,
    model: ModelFacts,
    device: DeviceFacts,
    yields: bool = False,
) -> AutoPrefill:
    """The threshold and the budget for these prompts, in the order in which the engine gets them.

    budget: the user's, or vLLM's own, which is then raised where the long prompts' pieces would fill it. yields:
    whether the threshold holds only while short prompts wait."""
    cost = step_cost(model=model, device=device)
    mix = mix_of(prompt_tokens, max_num_seqs=max_num_seqs, kv_tokens=kv_tokens)

    def nothing(reason: str, *, would_change: str, **weighed: float) -> AutoPrefill:
        return AutoPrefill(
            threshold=0,
            budget=budget,
            reason=f"{reason}, so the threshold is 0 (off).",
            evidence=_evidence(mix, cost=cost, budget=budget, max_num_seqs=max_num_seqs, prompts=prompt_tokens),
            budget_reason=None,
            would_change=would_change,
            **weighed,
        )

    if mix is None:
        return nothing(
            f"No prompt has {LONG_PROMPT:,} tokens (the longest {max(prompt_tokens):,}): none is long enough to split",
            would_change=f"a prompt of {LONG_PROMPT:,} tokens or more, with short ones behind it",
        )
    if mix.waiting < WAITING_SHARE * mix.requests:
        where = "there are no short prompts" if mix.short == 0 else _behind(mix)
        return nothing(
            f"Nothing to gain: {where}, under {WAITING_SHARE:.0%} of the {mix.requests:,} requests",
            would_change=f"short prompts that come after long ones: at least {WAITING_SHARE:.0%} of the requests",
        )

    least = LEAST_THRESHOLD[device.kind]
    # Requests that come later may keep short ones waiting to the end: then the pieces must not be too small.
    passing = yields and mix.requests <= max_num_seqs
    threshold = least if passing else max(1, int(cost.fill(budget) / mix.at_once / least + 0.5)) * least
    others = max(0, max_num_seqs - mix.at_once)
    needed = mix.at_once * threshold + mix.beside + others
    chosen = budget
    if needed > budget and not budget_is_users:
        chosen = max(budget, min(-(-needed // MULTIPLE) * MULTIPLE, BUDGET_FACTOR * budget))
    room = min(mix.beside, chosen // ROOM_SHARE) + others
    if mix.at_once * threshold + room > chosen:
        threshold = (chosen - room) // mix.at_once // least * least
    if threshold < least:
        return nothing(
            f"{mix.at_once:,} long prompts run at once; in pieces of {least:,} tokens, the smallest that are worth a "
            f"step, they fill the budget of {chosen:,} and leave the short ones no room",
            would_change="engine.max_num_batched_tokens: auto, or a smaller engine.max_num_seqs"
            if budget_is_users
            else "a smaller engine.max_num_seqs, or an engine.max_num_batched_tokens of your own",
        )
    if threshold >= mix.longest:
        return nothing(
            f"A step over a whole long prompt (the longest {mix.longest:,} tokens) is no longer than it takes to be "
            f"worth its own cost ({cost.fill(budget):,.0f} tokens)",
            would_change=f"prompts of more than {threshold:,} tokens",
        )
    gain, loss = _weigh(
        mix, cost=cost, threshold=threshold, before=budget, budget=chosen, others=others, passing=passing
    )
    if gain < LEAST_GAIN or loss > MOST_LOSS:
        return nothing(
            f"Pieces of {threshold:,} tokens would let the short prompts be read {gain:.1f} times as soon and all "
            f"reading take {max(0.0, loss):.0%} longer: not worth it (asked for are {LEAST_GAIN:g} times and at most "
            f"{MOST_LOSS:.0%})",
            would_change="longer prompts ahead of the short ones, or fewer short ones at once",
            gain=gain,
            loss=loss,
        )
    pieces = mix.at_once * threshold
    return AutoPrefill(
        threshold=threshold,
        budget=chosen,
        reason=(
            f"{mix.waiting:,} of {mix.requests:,} requests are short and come after long ones (the longest "
            f"{mix.longest:,} tokens), of which {mix.at_once:,} run at once. In pieces of {threshold:,} tokens those "
            f"take {pieces:,} of a step's {chosen:,}, and the short ones run beside them: predicted to be read "
            f"{gain:.0f} times as soon, while all reading takes {max(0.0, loss):.1%} longer."
            + (" Steps in which no short one waits are the long ones' alone." if yields else "")
        ),
        evidence=_evidence(mix, cost=cost, budget=chosen, max_num_seqs=max_num_seqs, prompts=prompt_tokens)
        + f"; {mix.at_once:,} x {threshold:,} = {pieces:,} in a step, {chosen - pieces:,} left",
        budget_reason=None
        if chosen == budget
        else (
            f"vLLM's own {budget:,}, raised so that {mix.at_once:,} pieces of {threshold:,} tokens ({pieces:,}) leave "
            f"{chosen - pieces:,} for the other requests of a step."
        ),
        would_change=(
            "another number of long prompts that run at once (engine.max_num_seqs, the order of the datasets), or "
            "fewer short ones behind them"
        ),
        gain=gain,
        loss=loss,
    )


def what_it_gains(
    prompt_tokens: Sequence[int],
    *,
    threshold: int,
    budget: int,
    max_num_seqs: int,
    kv_tokens: int,
    model: ModelFacts,
    device: DeviceFacts,
    yields: bool = False,
) -> str:
    """A sentence: what a threshold above 0 that somebody else chose is predicted to do for the short prompts."""
    mix = mix_of(prompt_tokens, max_num_seqs=max_num_seqs, kv_tokens=kv_tokens)
    if mix is None or mix.waiting == 0:
        return "No short prompt comes after a long one, so it gains nothing here."
    others = max(0, max_num_seqs - mix.at_once)
    if mix.at_once * threshold + others >= budget:
        return (
            f"But {mix.at_once:,} long prompts run at once, and their pieces fill a step's {budget:,} tokens: it gains "
            f"the {mix.waiting:,} short prompts behind them nothing."
        )
    cost = step_cost(model=model, device=device)
    passing = yields and mix.requests <= max_num_seqs
    gain, loss = _weigh(
        mix, cost=cost, threshold=threshold, before=budget, budget=budget, others=others, passing=passing
    )
    return (
        f"The {mix.waiting:,} short prompts behind long ones are predicted to be read {gain:.1f} times as soon, while "
        f"all reading takes {max(0.0, loss):.1%} longer."
    )


def _behind(mix: Mix) -> str:
    if mix.waiting == 0:
        return f"none of the {mix.short:,} short prompts comes after a long one"
    return f"{mix.waiting:,} short prompts come after long ones"


def _weigh(
    mix: Mix, *, cost: StepCost, threshold: int, before: int, budget: int, others: int, passing: bool
) -> tuple[float, float]:
    """(how much sooner the short prompts are read, how much longer all reading takes), both predicted.

    Of short prompts that do not fit one step, the middle one counts. passing: the threshold holds only until the last
    of them is read."""
    whole = mix.at_once * mix.long_tokens
    read = mix.at_once * cost.prompt(mix.long_tokens)
    left = max(1, budget - mix.at_once * threshold - others)
    served = mix.beside if mix.beside <= left else mix.beside / 2
    off = read + served + cost.fixed * max(1.0, (whole + served) / before)
    steps = -(-served // left)
    pieces = min(mix.long_tokens, steps * threshold)
    split = mix.at_once * cost.prompt(pieces) + served + cost.fixed * max(1, steps)
    more_steps = whole / (mix.at_once * threshold) - whole / before
    if passing:
        more_steps = min(more_steps, float(-(-mix.beside // left)))
    return off / split, more_steps * cost.fixed / (read + mix.beside)


def _evidence(mix: Mix | None, *, cost: StepCost, budget: int, max_num_seqs: int, prompts: Sequence[int]) -> str:
    if mix is None:
        return f"prompts {len(prompts):,}; longest {max(prompts):,}; token budget {budget:,}"
    bound = "the KV memory" if mix.kv_bound else f"max_num_seqs {max_num_seqs:,}"
    return (
        f"prompts {mix.requests:,}; long {mix.long:,} (at least {LONG_PROMPT:,} tokens; longest {mix.longest:,}); "
        f"short {mix.short:,}, of them behind long ones {mix.waiting:,}; long ones at once {mix.at_once:,} of "
        f"{mix.long_tokens:,} tokens on average, bounded by {bound}; others beside them {mix.beside:,} tokens; "
        f"a step itself costs as much as {cost.fixed:,.0f} tokens ({cost.source}), so it should hold "
        f"{cost.fill(budget):,.0f} of long prompts; token budget {budget:,}"
    )
