"""Measured loads of two runs, or of two arms of one: verdicts, what is not compared and why, what is said and kept."""

import json
from pathlib import Path
from typing import Any

import pytest

from flows.commands.compare import exit_code, json_object
from schemas.errors import ConfigError
from tasks.compare.markdown import markdown
from tasks.compare.model import RunComparison, SpeedResult
from tasks.compare.runs import compare_runs
from tasks.compare.save import save_comparison
from tasks.compare.words import sentence, speed_basis
from tasks.load.verdict import ONE_RUN
from tasks.report.compare_page import render
from tasks.score.stats.holm import holm
from tests.e2e.command import assay
from tests.unit.compare.loads import Points, measured, steady
from tests.unit.compare.two_runs import FIRST, HOSTILE, SECOND, THIRD, Made, binary
from warehouse.query import query

FREE = ("d", "exact_match", "free")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def both(
    home: Path, ours: Points, theirs: Points, *, other: dict[str, Any] | None = None, **more: Any
) -> RunComparison:
    """The comparison of SECOND (more) with FIRST (other)."""
    measured(home, FIRST, theirs, **(other or {}))
    measured(home, SECOND, ours, **more)
    return compare_runs(home=home, candidate=SECOND, baseline=FIRST)


def by_name(comparison: RunComparison) -> dict[str, SpeedResult]:
    return {f"{each.point_id} {each.figure}": each for each in comparison.speed}


def words(comparison: RunComparison) -> dict[str, str]:
    return {name: each.found.word for name, each in by_name(comparison).items()}


def test_every_point_that_both_have_gets_a_verdict(home: Path) -> None:
    found = both(
        home,
        {
            "free-closed-1": {"tpot_ms.p50": steady(1.05), "tpot_ms.p90": steady(1.05)},
            "free-closed-8": {"tpot_ms.p50": steady(1.002), "output_tokens_per_s": steady(1.08)},
            "free-open-2.5": {"ttft_ms.p99": steady(0.9)},
        },
        {
            "free-closed-1": {"tpot_ms.p50": steady(), "tpot_ms.p90": steady()},
            "free-closed-8": {"tpot_ms.p50": steady(), "output_tokens_per_s": steady()},
            "free-open-2.5": {"ttft_ms.p99": steady()},
        },
    )
    assert words(found) == {
        "free-closed-1 tpot_ms.p50": "worse",
        "free-closed-8 tpot_ms.p50": "same",
        "free-closed-8 output_tokens_per_s": "better",
        "free-open-2.5 ttft_ms.p99": "better",
    }
    worse = by_name(found)["free-closed-1 tpot_ms.p50"]
    assert worse.found.effect == pytest.approx(0.05)
    assert (worse.found.repeats, worse.unit, worse.direction, worse.arms) == (5, "ms", "lower", "free")
    assert [each.p_adjusted for each in found.speed] == holm([each.found.p_value for each in found.speed])
    assert sentence(found) == (
        "Speed: worse in 1 of 4: tpot_ms.p50 at free-closed-1 +5.0 %; better in 2 of 4: output_tokens_per_s at "
        "free-closed-8 +8.0 %, ttft_ms.p99 at free-open-2.5 −10.0 %; 1 the same."
    )
    assert "not measured in turns" in speed_basis(found)
    assert found.notes == ()


def test_what_is_worse_makes_the_exit_code(home: Path) -> None:
    slow, fast = {"free-closed-1": {"tpot_ms.p50": steady(1.05)}}, {"free-closed-1": {"tpot_ms.p50": steady()}}
    found = both(home, slow, fast)
    assert [exit_code(found, fail_on=word) for word in (None, "worse", "undecided")] == [0, 3, 3]
    back = compare_runs(home=home, candidate=FIRST, baseline=SECOND)
    assert exit_code(back, fail_on="undecided") == 0
    wide = compare_runs(home=home, candidate=SECOND, baseline=FIRST, speed_margin=0.08)
    assert exit_code(wide, fail_on="worse") == 0 and wide.speed[0].margin == 0.08
    with pytest.raises(ConfigError, match="a margin is 0 or more"):
        compare_runs(home=home, candidate=SECOND, baseline=FIRST, speed_margin=-1)


@pytest.mark.parametrize(("ours", "theirs"), [(1, 5), (5, 1), (1, 1)])
def test_one_repeat_gives_no_verdict_and_says_so(home: Path, ours: int, theirs: int) -> None:
    found = both(
        home,
        {"free-closed-1": {"tpot_ms.p50": steady(1.5, repeats=ours)}},
        {"free-closed-1": {"tpot_ms.p50": steady(repeats=theirs)}},
    )
    [result] = found.speed
    assert (result.found.word, result.found.reason, result.found.n_needed) == ("undecided", ONE_RUN, 5)
    assert exit_code(found, fail_on="worse") == 0
    assert "Undecided: one run gives no verdict: repeats: 5." in markdown(found)


def test_a_knee_is_searched_once(home: Path) -> None:
    numbers = {"free-saturate": {"knee_requests_per_s": [5.0]}, "free-knee-0.5": {"tpot_ms.p50": steady()}}
    found = words(both(home, numbers, numbers))
    assert found == {"free-knee-0.5 tpot_ms.p50": "same", "free-saturate knee_requests_per_s": "undecided"}


def test_two_arms_of_one_run_are_paired(home: Path) -> None:
    """Both get slower by half while they are measured in turns."""
    drift = [value * way for value, way in zip(steady(), (1.0, 1.1, 1.2, 1.35, 1.5), strict=True)]
    points = {
        "free-closed-8": {"tpot_ms.p50": drift},
        "guided-closed-8": {
            "tpot_ms.p50": [value * way for value, way in zip(drift, (1.04, 1.05, 1.06) * 2, strict=False)]
        },
    }
    measured(home, FIRST, points)
    found = compare_runs(home=home, candidate=FIRST, baseline=FIRST, arms=("guided", "free"))
    [result] = found.speed
    assert (result.found.word, result.found.method, result.arms) == ("worse", "log_paired_t", "guided against free")
    assert result.point_id == "guided-closed-8" and "not measured in turns" not in speed_basis(found)
    assert "tpot_ms.p50 at guided-closed-8 (guided against free) +" in sentence(found)
    measured(home, SECOND, points)
    across = compare_runs(home=home, candidate=SECOND, baseline=FIRST, arms=("guided", "free"))
    assert [each.found.method for each in across.speed] == ["log_welch_t"]


CLOSED: Points = {"free-closed-8": {"tpot_ms.p50": steady(), "goodput_requests_per_s": steady()}}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "at_once": (
        {"load": {"at_once": 4}},
        "speed at free-closed-8 is not compared: another load: load.at_once: 4 against none",
    ),
    "what is asked": (
        {"prompts": "random"},
        "speed at free-closed-8 is not compared: other prompts: random against datasets",
    ),
    "drawn lengths": (
        {"benchmark": {"prompts": {"input": 512}}},
        "speed at free-closed-8 is not compared: another `prompts`: benchmark.prompts: {\"input\": 512} against none",
    ),
    "exact answers": (
        {"benchmark": {"answers": "exact"}},
        "speed at free-closed-8 is not compared: another `answers`: benchmark.answers: exact against own",
    ),
    "other machines beside": (
        {"benchmark": {"client_hosts": {"workers": 2, "port": 5710}}},
        "speed at free-closed-8 is not compared: another `client_hosts`: "
        "benchmark.client_hosts: {\"workers\": 2} against none",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_another_load_is_not_compared_and_why_is_said(home: Path, name: str) -> None:
    changes, said = REFUSED[name]
    found = both(home, CLOSED, CLOSED, **changes)
    assert (found.speed, found.notes) == ((), (said,))


def test_the_same_machines_at_another_port_are_the_same_load(home: Path) -> None:
    blocks = [{"client_hosts": {"workers": 2, "port": port, "address": None}} for port in (5710, 5711)]
    measured(home, FIRST, CLOSED, benchmark=blocks[0])
    measured(home, SECOND, CLOSED, benchmark=blocks[1])
    found = compare_runs(home=home, candidate=SECOND, baseline=FIRST)
    assert len(found.speed) == 2 and not [note for note in found.notes if "client_hosts" in note]


def test_another_slo_leaves_latencies_comparable(home: Path) -> None:
    found = both(home, CLOSED, CLOSED, benchmark={"slo": {"ttft_ms": 300.0}})
    assert words(found) == {"free-closed-8 tpot_ms.p50": "same"}
    assert found.notes == (
        "speed at free-closed-8 (goodput_requests_per_s) is not compared: another SLO: benchmark.slo.ttft_ms: 300.0 "
        "against 500.0",
    )
    knee: Points = {"free-knee-0.5": {"tpot_ms.p50": steady()}}
    other = both(home / "knee", knee, knee, benchmark={"slo": {"ttft_ms": 300.0}})
    assert other.speed == () and "another knee, as the SLO is another" in other.notes[0]


def test_other_rows_are_other_prompts(home: Path) -> None:
    values = {FREE: binary(n=9, right=3)}
    measured(home, FIRST, CLOSED, made=Made(run_id=FIRST, values=values))
    measured(
        home, SECOND, CLOSED, made=Made(run_id=SECOND, values=values | {("e", "exact_match", "free"): values[FREE]})
    )
    found = compare_runs(home=home, candidate=SECOND, baseline=FIRST)
    assert found.speed == () and found.results
    assert (
        "speed at free-closed-8 is not compared: other prompts: the dataset e is in one of the runs only" in found.notes
    )


def test_what_leaves_a_load_comparable_is_said(home: Path) -> None:
    found = both(home, CLOSED, CLOSED, load={"requests": 64}, benchmark={"warmup": 16}, disturbed={1: ["throttled"]})
    assert set(words(found).values()) == {"same"}
    assert found.notes == (
        "free-closed-8: 1 of 5 repeats of the candidate were disturbed: throttled",
        "free-closed-8: load.requests: 64 against 32",
        "free-closed-8: benchmark.warmup: 16 against 8",
    )


def test_a_trace_is_known_by_its_name(home: Path) -> None:
    trace: Points = {"free-trace-day": {"tpot_ms.p50": steady()}}
    other = {"load": {"path": "/one/day.jsonl"}, "prompts": "trace"}
    found = both(home, trace, trace, other=other, load={"path": "/two/day.jsonl"}, prompts="trace")
    assert (len(found.speed), found.notes) == (1, ())
    night = both(home / "night", trace, trace, other=other, load={"path": "/one/night.jsonl"}, prompts="trace")
    assert night.notes == (
        "speed at free-trace-day is not compared: another load: load.path: night.jsonl against day.jsonl",
    )


def test_points_of_one_run_only_are_named(home: Path) -> None:
    more = CLOSED | {"free-closed-32": {"tpot_ms.p50": steady()}, "free-probe-2": {"tpot_ms.p50": steady()}}
    found = both(home, more, CLOSED)
    assert found.notes == ("speed at free-closed-32 is not compared: only the candidate measured it",)
    back = compare_runs(home=home, candidate=FIRST, baseline=SECOND)
    assert back.notes == ("speed at free-closed-32 is not compared: only the baseline measured it",)


def test_another_device_is_said(home: Path) -> None:
    found = both(
        home, CLOSED, CLOSED, other={"engine": {"device": "NVIDIA H200", "device_count": 2}}, engine={"device": "cpu"}
    )
    assert found.speed and found.notes == ("speed was measured on cpu against 2 × NVIDIA H200",)


def test_metrics_choose_answers_or_speed(home: Path) -> None:
    values = {FREE: binary(n=50, right=20)}
    numbers: Points = {"free-closed-8": {"tpot_ms.p50": steady(), "tpot_ms.p90": steady(1.3)}}
    for run_id in (FIRST, SECOND):
        measured(home, run_id, numbers, made=Made(run_id=run_id, values=values))

    def compared(*metrics: str) -> RunComparison:
        return compare_runs(home=home, candidate=SECOND, baseline=FIRST, metrics=metrics or None)

    assert [len(part) for part in (compared().results, compared().speed)] == [1, 1]
    only = compared("perf.tpot_ms.p90")
    assert (only.results, [each.figure for each in only.speed]) == ((), ["tpot_ms.p90"])
    answers = compared("exact_match")
    assert (len(answers.results), answers.speed) == (1, ())
    with pytest.raises(ConfigError, match=r"neither run measured perf.tpot_ms.p51.*perf.tpot_ms.p50"):
        compared("perf.tpot_ms.p51")


def test_a_run_without_scores_can_be_compared_by_its_load_alone(home: Path) -> None:
    measured(home, FIRST, CLOSED, made=Made(run_id=FIRST, values={FREE: binary(n=9, right=3)}))
    measured(home, SECOND, CLOSED)
    for run_id in (FIRST, SECOND):  # what was asked is no dataset's: those differ
        measured(home / "drawn", run_id, CLOSED, prompts="random")
    assert compare_runs(home=home / "drawn", candidate=SECOND, baseline=FIRST).speed
    with pytest.raises(ConfigError, match="no scores"):
        measured(home, THIRD, {})
        compare_runs(home=home, candidate=THIRD, baseline=FIRST)


def test_it_is_kept_with_the_ratio_less_one(home: Path) -> None:
    found = both(home, {"free-closed-8": {"tpot_ms.p50": steady(1.05)}}, CLOSED)
    save_comparison(home, found)
    save_comparison(home, found)  # over the first
    sql = """SELECT dataset, metric, candidate_arm, cell_id, n_pairs, effect, lo, hi, method, margin, verdict, wins,
    n_needed FROM comparisons"""
    [row] = query(home=home, sql=sql).rows
    dataset, metric, arm, cell_id, pairs, effect, lo, hi, method, margin, verdict, wins, needed = row
    assert (dataset, metric, arm, cell_id) == (None, "perf.tpot_ms.p50", "free", "free-closed-8")
    assert effect == pytest.approx(0.05) and 0 < lo < effect < hi < 0.1
    assert (pairs, method, margin, verdict, wins, needed) == (5, "log_welch_t", 0.0, "worse", None, None)
    [regression] = query(home=home, sql="SELECT metric, cell_id FROM regressions").rows
    assert regression == ("perf.tpot_ms.p50", "free-closed-8")


def test_every_output_has_it(home: Path) -> None:
    found = both(home, {"free-closed-8": {"tpot_ms.p50": steady(1.05)}}, CLOSED, disturbed={0: [HOSTILE]})
    text = markdown(found)
    [line] = [each for each in text.splitlines() if each.startswith("| ❌ worse")]
    cells = [cell.strip().replace("\u00a0", " ") for cell in line.split("|")[1:-1]]
    assert cells[1:7] == [
        "<code>free-closed-8</code>",
        "<code>tpot\\_ms.p50</code>",
        "43.2 ms",
        "41.1 ms",
        "+5.0 %",
        "+3.7 % to +6.3 %",
    ]
    assert cells[8:] == ["5", "–"] and HOSTILE not in text
    page = render(found)
    assert "Speed under load" in page and "free-closed-8" in page and "+5.0" in page and "<script>alert" not in page
    [row] = json.loads(json.dumps(json_object(found, flips=5), default=str))["speed"]
    assert (row["metric"], row["cell_id"], row["verdict"]) == ("perf.tpot_ms.p50", "free-closed-8", "worse")


def test_the_command_prints_it(home: Path) -> None:
    both(home, {"free-closed-8": {"tpot_ms.p50": steady(1.05)}}, CLOSED)
    done = assay("compare", "last", FIRST, "--fail-on", "worse", "--no-save", home=home)
    assert done.code == 3, done.stderr
    assert "Speed under load" in done.stdout and "free-closed-8" in done.stdout and "+5.0" in done.stdout
