"""Finding metrics by name."""

import subprocess
import sys
import time

import pytest

from tasks.score.registry import MetricError, check_options, metric, metric_names


def test_the_names() -> None:
    expected = {"acc", "acc_norm", "choice", "contains", "exact_match", "json_fields", "json_valid"}
    assert expected <= set(metric_names())
    assert metric_names() == sorted(metric_names())


def test_the_names_import_nothing_heavy() -> None:
    code = (
        "import sys; from tasks.score.registry import metric_names; metric_names();"
        "print([m for m in ('pydantic', 'scipy', 'numpy', 'jsonschema_rs', 'regex') if m in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert printed.strip() == "[]"


def test_an_unknown_metric_names_the_nearest() -> None:
    with pytest.raises(MetricError, match=r"exct_match: there is no such metric \(did you mean exact_match\?\)"):
        metric("exct_match")


@pytest.mark.parametrize(
    ("name", "options", "key", "hint"),
    [
        ("exact_match", {"comapre": "number"}, "comapre", "did you mean compare?"),
        ("exact_match", {"compare": "numbr"}, "compare", None),
        ("json_fields", {"zzz": 1}, "zzz", "it has casefold"),
        ("nope_at_all", {}, "nope_at_all", None),
    ],
)
def test_bad_options(name: str, options: dict[str, object], key: str, hint: str | None) -> None:
    with pytest.raises(ValueError) as caught:
        check_options(name, options)
    assert isinstance(caught.value, MetricError)
    assert caught.value.key == key
    if hint:
        assert caught.value.suggestion == hint


def test_good_options_pass_at_once() -> None:
    started = time.perf_counter()
    for _ in range(100):
        check_options("exact_match", {"compare": "number", "stop_at": ["Question:"]})
    assert time.perf_counter() - started < 1
