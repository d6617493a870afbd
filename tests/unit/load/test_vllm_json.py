"""A cell in the format of `vllm bench serve`: vLLM's names, vLLM's units, vLLM's definitions."""

import ast
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from cell_rows import START, at, cell, request

from schemas.cell_figures import Slo
from tasks.load.vllm_json import DETAILS, vllm_result

Row = dict[str, Any]
CLOSED: Row = {
    "kind": "closed",
    "concurrency": 2,
    "rate": None,
    "burstiness": None,
    "load": {"kind": "closed", "concurrency": [2]},
}
OPEN: Row = {"kind": "open", "concurrency": None, "rate": 2.5, "burstiness": 0.5, "load": {"at_once": 8}}
RAMP: Row = {"kind": "ramp", "concurrency": None, "rate": None, "burstiness": 1.0, "load": {"start": 1, "end": 9}}


def answer(name: str, begin: float, *, ttft: float, gaps: list[float], tokens: list[int], **changes: Any) -> Row:
    """gaps: seconds between arrivals; tokens: what each arrival brought, the first one's too."""
    end = begin + ttft + sum(gaps)
    first, *later = tokens
    return request(name, begin, end) | {
        "ttft_ms": ttft * 1000,
        "gaps_ms": [gap * 1000 for gap in gaps],
        "gap_tokens": later,
        "output_tokens": first + sum(later),
        "client_queue_ms": None,
        "output": f"text of {name}",
        "error": None,
    } | changes  # fmt: skip


def failed(name: str, begin: float, **changes: Any) -> Row:
    empty = dict.fromkeys(("ttft_ms", "e2e_ms", "gaps_ms", "gap_tokens", "output_tokens", "client_queue_ms", "output"))
    return request(name, begin, None) | empty | {"status": "error", "error": "it broke"} | changes


ROWS = [
    answer("b", 1.0, ttft=0.3, gaps=[0.1, 0.1], tokens=[1, 1, 2], prompt_tokens=60),
    answer("a", 0.0, ttft=0.2, gaps=[0.4, 0.4, 1.0], tokens=[1, 1, 1, 2], prompt_tokens=40),
    failed("c", 1.5),
    answer("one", 2.0, ttft=0.5, gaps=[], tokens=[1], status="truncated"),
    answer("warm", 0.0, ttft=9, gaps=[], tokens=[1], phase="warmup"),
    answer("other", 0.0, ttft=9, gaps=[], tokens=[1], cell_id="another"),
]


def told(*, rows: list[Row] = ROWS, kind: Row = CLOSED, **asked: Any) -> Row:
    return vllm_result(cell(0.0, 4.0, **kind), rows, model_id="m", **asked)


def test_counts_and_rates_are_of_the_measured_requests_of_the_cell() -> None:
    found = told()
    assert (found["num_prompts"], found["completed"], found["failed"]) == (4, 3, 1)
    assert (found["total_input_tokens"], found["total_output_tokens"]) == (200, 10)
    assert found["duration"] == 4.0
    assert found["request_throughput"] == 0.75
    assert found["output_throughput"] == 2.5
    assert found["total_token_throughput"] == 52.5
    assert found["request_goodput"] is None
    assert found["date"] == "20260102-030405"


def test_arrays_are_in_seconds_and_in_the_order_of_sending() -> None:
    found = told()
    assert found["ttfts"] == pytest.approx([0.2, 0.3, None, 0.5])
    assert found["itls"] == [pytest.approx([0.4, 0.4, 1.0]), pytest.approx([0.1, 0.1]), None, []]
    assert found["latencies"] == [pytest.approx(2.0), pytest.approx(0.5), None, pytest.approx(0.5)]
    assert found["start_times"] == pytest.approx([START.timestamp() + each for each in (0, 1, 1.5, 2)])
    assert found["input_lens"] == [40, 60, 100, 100]
    assert found["output_lens"] == [5, 4, None, 1]
    assert found["generated_texts"] == ["text of a", "text of b", None, "text of one"]
    assert found["errors"] == ["", "", "it broke", ""]


def test_statistics_are_in_milliseconds() -> None:
    found = told()
    assert [found[f"{name}_ttft_ms"] for name in ("mean", "median", "std")] == pytest.approx(
        [1000 / 3, 300, 124.72], abs=0.01
    )
    assert found["p99_ttft_ms"] == pytest.approx(300 + 0.98 * 200)
    tpot_a, tpot_b = 1800 / 4, 200 / 3
    assert found["mean_tpot_ms"] == pytest.approx((tpot_a + tpot_b) / 2)  # an answer of one token has none
    assert found["mean_itl_ms"] == pytest.approx(2000 / 5)
    assert found["median_e2el_ms"] == pytest.approx(500)


def test_times_count_from_sending_and_what_was_waited_before_stands_by_itself() -> None:
    rows = [
        answer("a", 1.0, ttft=0.2, gaps=[0.3], tokens=[1, 1])
        | {"planned_at": at(0.4), "client_queue_ms": 590.0, "ttft_ms": 800.0, "e2e_ms": 1100.0}
    ]
    found = told(rows=rows, kind=OPEN)
    assert found["ttfts"] == pytest.approx([0.2]) and found["latencies"] == pytest.approx([0.5])
    assert found["queue_times"] == pytest.approx([0.59])
    assert found["mean_client_queue_time_ms"] == pytest.approx(590)
    assert found["mean_e2el_including_client_queue_ms"] == pytest.approx(1090)
    assert (found["request_rate"], found["burstiness"], found["max_concurrency"]) == (2.5, 0.5, 8)


def test_goodput_counts_what_keeps_every_latency() -> None:
    assert told(slo=Slo(ttft_ms=300.5))["request_goodput"] == 2 / 4
    assert told(slo=Slo(ttft_ms=600, tpot_ms=100))["request_goodput"] == 2 / 4  # b, and the one of one token
    assert told(slo=Slo(e2e_ms=1))["request_goodput"] == 0
    assert told(slo=Slo())["request_goodput"] is None


def test_peaks_are_those_of_one_second() -> None:
    found = told()
    # second 0: a's tokens at 0.2 and 0.6; second 1: a's at 1.0, b's at 1.3, 1.4 and 1.5; second 2: a's at 2.0, one's
    assert found["max_output_tokens_per_s"] == 5
    assert found["max_concurrent_requests"] == 2


def test_what_is_not_known_is_none() -> None:
    rows = [ROWS[0] | {"output_tokens": None, "gaps_ms": None, "gap_tokens": None}]
    found = told(rows=rows)
    assert found["total_output_tokens"] is found["output_throughput"] is found["total_token_throughput"] is None
    assert found["mean_tpot_ms"] is found["mean_itl_ms"] is found["max_output_tokens_per_s"] is None
    assert found["mean_ttft_ms"] == pytest.approx(300) and found["max_concurrent_requests"] == 1
    nothing = told(rows=[failed("x", 0.0)])
    assert nothing["completed"] == 0 and nothing["failed"] == 1
    assert nothing["max_concurrent_requests"] is nothing["p99_e2el_ms"] is nothing["mean_ttft_ms"] is None
    never_sent = told(rows=[failed("x", 0.0) | {"sent_at": None, "status": "cancelled"}])
    assert never_sent["start_times"] == [None]


@pytest.mark.parametrize(
    ("kind", "rate", "limit"),
    [
        (CLOSED, "inf", 2),
        (OPEN, 2.5, 8),
        (OPEN | {"load": {"at_once": None}}, 2.5, None),
        (RAMP, "inf", None),
        (CLOSED | {"kind": "offline", "concurrency": None, "load": {}}, "inf", None),
        (CLOSED | {"kind": "trace", "concurrency": None, "load": {}}, None, None),
        (RAMP | {"kind": "staged", "load": {}}, None, None),
    ],
)
def test_the_traffic_is_told_in_vllms_words(kind: Row, rate: float | str | None, limit: int | None) -> None:
    found = told(kind=kind)
    assert (found["request_rate"], found["max_concurrency"]) == (rate, limit)
    assert ("ramp_up_strategy" in found) == (kind["kind"] == "ramp")
    if kind["kind"] == "ramp":
        assert (found["ramp_up_strategy"], found["ramp_up_start_rps"], found["ramp_up_end_rps"]) == ("linear", 1, 9)


def test_it_is_json() -> None:
    for kind in (CLOSED, OPEN, RAMP):
        found = told(kind=kind, tokenizer_id="t", backend="openai", slo=Slo(ttft_ms=1))
        assert json.loads(json.dumps(found, allow_nan=False)) == found
        assert (found["backend"], found["endpoint_type"], found["tokenizer_id"]) == ("openai", "openai", "t")


# ---------------------------------------------------------------- against the source of the vLLM that is installed


@pytest.fixture(scope="module")
def source() -> ast.Module:
    found = importlib.util.find_spec("vllm")
    if found is None or not found.submodule_search_locations:
        pytest.skip("vLLM is not installed")
    path = Path(found.submodule_search_locations[0]) / "benchmarks" / "serve.py"
    if not path.is_file():
        pytest.skip("this vLLM has no benchmarks/serve.py")
    return ast.parse(path.read_text())


def _function(source: ast.Module, name: str) -> ast.AST:
    return next(node for node in ast.walk(source) if getattr(node, "name", None) == name)


def _set_items(within: ast.AST, name: str) -> list[ast.expr]:
    """What stands in the brackets of each `name[...] = ...`."""
    return [
        target.slice
        for node in ast.walk(within)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and target.value.id == name
    ]


def _texts(nodes: list[ast.expr]) -> set[str]:
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def _keys_of_dict_with(within: ast.AST, key: str) -> set[str]:
    dicts = (_texts([each for each in node.keys if each]) for node in ast.walk(within) if isinstance(node, ast.Dict))
    return next(keys for keys in dicts if key in keys)


def _statistics(benchmark: ast.AST) -> set[str]:
    """`mean_{}_ms` and so on, of every metric that the function tells."""
    patterns = [
        "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        for node in _set_items(benchmark, "result")
        if isinstance(node, ast.JoinedStr)
    ]
    metrics = _texts(
        [
            node.args[0]
            for node in ast.walk(benchmark)
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "process_one_metric"
        ]
    )
    plain = [pattern for pattern in patterns if not pattern.startswith("p")]
    of_percentiles = [pattern for pattern in patterns if pattern.startswith("p")]
    assert sorted(plain) == ["mean_{}_ms", "median_{}_ms", "std_{}_ms"] and of_percentiles == ["p{}_{}_ms"]
    return {pattern.format(metric) for pattern in plain for metric in metrics} | {f"p99_{name}_ms" for name in metrics}


def test_the_keys_are_those_that_vllm_writes(source: ast.Module) -> None:
    main, benchmark = _function(source, "main_async"), _function(source, "benchmark")
    with_ramp = _texts(_set_items(main, "result_json"))
    ramp = {key for key in with_ramp if key.startswith("ramp_up")}
    assert len(ramp) == 3
    every = with_ramp | _keys_of_dict_with(benchmark, "output_lens") | _statistics(benchmark)
    of_the_queue = {key for key in every if "client_queue" in key}
    assert len(of_the_queue) == 8
    assert set(told(kind=OPEN)) == every - ramp
    assert set(told(kind=RAMP)) == every - of_the_queue
    assert set(told(kind=CLOSED)) == every - ramp - {key for key in of_the_queue if "including" in key}


def test_what_is_left_out_without_details_is_what_vllm_leaves_out(source: ast.Module) -> None:
    lists = [
        {each.value for each in node.elts if isinstance(each, ast.Constant)}
        for node in ast.walk(_function(source, "main_async"))
        if isinstance(node, ast.List)
    ]
    assert set(DETAILS) in lists
    assert set(told()) - set(told(detailed=False)) == set(DETAILS)
