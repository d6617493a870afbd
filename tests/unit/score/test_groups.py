"""Several datasets as one number, and the config that asks for it."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from schemas.errors import ConfigError
from schemas.experiment import Experiment, Group
from schemas.metric import Aggregate, Score
from tasks.config.resolve import load_experiment
from tasks.score.aggregate import aggregate
from tasks.score.groups import group_means
from tasks.score.stats.wilson import wilson

near = pytest.approx
NAMES = ["mmlu_law", "mmlu_math", "other"]
MACRO = {"mmlu": Group(datasets=["mmlu_*"], metric="json_fields")}
SIZE = {"mmlu": Group(datasets=["mmlu_*"], metric="json_fields", weight="size")}


def row(dataset: str, value: float | None, *, n: int, stderr: float | None, **changes: Any) -> Aggregate:
    fields: dict[str, Any] = {
        "scope": "dataset",
        "name": f"{dataset}.json_fields",
        "arm": "free",
        "value": value,
        "unit": "share",
        "direction": "higher",
        "n": n,
        "n_failed": 1,
        "stderr": stderr,
        "method": "t",
    }
    return Aggregate(**{**fields, **changes})


LAW, MATH = row("mmlu_law", 0.8, n=30, stderr=0.03), row("mmlu_math", 0.5, n=10, stderr=0.1)
OTHER = row("other", 0.1, n=99, stderr=0.01)


def test_macro_by_hand() -> None:
    (found,) = group_means(groups=MACRO, metrics=[LAW, OTHER, MATH], datasets=NAMES)
    assert (found.scope, found.name, found.arm) == ("group", "mmlu.json_fields", "free")
    assert (found.value, found.n, found.n_failed) == (near(0.65), 40, 2)
    assert found.stderr == near(math.sqrt(0.03**2 + 0.1**2) / 2)
    degrees = (0.03**2 + 0.1**2) ** 2 / (0.03**4 / 29 + 0.1**4 / 9)
    assert found.hi == near(0.65 + reference.t.ppf(0.975, degrees) * found.stderr)
    assert found.method == "t_macro"
    assert found.details == {"datasets": ["mmlu_law", "mmlu_math"], "weight": "equal"}


def test_weighted_by_hand() -> None:
    (found,) = group_means(groups=SIZE, metrics=[LAW, MATH, OTHER], datasets=NAMES)
    assert found.value == near(0.75 * 0.8 + 0.25 * 0.5)
    assert found.stderr == near(math.sqrt((0.75 * 0.03) ** 2 + (0.25 * 0.1) ** 2))
    assert found.method == "t_weighted"


def test_clusters_are_what_is_independent() -> None:
    few = [replace(LAW, details={"clusters": 4}), replace(MATH, details={"clusters": 3})]
    (narrow,), (wide,) = (group_means(groups=MACRO, metrics=rows, datasets=NAMES) for rows in ([LAW, MATH], few))
    assert narrow.stderr == wide.stderr
    assert narrow.lo is not None
    assert wide.lo is not None
    assert wide.lo < narrow.lo


def score(dataset: str, index: int, value: float) -> Score:
    return Score(
        dataset=dataset,
        sample_id=f"{dataset}:{index}",
        arm="free",
        repeat=0,
        metric="exact_match",
        metric_version=1,
        value=value,
    )


def rates(law: list[float], mathematics: list[float]) -> list[Aggregate]:
    scores = [score("mmlu_law", i, value) for i, value in enumerate(law)]
    return aggregate(scores=scores + [score("mmlu_math", i, value) for i, value in enumerate(mathematics)])


def of_rates(weight: str, metrics: list[Aggregate]) -> Aggregate:
    group = Group.model_validate({"datasets": ["mmlu_math", "mmlu_law"], "metric": "exact_match", "weight": weight})
    (found,) = group_means(groups={"mmlu": group}, metrics=metrics, datasets=NAMES)
    return found


def test_a_group_of_rates_has_wilsons_interval() -> None:
    found = of_rates("size", rates([1.0] * 20 + [0.0] * 10, [1.0] * 5 + [0.0] * 5))
    assert (found.value, found.n, found.method) == (near(25 / 40), 40, "wilson_weighted")
    lo, hi = wilson(rate=25 / 40, n=40)  # of one rate in all of them, it is that of the pool
    assert (found.lo, found.hi) == (near(lo, abs=0.01), near(hi, abs=0.01))


def test_all_right_is_no_certainty() -> None:
    found = of_rates("equal", rates([1.0] * 30, [1.0] * 10))
    assert (found.value, found.hi, found.stderr) == (1, 1, 0)
    assert found.lo == near(wilson(rate=1.0, n=1 / (1 / 4 / 30 + 1 / 4 / 10))[0])
    alike = [row(name, 0.5, n=10, stderr=0.0, method="no_spread", lo=0.4, hi=0.6) for name in NAMES[:2]]
    (found,) = group_means(groups=MACRO, metrics=alike, datasets=NAMES)
    assert (found.lo, found.hi, found.method) == (near(0.4), near(0.6), "no_spread_macro")


@settings(deadline=None, max_examples=50)
@given(st.lists(st.booleans(), min_size=2, max_size=30), st.lists(st.booleans(), min_size=2, max_size=30))
def test_size_weights_give_the_mean_of_all_samples(law: list[bool], mathematics: list[bool]) -> None:
    found = of_rates("size", rates([float(one) for one in law], [float(one) for one in mathematics]))
    pool = law + mathematics
    assert found.value == near(sum(pool) / len(pool))
    macro = of_rates("equal", rates([float(one) for one in law], [float(one) for one in mathematics]))
    assert macro.value == near((sum(law) / len(law) + sum(mathematics) / len(mathematics)) / 2)
    for each in (found, macro):
        assert each.lo is not None
        assert each.hi is not None
        assert each.value is not None
        assert -1e-9 <= each.lo <= each.value + 1e-9
        assert each.value - 1e-9 <= each.hi <= 1 + 1e-9


def test_a_dataset_without_a_value_leaves_the_group_without_one() -> None:
    nothing = row("mmlu_math", None, n=0, stderr=None, n_failed=10)
    (found,) = group_means(groups=MACRO, metrics=[LAW, nothing], datasets=NAMES)
    assert (found.value, found.stderr, found.lo, found.n, found.n_failed) == (None, None, None, 30, 11)
    assert found.details["missing"] == ["mmlu_math"]


def test_an_arm_that_a_dataset_lacks() -> None:
    guided = replace(LAW, arm="guided")
    free, only = group_means(groups=MACRO, metrics=[LAW, MATH, guided], datasets=NAMES)
    assert (free.arm, free.value) == ("free", near(0.65))
    assert (only.arm, only.value, only.details["missing"]) == ("guided", None, ["mmlu_math"])


def test_one_without_an_error_leaves_the_group_without_one() -> None:
    (found,) = group_means(groups=MACRO, metrics=[LAW, row("mmlu_math", 0.5, n=1, stderr=None)], datasets=NAMES)
    assert (found.value, found.stderr, found.lo, found.method) == (near(0.65), None, None, "none")


def with_groups(groups: dict[str, Any]) -> Experiment:
    """The quickstart's experiment with groups, as it comes out of its files."""
    experiment = load_experiment("quickstart", overrides=["datasets=[arithmetic,extract]"])
    return Experiment.model_validate(experiment.model_dump(by_alias=True) | {"groups": groups})


def test_groups_that_fit() -> None:
    experiment = with_groups({"all": {"datasets": ["arith*"], "metric": "exact_match"}})
    assert experiment.groups["all"].weight == "equal"
    assert experiment.groups["all"].members(["extract", "arithmetic"]) == ["arithmetic"]


@pytest.mark.parametrize(
    ("name", "group", "message"),
    [
        (
            "all",
            {"datasets": ["extract", "arithmetik"], "metric": "json_fields"},
            "groups.all.datasets[1]: the experiment has no dataset `arithmetik` (did you mean `arithmetic`?)",
        ),
        (
            "all",
            {"datasets": ["mmlu_*", "extract"], "metric": "json_fields"},
            "groups.all.datasets[0]: the experiment has no dataset `mmlu_*` (known: arithmetic, extract)",
        ),
        (
            "all",
            {"datasets": ["arithmetic"], "metric": "exact_mach"},
            "groups.all.metric: `arithmetic` has no metric `exact_mach` (did you mean `exact_match`?)",
        ),
        (
            "all",
            {"datasets": ["*"], "metric": "json_fields"},
            "groups.all.metric: `arithmetic` has no metric `json_fields`",
        ),
        (
            "extract",
            {"datasets": ["extract"], "metric": "json_fields"},
            "groups.extract: `extract` is the name of a dataset: its numbers have it already",
        ),
    ],
)
def test_groups_that_do_not_fit(name: str, group: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        with_groups({name: group})
    assert str(caught.value) == message
    assert caught.value.exit_code == 2
