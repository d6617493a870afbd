"""The token profile of a dataset's prompts: what the plan is made from."""

from collections.abc import Sequence

import numpy as np

from schemas.profile import Bin, Profile
from schemas.sample import Sample

_BINS = 30


def profile_samples(
    *,
    dataset: str,
    arm: str,
    samples: Sequence[Sample],
    max_len: int,
    tokenizer_fingerprint: str,
    tokenize_s: float,
    output_budget: Sequence[int] | None = None,
) -> Profile:
    """Prompt lengths in tokens, of all prompts, as they will be sent.

    output_budget: the most output tokens of each sample, in their order; without it, each sample's own max_tokens.
    Percentiles interpolate linearly. Raises ValueError when there are no samples, or the budgets are not one each."""
    if not samples:
        raise ValueError(f"{dataset} has no samples to profile")
    budgets = [sample.max_tokens for sample in samples] if output_budget is None else list(output_budget)
    if len(budgets) != len(samples):
        raise ValueError(f"{len(budgets)} output budgets for {len(samples)} samples")
    lengths = np.array([len(sample.prompt_token_ids) for sample in samples], dtype=np.int64)
    p50, p90, p95, p99 = (float(value) for value in np.percentile(lengths, [50, 90, 95, 99], method="linear"))
    return Profile(
        dataset=dataset,
        arm=arm,
        n=len(samples),
        tokens_min=int(lengths.min()),
        tokens_mean=float(lengths.mean()),
        tokens_p50=p50,
        tokens_p90=p90,
        tokens_p95=p95,
        tokens_p99=p99,
        tokens_max=int(lengths.max()),
        tokens_total=int(lengths.sum()),
        chars_total=sum(len(sample.prompt) for sample in samples),
        output_budget=max(budgets),
        shared_prefix_tokens=shared_prefix([sample.prompt_token_ids for sample in samples]),
        duplicates=len(samples) - len({tuple(sample.prompt_token_ids) for sample in samples}),
        over_limit=int((lengths + np.array(budgets, dtype=np.int64) > max_len).sum()),
        cut_tokens=sum(sample.cut_tokens for sample in samples),
        histogram=histogram(lengths.tolist()),
        tokenizer_fingerprint=tokenizer_fingerprint,
        tokenize_s=tokenize_s,
    )


def shared_prefix(prompts: Sequence[list[int]]) -> int:
    """Length of the longest prefix that all prompts share: that of the first and the last in lexical order."""
    first, last = min(prompts), max(prompts)
    length = 0
    for one, other in zip(first, last, strict=False):
        if one != other:
            break
        length += 1
    return length


def histogram(lengths: Sequence[int]) -> list[Bin]:
    """At most 30 bins of one whole width from the shortest to the longest; every length is in exactly one."""
    low, high = min(lengths), max(lengths)
    width = max(1, -(-(high - low) // _BINS))
    bins = max(1, -(-(high - low) // width))
    counts, _ = np.histogram(lengths, bins=np.arange(bins + 1) * width + low)
    return [
        Bin(lo=low + index * width, hi=low + (index + 1) * width, n=int(count)) for index, count in enumerate(counts)
    ]
