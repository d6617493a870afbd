"""The token profile of a dataset's prompts: what the plan is made from."""

from array import array
from collections.abc import Sequence

import numpy as np

from schemas.profile import Bin, Profile
from schemas.sample import Sample

_BINS = 30


class ProfileBuilder:
    """Is given samples, some at a time, and holds of each but two numbers and a hash: 16 bytes for a prompt of any
    length. Two prompts count as equal where the 64 bits of their token ids' hash are."""

    def __init__(self) -> None:
        self._lengths = array("i")
        self._budgets = array("i")
        self._sent = array("i")
        self._hashes = array("q")
        self._shared: list[int] | None = None
        self._chars = 0
        self._cut = 0

    def add(self, samples: Sequence[Sample], *, output_budget: Sequence[int] | None = None) -> None:
        """More samples. output_budget: the most output tokens of each, in their order; without it, its max_tokens.

        Raises ValueError when the budgets are not one each."""
        budgets = [sample.max_tokens for sample in samples] if output_budget is None else output_budget
        if len(budgets) != len(samples):
            raise ValueError(f"{len(budgets)} output budgets for {len(samples)} samples")
        if not samples:
            return
        prompts = [sample.prompt_token_ids for sample in samples]
        self._budgets.extend(budgets)
        self._lengths.extend(map(len, prompts))
        self._sent.extend(map(_sent_at_once, samples))
        self._hashes.extend(map(hash, map(tuple, prompts)))  # of numbers: the same in every process
        self._chars += sum(len(sample.prompt) for sample in samples)
        self._cut += sum(sample.cut_tokens for sample in samples)
        ends = [min(prompts), max(prompts)] if self._shared is None else [self._shared, min(prompts), max(prompts)]
        self._shared = ends[0][: min(shared_prefix([ends[0], other]) for other in ends[1:])]

    def __len__(self) -> int:
        return len(self._lengths)

    def profile(
        self, *, dataset: str, arm: str, max_len: int, tokenizer_fingerprint: str, tokenize_s: float
    ) -> Profile:
        """Prompt lengths in tokens, of all prompts, as they will be sent. Percentiles interpolate linearly.

        Raises ValueError when there are no samples."""
        if not self._lengths:
            raise ValueError(f"{dataset} has no samples to profile")
        lengths = np.frombuffer(self._lengths, dtype=np.int32).astype(np.int64)
        budgets = np.frombuffer(self._budgets, dtype=np.int32).astype(np.int64)
        p50, p90, p95, p99 = (float(value) for value in np.percentile(lengths, [50, 90, 95, 99], method="linear"))
        return Profile(
            dataset=dataset,
            arm=arm,
            n=len(lengths),
            tokens_min=int(lengths.min()),
            tokens_mean=float(lengths.mean()),
            tokens_p50=p50,
            tokens_p90=p90,
            tokens_p95=p95,
            tokens_p99=p99,
            tokens_max=int(lengths.max()),
            tokens_total=int(lengths.sum()),
            chars_total=self._chars,
            output_budget=int(budgets.max()),
            shared_prefix_tokens=len(self._shared or []),
            duplicates=len(lengths) - len(np.unique(np.frombuffer(self._hashes, dtype=np.int64))),
            over_limit=int((np.frombuffer(self._sent, dtype=np.int32).astype(np.int64) + budgets > max_len).sum()),
            cut_tokens=self._cut,
            histogram=histogram(lengths),
            tokenizer_fingerprint=tokenizer_fingerprint,
            tokenize_s=tokenize_s,
        )


def _sent_at_once(sample: Sample) -> int:
    """The tokens of a prompt, or of a document's longest window."""
    if not sample.windows:
        return len(sample.prompt_token_ids)
    return max(window.end - window.begin for window in sample.windows)


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
    """The profile of samples that are all there. Raises ValueError when there are none, or the budgets are not one
    each."""
    builder = ProfileBuilder()
    builder.add(samples, output_budget=output_budget)
    return builder.profile(
        dataset=dataset,
        arm=arm,
        max_len=max_len,
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


def histogram(lengths: Sequence[int] | np.ndarray) -> list[Bin]:
    """At most 30 bins of one whole width from the shortest to the longest; every length is in exactly one."""
    low, high = int(np.min(lengths)), int(np.max(lengths))
    width = max(1, -(-(high - low) // _BINS))
    bins = max(1, -(-(high - low) // width))
    counts, _ = np.histogram(lengths, bins=np.arange(bins + 1) * width + low)
    return [
        Bin(lo=low + index * width, hi=low + (index + 1) * width, n=int(count)) for index, count in enumerate(counts)
    ]
