"""The serving benchmark beside other tools: it reads their files, has one load for all, and its tables hold."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.load.traces import read_trace
from tests.bench.peers import serving_figures as figures
from tests.bench.peers.serving import Rounds
from tests.bench.peers.serving_figures import FIGURES
from tests.bench.peers.serving_load import Closed, Open, arrivals, write_trace
from tests.bench.peers.serving_server import Served, counters, served, split_cores
from tests.bench.peers.serving_table import NOTES, Spread, against_server, agreement, figure, markdown, notes_of

VLLM_BENCH = {
    "completed": 2,
    "failed": 0,
    "total_input_tokens": 256,
    "total_output_tokens": 128,
    "request_throughput": 0.5,
    "output_throughput": 32.0,
    **{
        f"{statistic}_{name}_ms": base + more
        for base, name in ((100.0, "ttft"), (20.0, "tpot"), (19.0, "itl"), (1360.0, "e2el"))
        for more, statistic in ((0.0, "mean"), (1.0, "median"), (2.0, "p99"))
    },
}
"""As `vllm bench serve --save-result` of 0.32.0 writes it, what is not read left out."""


def guidellm_report() -> dict[str, Any]:
    """As guidellm 0.8.1 writes it, what is not read left out."""

    def summary(mean: float) -> dict[str, Any]:
        return {"successful": {"mean": mean, "median": mean + 1, "percentiles": {"p99": mean + 2}}}

    def request(ttft: float, tpot: float, late: float) -> dict[str, Any]:
        return {
            "time_to_first_token_ms": ttft,
            "inter_token_latency_ms": tpot,
            "prompt_tokens": 128,
            "output_tokens": 64,
            "request_dispatch_delay": late,
        }

    metrics = {
        "request_totals": {"successful": 2, "errored": 0},
        "time_to_first_token_ms": summary(100.0),
        "inter_token_latency_ms": summary(20.0),
        "time_per_output_token_ms": summary(999.0),
        "request_latency": summary(1.36),
        "output_tokens_per_second": summary(32.0),
        "requests_per_second": summary(0.5),
    }
    requests = [request(100.0, 20.0, 0.25), request(200.0, 30.0, 0.002)]
    return {"benchmarks": [{"metrics": metrics, "requests": {"successful": requests}}]}


def test_vllm_bench_is_read_under_our_names() -> None:
    said = figures.vllm_bench(VLLM_BENCH)
    assert (said.answered, said.prompt_tokens, said.output_tokens) == (2, 256, 128)
    assert list(said.values) == list(FIGURES)
    statistics = ("mean", "p50", "p99", "p99, interpolated")
    assert [said.values[f"ttft_ms.{statistic}"] for statistic in statistics] == [100.0, 101.0, 102.0, 102.0]
    assert (said.values["gap_ms.p50"], said.values["gap_ms.p99"], said.values["e2e_ms.mean"]) == (20.0, 21.0, 1360.0)
    assert (said.values["output_tokens_per_s"], said.values["requests_per_s"]) == (32.0, 0.5)


def test_guidellms_tpot_is_its_inter_token_latency() -> None:
    said = figures.guidellm(guidellm_report())
    assert [said.values[f"tpot_ms.{part}"] for part in ("mean", "p50", "p99")] == [20.0, 21.0, 22.0]
    assert said.values["ttft_ms.p99, interpolated"] == pytest.approx(199.0)
    assert said.values["tpot_ms.p99, interpolated"] == pytest.approx(29.9)
    assert said.values["e2e_ms.mean"] == pytest.approx(1360.0)
    assert (said.answered, said.prompt_tokens, said.output_tokens, said.late_ms) == (2, 256, 128, 250.0)
    assert not [name for name in said.values if name.startswith("gap_ms")]


def test_a_closed_load_of_guidellm_has_no_delays() -> None:
    report = guidellm_report()
    for request in report["benchmarks"][0]["requests"]["successful"]:
        request["request_dispatch_delay"] = None
    assert figures.guidellm(report).late_ms is None


def test_assays_own_percentiles_and_means_of_its_requests() -> None:
    requests = [
        {"sent": at, "ttft_ms": ttft, "tpot_ms": 20.0, "e2e_ms": ttft + 1260, "prompt_tokens": 128, "output_tokens": 64}
        for at, ttft in ((11.0, 100.0), (10.0, 200.0))
    ]
    names = [f"perf.{name}.{part}" for name in ("ttft_ms", "tpot_ms", "gap_ms") for part in ("p50", "p99")]
    metrics = dict.fromkeys([*names, "perf.output_tokens_per_s", "perf.requests_per_s", "perf.late_ms.p99"], 7.0)
    said = figures.assay(requests, metrics)
    assert list(said.values) == list(FIGURES)
    assert (said.values["ttft_ms.mean"], said.values["e2e_ms.mean"], said.values["ttft_ms.p99"]) == (150.0, 1410.0, 7.0)
    assert (said.answered, said.prompt_tokens, said.output_tokens) == (2, 256, 128)
    assert (said.began_at, said.late_ms) == (10.0, 7.0)


def test_all_three_read_the_same_times(tmp_path: Path) -> None:
    times = arrivals(rate=2.0, requests=2000)
    assert times[0] == 0.0
    assert times == sorted(times)
    assert times != arrivals(rate=2.0, requests=2000, seed=1)
    assert 1999 / times[-1] == pytest.approx(2.0, rel=0.1)
    traced = read_trace(write_trace(tmp_path / "trace.jsonl", times), "mooncake")
    assert [row.at_s for row in traced] == pytest.approx(times, abs=1e-6)
    assert {(row.prompt_tokens, row.output_tokens) for row in traced} == {(128, 64)}
    assert len({row.blocks for row in traced}) == 2000


METRICS = """# HELP vllm:time_to_first_token_seconds Histogram of time to first token in seconds.
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.001",model_name="small"} 0.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="small"} 2.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="small"} 0.5
vllm:request_time_per_output_token_seconds_count{engine="0",model_name="small"} 2.0
vllm:request_time_per_output_token_seconds_sum{engine="0",model_name="small"} 0.04
vllm:e2e_request_latency_seconds_count{engine="0",model_name="small"} 2.0
vllm:e2e_request_latency_seconds_sum{engine="0",model_name="small"} 3.0
vllm:prompt_tokens_total{engine="0",model_name="small"} 256.0
vllm:generation_tokens_total{engine="0",model_name="small"} 128.0
"""


def test_the_servers_own_means_are_of_what_lies_between_two_looks() -> None:
    before = counters(METRICS)
    after = counters(METRICS.replace(" 2.0", " 6.0").replace(" 0.5", " 1.5").replace(" 3.0", " 9.0"))
    found = served(before, after)
    assert found.answers == 4
    assert found.means_ms == pytest.approx({"ttft_ms.mean": 250.0, "tpot_ms.mean": 0.0, "e2e_ms.mean": 1500.0})
    with pytest.raises(ValueError, match="no answer"):
        served(before, before)
    with pytest.raises(ValueError, match="no vllm:e2e_request_latency_seconds_sum"):
        counters(METRICS.replace("vllm:e2e_request_latency_seconds_sum", "vllm:other_seconds_sum"))


@pytest.mark.parametrize(
    ("cores", "engine", "clients"),
    [({3, 1}, (1,), (3,)), ({0, 1, 2, 3, 4}, (0, 1), (2, 3, 4)), ({5}, (5,), (5,))],
)
def test_the_engine_and_the_client_have_their_own_cores(
    cores: set[int], engine: tuple[int, ...], clients: tuple[int, ...]
) -> None:
    found = split_cores(cores)
    assert (found.engine, found.clients) == (engine, clients)


def test_a_spread_says_whether_a_value_lies_within() -> None:
    spread = Spread(values=(10.0, 12.0, 14.0))
    assert (spread.mean, spread.sd) == (12.0, 2.0)
    assert spread.has(10.0)
    assert spread.has(14.0)
    assert not spread.has(14.01)
    assert spread.text == "12 (10–14; sd 2)"
    assert Spread(values=(3.0,)).text == "3 (3–3)"
    assert [figure(value) for value in (0.01234, 12.345, 123.45, 12345.6)] == ["0.0123", "12.3", "123.5", "12,346"]


def said_in(*means: float) -> list[dict[str, float]]:
    return [{"ttft_ms.mean": mean, "requests_per_s": 1.0} for mean in means]


def test_the_table_tells_agreement_from_difference() -> None:
    rounds = {"assay": said_in(10.0, 12.0), "near": said_in(10.0, 13.0), "far": said_in(20.0, 22.0)}
    head, *rows = agreement(rounds, ours="assay", is_open=False)
    beside = ["assay / it", "within its spread"]
    assert head == ["figure", "assay", "near", *beside, "far", *beside, "notes"]
    [ttft] = [row for row in rows if row[0] == "ttft_ms.mean"]
    assert ttft[3:5] == ["0.957", "yes"]
    assert ttft[6:8] == ["0.524", "no, 7.1 sd away"]
    [gap] = [row for row in rows if row[0] == "gap_ms.p99"]
    assert gap[1:-1] == ["–"] * 7
    assert all(len(row) == len(head) for row in rows)


def test_peers_alone_stand_beside_each_other() -> None:
    head, *rows = agreement({"one": said_in(1.0), "two": said_in(2.0)}, ours="assay", is_open=True)
    assert head == ["figure", "one", "two", "notes"]
    assert rows[0] == ["ttft_ms.mean", "1 (1–1)", "2 (2–2)", "b, d"]


def test_the_server_is_the_measure_of_all() -> None:
    server = {"one": [{"ttft_ms.mean": 8.0}, {"ttft_ms.mean": 12.0}]}
    head, row = against_server({"one": said_in(10.0, 13.0)}, server)
    assert head == ["tool", "server's ttft_ms.mean", "tool's - server's"]
    assert row == ["one", "10 (8–12; sd 2.83)", "+1.50 (1.150)"]


def test_notes_stand_only_where_they_explain() -> None:
    assert notes_of("tpot_ms.mean", is_open=True) == "b"
    assert notes_of("e2e_ms.mean", is_open=False) == ""
    assert notes_of("e2e_ms.mean", is_open=True) == "d"
    assert notes_of("gap_ms.p99", is_open=False) == "e"
    used = {letter for name in FIGURES for letter in notes_of(name, is_open=True).split(", ")}
    assert used == set(NOTES)


def test_markdown() -> None:
    assert markdown([["a", "b"], ["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"


def rounds_of(load: Closed | Open, *, output_tokens: int) -> Rounds:
    said = figures.vllm_bench(VLLM_BENCH)
    means = {"ttft_ms.mean": 90.0, "tpot_ms.mean": 20.0, "e2e_ms.mean": 1350.0}
    counted = Served(answers=2, prompt_tokens=257, output_tokens=output_tokens, means_ms=means)
    told = {"assay": [replace(said, late_ms=3.0)], "vllm bench": [said]}
    return Rounds(load=load, said=told, served={name: [counted] for name in told})


def test_another_load_than_was_asked_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rounds_of(Closed(requests=2, concurrency=4), output_tokens=128).show()
    said = capsys.readouterr().out
    assert "it tells of 2 answers, 256 tokens of prompts and 128 of answers; the server counted 2 answers, 257" in said
    assert "after they were due" not in said
    load = Open(requests=2, rate=1.0, trace=tmp_path)
    assert not rounds_of(load, output_tokens=127).show()
    said = capsys.readouterr().out
    assert "vllm bench, round 1: the server counted 2 answers, 257 tokens of prompts and 127 of answers; to be" in said
    assert "assay: 99 % of its requests at most 3.0 ms after they were due" in said
