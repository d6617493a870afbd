"""Gates on measured loads: which point, what it comes to against a number and against a run, what cannot be judged."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flows.compare import Asked, _fails, gates_on
from schemas.benchmark import Benchmark
from schemas.errors import ConfigError
from schemas.gate import Gate, GateVerdict, Known, gate_faults
from schemas.gate_points import HIGHER, NAMES, gate_points
from tasks.compare.promote import promote
from tasks.gate.baselines import check_pinned
from tasks.gate.evaluate import evaluate, judged_run
from tasks.gate.junit import junit
from tasks.gate.keep import save_evaluation, verdicts_of
from tasks.gate.markdown import markdown
from tasks.gate.model import Evaluation
from tasks.gate.words import because, claim, rests_on, rule, sentence
from tasks.load import perf
from tasks.load.verdict import ONE_RUN
from tests.unit.compare.loads import Points, measured, steady
from tests.unit.compare.two_runs import FIRST, SECOND, THIRD, Made, binary, config
from warehouse.parquet import read_rows
from warehouse.query import query

BLOCK = {
    "load": [
        {"kind": "closed", "concurrency": [1, 8]},
        {"kind": "open", "rate": [2.5]},
        {"kind": "ramp", "end": 20, "seconds": 5},
        {"kind": "saturate", "sweep": [0.5, 0.75]},
    ],
    "slo": {"ttft_ms": 500},
    "repeats": 5,
}
FAST: Points = {"free-closed-8": {"tpot_ms.p50": steady(), "output_tokens_per_s": steady()}}


def slower(by: float) -> Points:
    """The same load, slower by this share: longer times, lower rates."""
    return {"free-closed-8": {"tpot_ms.p50": steady(1 + by), "output_tokens_per_s": steady(1 / (1 + by))}}


def gate(**changes: Any) -> Gate:
    """The ratio gate of the design's own example."""
    base: dict[str, Any] = {"metric": "perf.tpot_ms.p50", "cell": {"concurrency": 8}, "rule": "ratio_at_most"}
    return Gate(**base | {"value": 1.05, "against": FIRST} | changes)


def number(**changes: Any) -> Gate:
    return gate(**{"rule": "at_most", "against": None} | changes)


def judged(home: Path, run_id: str, *gates: Gate, save: bool = False) -> Evaluation:
    found = evaluate(judged_run(home, run_id, groups={}, datasets=["d"]), gates)
    if save:
        save_evaluation(home, found)
    return found


def only(home: Path, *gates: Gate, run_id: str = SECOND) -> GateVerdict:
    [verdict] = judged(home, run_id, *gates).verdicts
    return verdict


@pytest.mark.parametrize(("by", "word"), [(0.0, "passed"), (0.1, "failed"), (0.05, "undecided")])
def test_a_ratio_against_an_earlier_run(tmp_path: Path, by: float, word: str) -> None:
    measured(tmp_path, FIRST, FAST)
    measured(tmp_path, SECOND, slower(by) if by else {"free-closed-8": {"tpot_ms.p50": steady()[::-1]}})
    found = only(tmp_path, gate())
    assert (found.verdict, found.cell_id, found.n_pairs, found.unit) == (word, "free-closed-8", 5, "ms")
    assert found.effect == pytest.approx(by) and found.lo is not None and found.hi is not None
    assert found.lo < by < found.hi and found.method == "log_welch_t"
    assert found.baseline_run_id == FIRST and found.candidate == pytest.approx(41.1 * (1 + by))


def test_of_a_rate_the_ratio_is_at_least(tmp_path: Path) -> None:
    measured(tmp_path, FIRST, FAST)
    measured(tmp_path, SECOND, slower(0.1))
    rate = {"metric": "perf.output_tokens_per_s", "rule": "ratio_at_least"}
    assert [only(tmp_path, gate(**rate, value=value)).verdict for value in (0.85, 0.95)] == ["passed", "failed"]


def test_an_undecided_ratio_says_how_many_repeats_would_decide(tmp_path: Path) -> None:
    noisy = [40.0, 43.6, 41.1, 39.0, 44.1]
    measured(tmp_path, FIRST, {"free-closed-8": {"tpot_ms.p50": noisy}})
    measured(tmp_path, SECOND, {"free-closed-8": {"tpot_ms.p50": noisy[::-1]}})
    found = only(tmp_path, gate())
    assert found.verdict == "undecided" and found.n_needed is not None and 5 < found.n_needed < 60
    assert because(found).endswith(f"over 5 repeats; {found.n_needed} repeats would decide")
    assert judged(tmp_path, SECOND, gate(on_undecided="fail")).exit_code == 3


@pytest.mark.parametrize(("ours", "theirs"), [(1, 5), (5, 1), (1, 1)])
def test_one_repeat_gives_no_verdict(tmp_path: Path, ours: int, theirs: int) -> None:
    measured(tmp_path, FIRST, {"free-closed-8": {"tpot_ms.p50": steady(repeats=theirs)}})
    measured(tmp_path, SECOND, {"free-closed-8": {"tpot_ms.p50": steady(2.0, repeats=ours)}})
    found = only(tmp_path, gate())
    assert (found.verdict, found.reason, found.n_needed) == ("undecided", ONE_RUN, 5)
    if ours == 1:
        alone = only(tmp_path, number(value=1.0))
        assert (alone.verdict, alone.reason, alone.n_needed) == ("undecided", ONE_RUN, 5)


def test_a_number_is_held_against_the_interval_over_repeats(tmp_path: Path) -> None:
    measured(tmp_path, SECOND, FAST)
    found = [only(tmp_path, number(value=value)) for value in (45, 40, 41.35)]
    assert [each.verdict for each in found] == ["passed", "failed", "undecided"]
    assert found[2].n_needed is not None and found[2].n_needed > 5
    assert (found[0].candidate, found[0].baseline, found[0].against, found[0].method) == (41.1, None, None, "log_t")
    least = number(metric="perf.output_tokens_per_s", rule="at_least", value=45)
    assert only(tmp_path, least).verdict == "failed"


def test_answers_of_an_earlier_run_are_refused(tmp_path: Path) -> None:
    measured(tmp_path, FIRST, FAST)
    measured(tmp_path, SECOND, FAST, reused=True)
    found = judged(tmp_path, SECOND, gate(), number(value=100))
    assert [each.verdict for each in found.verdicts] == ["refused", "refused"] and found.exit_code == 2
    assert str(found.verdicts[0].reason).startswith(
        "5 of 5 answers of this run came from an earlier run: a gate counts"
    )
    back = only(tmp_path, gate(against=SECOND), run_id=FIRST)
    assert back.verdict == "refused" and f"answers of {SECOND} came" in str(back.reason)


def test_another_device_or_another_load_is_refused(tmp_path: Path) -> None:
    measured(tmp_path, FIRST, FAST, engine={"device": "NVIDIA H200"})
    measured(tmp_path, SECOND, FAST, engine={"device": "cpu"})
    measured(tmp_path, THIRD, FAST, engine={"device": "cpu"}, load={"at_once": 4})
    device = only(tmp_path, gate())
    assert (device.verdict, device.baseline_run_id) == ("refused", FIRST)
    assert device.reason == (
        f"it was measured on cpu, {FIRST} on NVIDIA H200: speed on two devices is not held against each other"
    )
    load = only(tmp_path, gate(against=SECOND), run_id=THIRD)
    assert (load.verdict, load.reason) == ("refused", "another load: load.at_once: 4 against none")


def test_a_point_that_is_not_there_is_refused(tmp_path: Path) -> None:
    measured(tmp_path, FIRST, {"free-closed-1": {"tpot_ms.p50": steady()}})
    measured(tmp_path, SECOND, FAST)
    assert only(tmp_path, gate()).reason == f"{FIRST} has no perf.tpot_ms.p50 at free-closed-8"
    assert only(tmp_path, gate(cell={"concurrency": 2})).reason == (
        "the run measured no points that fit `concurrency: 2` in its arm free (it has closed-8)"
    )
    assert only(tmp_path, number(metric="perf.ttft_ms.p50", value=1)).reason == "free-closed-8 has no perf.ttft_ms.p50"


def test_last_green_has_the_metric_at_that_point(tmp_path: Path) -> None:
    asked = gate(against=["last_green", "baseline:main"])
    own = config(gates=[asked.model_dump(mode="json")])
    measured(tmp_path, FIRST, FAST)
    promote(tmp_path, run_id=FIRST, name="main")
    measured(tmp_path, SECOND, {"free-closed-1": {"tpot_ms.p50": steady()}})
    measured(tmp_path, THIRD, slower(0.1), config=own)
    found = judged(tmp_path, THIRD, asked, save=True)
    assert [(each.against, each.baseline_run_id, each.verdict) for each in found.verdicts] == [
        ("last_green", FIRST, "failed"),
        ("baseline:main", FIRST, "failed"),
    ]
    assert len(found.comparisons) == 1 and len(found.comparisons[0].speed) == 1
    assert verdicts_of(read_rows(tmp_path, "gates", THIRD)) == sorted(
        found.verdicts, key=lambda each: str(each.against)
    )
    [row] = query(home=tmp_path, sql="SELECT DISTINCT cell_id, rule, round(effect, 3), verdict FROM gates").rows
    assert row == ("free-closed-8", "ratio_at_most", 0.1, "failed")
    assert query(home=tmp_path, sql="SELECT metric, cell_id, verdict FROM comparisons").rows == [
        ("perf.tpot_ms.p50", "free-closed-8", "worse")
    ]


def test_last_green_of_a_load_is_one_on_the_same_device(tmp_path: Path) -> None:
    """A night on another machine between two on this one breaks no chain."""
    measured(tmp_path, FIRST, FAST, engine={"device": "NVIDIA H200"})
    measured(tmp_path, SECOND, FAST, engine={"device": "cpu"})
    measured(tmp_path, THIRD, slower(0.1), engine={"device": "NVIDIA H200"})
    found = only(tmp_path, gate(against="last_green"), run_id=THIRD)
    assert (found.baseline_run_id, found.verdict) == (FIRST, "failed")


def test_the_first_run_is_skipped(tmp_path: Path) -> None:
    measured(tmp_path, FIRST, FAST)
    found = judged(tmp_path, FIRST, gate(against="last_green"))
    assert found.verdicts[0].reason == "no earlier green run of nightly has perf.tpot_ms.p50 (free-closed-8) yet"
    assert (found.verdicts[0].verdict, found.verdicts[0].cell_id, found.exit_code) == ("skipped", "free-closed-8", 0)


def test_gates_on_answers_and_on_speed_share_a_comparison(tmp_path: Path) -> None:
    values = {("d", "acc", "free"): binary(n=400, right=200)}
    card = {"scope": "dataset", "name": "d.acc", "arm": "free", "value": 0.5, "unit": "share", "direction": "higher"}
    for run_id, points in ((FIRST, FAST), (SECOND, slower(0.1))):
        measured(tmp_path, run_id, points, made=Made(run_id=run_id, values=values, aggregates=[card]))
    answers = Gate(metric="d.acc", rule="not_worse", margin=0.02, against=FIRST)
    found = judged(tmp_path, SECOND, answers, gate())
    assert [each.verdict for each in found.verdicts] == ["passed", "failed"]
    [comparison] = found.comparisons
    assert (len(comparison.results), len(comparison.speed)) == (1, 1)
    assert [each.cell_id for each in found.verdicts] == [None, "free-closed-8"]


def test_words_of_every_output(tmp_path: Path) -> None:
    measured(tmp_path, FIRST, FAST)
    measured(tmp_path, SECOND, slower(0.1))
    found = judged(tmp_path, SECOND, gate(), number(value=40))
    ratio, bound = found.verdicts
    assert claim(ratio) == f"perf.tpot_ms.p50 (free-closed-8) at most 1.05 × that of {FIRST}"
    assert claim(bound) == "perf.tpot_ms.p50 (free-closed-8) at most 40"
    assert (rule(ratio), rule(bound), rests_on(ratio)) == ("at most 1.05 ×", "at most 40", "5 repeats")
    assert because(ratio).startswith("41.1 → 45.2 ms, 1.100×, 95 % interval 1.08")
    assert because(bound).startswith("45.2 ms, 95 % interval 44.")
    assert sentence(found).startswith("2 of 2 gate checks failed: perf.tpot_ms.p50 (free-closed-8) at most 1.05 ×")
    text, xml = markdown(found), junit(found)
    assert "41.1 → 45.2 ms" in text and "1.100×" in text and "5 repeats" in text and "free-closed-8" in text
    assert xml.count("<failure") == 2 and "at most 1.05 × that of" in xml and "samples lost" not in xml


def test_what_is_pinned_has_the_point(tmp_path: Path) -> None:
    measured(tmp_path, FIRST, FAST)
    found = {"metric": "perf.tpot_ms.p50", "arm": "free"}
    assert check_pinned(tmp_path, FIRST, **found, cell_id="free-closed-8") is None
    assert check_pinned(tmp_path, FIRST, **found, cell_id="free-closed-1") == (
        f"{FIRST} has no perf.tpot_ms.p50 at free-closed-1"
    )


def faults(*gates: Gate, block: dict[str, Any] | None = BLOCK) -> list[str]:
    benchmark = None if block is None else Benchmark.model_validate(block)
    known = Known(
        metrics={"d": ["acc"]},
        groups={},
        guided=frozenset(),
        arms=["free"],
        points=gate_points(benchmark, arms=["free"]),
        has_slo=benchmark is not None and bool(benchmark.slo.asked),
    )
    return [f"{fault.keypath[2:]}: {fault.message} ({fault.suggestion})" for fault in gate_faults(gates, known=known)]


@pytest.mark.parametrize(
    "cell",
    [
        {"concurrency": 8},
        {"kind": "closed", "concurrency": 1},
        {"rate": 2.5},
        {"kind": "ramp"},
        {"name": "knee-0.75"},
        {"name": "closed-8"},
    ],
)
def test_a_point_by_any_of_its_keys(cell: dict[str, Any]) -> None:
    assert faults(gate(cell=cell)) == []


def test_the_knee_has_one_point() -> None:
    knee = {"metric": "perf.knee_requests_per_s", "rule": "ratio_at_least", "value": 0.9}
    assert faults(gate(**knee, cell=None)) == []
    one = BLOCK | {"load": [{"kind": "closed", "concurrency": 4}]}
    assert faults(gate(cell=None), block=one) == []  # there is only one
    assert "no points of the benchmark" in faults(gate(**knee, cell={"concurrency": 4}), block=one)[0]


NOT_WORSE = {"rule": "not_worse", "margin": 0.1, "value": None}
WRONG: list[tuple[dict[str, Any], str, str]] = [
    (
        {"cell": {"concurrency": 9}},
        "('cell',)",
        "`concurrency: 9` fits no points of the benchmark (name one of closed-1,",
    ),
    ({"cell": {"kind": "closed"}}, "('cell',)", "`kind: closed` fits 2 points (closed-1, closed-8) of the benchmark"),
    (
        {"cell": None},
        "()",
        "a gate on `perf.tpot_ms.p50` names no point of the benchmark (name one of closed-1, closed",
    ),
    ({"metric": "perf.tpot_ms.p51"}, "('metric',)", "a measured load has no `perf.tpot_ms.p51` (did you mean `perf.tp"),
    ({"arm": "guided"}, "('arm',)", "the benchmark measures no arm `guided` (its arms: free)"),
    (
        NOT_WORSE,
        "('rule',)",
        "`perf.tpot_ms.p50` has no value for each sample, so two runs cannot be paired by it (`rul",
    ),
    ({"rule": "ratio_at_least"}, "('rule',)", "of `perf.tpot_ms.p50` less is better: `ratio_at_least` would fail"),
    ({"metric": "perf.requests_per_s"}, "('rule',)", "of `perf.requests_per_s` more is better: `ratio_at_most` would"),
    ({"against": "last_green"}, "('against',)", "`last_green` alone moves down with many small losses"),
    ({"metric": "d.acc"}, "('cell',)", "`d.acc` is measured at no point of a load"),
    ({"metric": "d.acc", "cell": None}, "('rule',)", "`ratio_at_most` is for measured loads, `perf.*` (use `rule: not"),
    ({"metric": "timing.e2e_ms.p50", "cell": None}, "('metric',)", "a single run gives no verdict on speed, and `timi"),
]


@pytest.mark.parametrize(("changes", "key", "said"), WRONG)
def test_what_is_wrong_with_a_gate_is_said_before_anything_runs(changes: dict[str, Any], key: str, said: str) -> None:
    assert faults(gate(**changes))[0].startswith(f"{key}: {said}")


def test_without_a_benchmark_or_an_slo_there_is_nothing_to_gate() -> None:
    assert faults(gate(), block=None) == [
        "('metric',): the experiment measures no load, so it has no `perf.tpot_ms.p50` (add `benchmark:`)"
    ]
    loads = {"load": [{"kind": "closed", "concurrency": 8}]}
    goodput = gate(metric="perf.goodput_share", rule="ratio_at_least")
    assert "without an SLO there is no `perf.goodput_share`" in faults(goodput, block=loads)[0]


def test_the_same_gate_at_two_points_is_no_copy() -> None:
    assert faults(gate(), gate(cell={"concurrency": 1})) == []
    assert "has a gate with `rule: ratio_at_most`" in faults(gate(), gate())[0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"value": None}, "needs `value` and `against`"),
        ({"against": None}, "needs `value` and `against`"),
        ({"value": 0.0}, "takes a `value` above 0"),
        ({"margin": 0.1}, "no `margin`"),
        ({"cell": {}}, "names no point"),
        ({"cell": {"concurrent": 8}}, "concurrent"),
    ],
)
def test_a_ratio_needs_what_it_needs(changes: dict[str, Any], said: str) -> None:
    with pytest.raises((ValueError, ConfigError), match=said):
        gate(**changes)


def test_the_names_are_those_that_are_measured() -> None:
    latencies = {f"perf.{metric.name}.p{percentile}" for metric in perf.LATENCIES for percentile in perf.PERCENTILES}
    totals = {f"perf.{metric.name}" for metric in perf.TOTALS}
    assert latencies | totals <= set(NAMES)
    higher = {f"perf.{metric.name}" for metric in perf.TOTALS if metric.direction == "higher"}
    assert higher == totals & set(HIGHER)


def test_the_nightly_comparison_judges_every_load_that_was_repeated(tmp_path: Path) -> None:
    once: Points = {"free-closed-1": {"tpot_ms.p50": steady(repeats=1)}}
    measured(tmp_path, FIRST, {**FAST, **once})
    measured(tmp_path, SECOND, {**slower(0.12), **once})
    asked = Asked(metrics=[], margin=0.02, slower=0.05, against=[FIRST], strict=True)
    run = judged_run(tmp_path, SECOND, groups={}, datasets=[])
    gates = gates_on(run, asked)
    assert [(each.metric, each.rule, each.value, each.cell and each.cell.name) for each in gates] == [
        ("perf.tpot_ms.p50", "ratio_at_most", 1.05, "closed-8"),
        ("perf.output_tokens_per_s", "ratio_at_least", 0.95, "closed-8"),
    ]
    found = evaluate(run, gates)
    assert [each.verdict for each in found.verdicts] == ["failed", "failed"] and _fails(found)
    tolerant = evaluate(run, gates_on(run, replace(asked, slower=0.3)))
    assert [each.verdict for each in tolerant.verdicts] == ["passed", "passed"] and not _fails(tolerant)
    [only_one] = gates_on(run, replace(asked, metrics=["perf.tpot_ms.p50"]))
    assert only_one.metric == "perf.tpot_ms.p50"
    with pytest.raises(ConfigError, match=r"did you mean `perf\.tpot_ms\.p50`"):
        gates_on(run, replace(asked, metrics=["perf.tpot_ms.p5"]))


def test_a_night_on_another_device_or_without_the_load_fails_nothing(tmp_path: Path) -> None:
    other: Points = {"free-closed-8": {"tpot_ms.p50": steady(), "e2e_ms.p50": steady()}}
    measured(tmp_path, FIRST, FAST, engine={"device": "NVIDIA H100"})
    measured(tmp_path, SECOND, slower(0.12), engine={"device": "NVIDIA A100"})
    measured(tmp_path, THIRD, other, engine={"device": "NVIDIA H100"})
    for run_id in (SECOND, THIRD):
        run = judged_run(tmp_path, run_id, groups={}, datasets=[])
        asked = Asked(metrics=[], margin=0.02, slower=0.05, against=[FIRST], strict=False)
        found = evaluate(run, gates_on(run, asked))
        assert "refused" in {each.verdict for each in found.verdicts} and found.exit_code == 2
        assert not _fails(found)


def test_a_run_with_neither_scores_nor_repeats_has_nothing_to_compare(tmp_path: Path) -> None:
    measured(tmp_path, FIRST, {"free-closed-1": {"tpot_ms.p50": steady(repeats=1)}})
    run = judged_run(tmp_path, FIRST, groups={}, datasets=[])
    with pytest.raises(ConfigError, match="no load that was measured several times"):
        gates_on(run, Asked(metrics=[], margin=0.02, slower=0.05, against=["last_green"], strict=False))
