"""pass@k: golden values, its definition by counting, and its rows."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.metric import Score
from tasks.score.stats.pass_at_k import pass_at_k, pass_at_k_aggregates


@pytest.mark.parametrize(
    ("n", "c", "k", "value"),
    [
        (6, 3, 1, 0.5),
        (10, 3, 1, 0.3),
        (10, 3, 5, 1 - 21 / 252),  # C(7,5) / C(10,5)
        (200, 1, 100, 0.5),
        (5, 0, 5, 0.0),
        (5, 1, 5, 1.0),
        (1, 1, 1, 1.0),
        (3, 2, 4, None),
        (0, 0, 1, None),
    ],
)
def test_golden_values(n: int, c: int, k: int, value: float | None) -> None:
    assert pass_at_k(n=n, c=c, k=k) == (None if value is None else pytest.approx(value, abs=1e-12))


@pytest.mark.parametrize(("n", "c", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 0), (-1, 0, 1)])
def test_what_is_no_count_is_refused(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match="no pass@k"):
        pass_at_k(n=n, c=c, k=k)


def test_it_is_the_share_of_draws_with_a_right_one() -> None:
    for n, c, k in itertools.product(range(1, 8), range(8), range(1, 8)):
        if c <= n and k <= n:
            draws = list(itertools.combinations([True] * c + [False] * (n - c), k))
            assert pass_at_k(n=n, c=c, k=k) == pytest.approx(sum(any(draw) for draw in draws) / len(draws), abs=1e-12)


@given(n=st.integers(1, 400), data=st.data())
def test_properties(n: int, data: st.DataObject) -> None:
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    value = pass_at_k(n=n, c=c, k=k)
    assert value is not None
    assert 0 <= value <= 1
    product = 1 - math.prod(1 - k / i for i in range(n - c + 1, n + 1)) if n - c >= k else 1.0
    assert value == pytest.approx(product, abs=1e-9)
    if k < n:
        more = pass_at_k(n=n, c=c, k=k + 1)
        assert more is not None and more >= value - 1e-12
    if c < n:
        better = pass_at_k(n=n, c=c + 1, k=k)
        assert better is not None and better >= value - 1e-12


def _scores(rows: dict[str, list[float | None]], *, arm: str = "free") -> list[Score]:
    return [
        Score(
            dataset="d",
            sample_id=sample,
            arm=arm,
            repeat=repeat,
            metric="code_pass",
            metric_version=1,
            value=value,
            reason=None if value is not None else "error",
        )
        for sample, values in rows.items()
        for repeat, value in enumerate(values)
    ]


def test_rows_per_arm_and_k() -> None:
    rows = {"a": [1.0, 0.0, 0.0, 0.0], "b": [1.0, 1.0, 0.0, None], "c": [0.0, 0.0, 0.0, 0.0], "d": [None] * 4}
    found = pass_at_k_aggregates(_scores(rows) + _scores({"a": [1.0]}, arm="guided"), ks=[1, 2, 4])
    assert [(row.name, row.arm) for row in found] == [
        *((f"d.code_pass.pass_at_{k}", "free") for k in (1, 2, 4)),
        *((f"d.code_pass.pass_at_{k}", "guided") for k in (1, 2, 4)),
    ]
    one, two, four, guided, *none = found
    values = [1 / 4, 2 / 3, 0]
    mean = sum(values) / 3
    error = math.sqrt(sum((value - mean) ** 2 for value in values) / 2 / 3)
    assert (one.value, one.n, one.n_failed) == (pytest.approx(mean), 3, 1)
    assert one.stderr == pytest.approx(error)
    assert one.lo == pytest.approx(max(0.0, mean - 4.302652729911275 * error))
    assert one.hi == pytest.approx(min(1.0, mean + 4.302652729911275 * error))
    assert (two.value, two.n) == (pytest.approx((1 / 2 + 1 + 0) / 3), 3)
    # b has three answers only: it has no pass@4
    assert (four.value, four.n, four.n_failed, four.method) == (pytest.approx(0.5), 2, 2, "wilson")
    assert four.details == {"metric_version": 1, "k": 4, "fewest_answers": 0, "most_answers": 4}
    assert (guided.value, guided.n) == (1.0, 1)
    assert [(row.value, row.n, row.n_failed) for row in none] == [(None, 0, 1), (None, 0, 1)]


def test_clusters_widen_the_error() -> None:
    rows: dict[str, list[float | None]] = {name: [float(name < "c"), 0.0] for name in "abcd"}
    apart = pass_at_k_aggregates(_scores(rows), ks=[1])[0]
    together = pass_at_k_aggregates(_scores(rows), ks=[1], clusters={"a": "x", "b": "x", "c": "y", "d": "y"})[0]
    assert together.value == apart.value == 0.25
    assert together.method == "t_clustered"
    assert together.stderr is not None and apart.stderr is not None
    assert together.stderr > apart.stderr


def test_a_value_between_is_refused() -> None:
    with pytest.raises(ValueError, match="neither 0 nor 1"):
        pass_at_k_aggregates(_scores({"a": [0.5]}), ks=[1])
