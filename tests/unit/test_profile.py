from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.sample import Sample
from tasks.profile import histogram, profile_samples, shared_prefix


def sample(token_ids: list[int], *, max_tokens: int = 10, cut_tokens: int = 0) -> Sample:
    return Sample(
        dataset="toy",
        sample_id="toy:0",
        row_index=0,
        raw=b"",
        input={},
        prompt="abc",
        prompt_hash="",
        prompt_token_ids=token_ids,
        cut_tokens=cut_tokens,
        max_tokens=max_tokens,
    )


def profile(samples: list[Sample], **given_: object) -> object:
    defaults = {"dataset": "toy", "arm": "free", "max_len": 20, "tokenizer_fingerprint": "f", "tokenize_s": 0.5}
    return profile_samples(samples=samples, **{**defaults, **given_})


def test_a_profile_by_hand() -> None:
    samples = [sample([7] * n, cut_tokens=n == 4) for n in (1, 2, 3, 4, 10)] + [sample([7, 7])]
    found = profile([*samples, sample([7] * 11, max_tokens=9), sample([7] * 11, max_tokens=10)])
    assert (found.n, found.tokens_min, found.tokens_max, found.tokens_total) == (8, 1, 11, 44)
    assert found.tokens_mean == 5.5
    assert found.tokens_p50 == 3.5
    assert found.tokens_p90 == pytest.approx(11.0)
    assert found.chars_total == 24
    assert found.output_budget == 10
    assert found.over_limit == 1  # 11 + 10 is one too many; 10 + 10 and 11 + 9 just fit
    assert found.duplicates == 2
    assert found.shared_prefix_tokens == 1
    assert found.cut_tokens == 1
    assert found.tokenize_s == 0.5


def test_budgets_can_be_given() -> None:
    found = profile([sample([1]), sample([2])], output_budget=[1, 30])
    assert (found.output_budget, found.over_limit, found.shared_prefix_tokens) == (30, 1, 0)
    with pytest.raises(ValueError, match="1 output budgets for 2"):
        profile([sample([1]), sample([2])], output_budget=[1])
    with pytest.raises(ValueError, match="no samples"):
        profile([])


@given(st.lists(st.integers(min_value=1, max_value=5000), min_size=1, max_size=60))
def test_percentiles_and_bins_hold_all(lengths: list[int]) -> None:
    bins = histogram(lengths)
    assert sum(item.n for item in bins) == len(lengths)
    assert len(bins) <= 30
    assert len({item.hi - item.lo for item in bins}) == 1
    assert all(one.hi == other.lo for one, other in pairwise(bins))
    assert bins[0].lo == min(lengths)
    assert bins[-1].lo <= max(lengths) <= bins[-1].hi
    for item in bins[:-1]:
        assert item.n == sum(item.lo <= length < item.hi for length in lengths)
    found = profile([sample([0] * length) for length in lengths])
    assert found.tokens_p95 == pytest.approx(float(np.percentile(lengths, 95)))


@given(st.lists(st.lists(st.integers(0, 2), max_size=8), min_size=1, max_size=8))
def test_the_shared_prefix_is_shared_and_the_longest(prompts: list[list[int]]) -> None:
    length = shared_prefix(prompts)
    assert len({tuple(prompt[:length]) for prompt in prompts}) == 1
    longer = {tuple(prompt[: length + 1]) for prompt in prompts}
    assert len(longer) > 1 or min(len(prompt) for prompt in prompts) == length
