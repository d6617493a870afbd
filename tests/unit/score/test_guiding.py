"""What guiding does and costs, and what repairing does, by cases that were worked out by hand."""

import datetime
import math
from typing import Any

import pytest

from schemas.arm import Arm
from schemas.metric import Aggregate
from tasks.record.tracking.names import MAX_METRICS, parent_metrics
from tasks.score.guiding import RESUMED, guiding_metrics
from tasks.score.guiding_lines import guiding_lines
from tasks.score.repaired import judged_rows
from tasks.score.repairing import repair_metrics
from tasks.score.stats.quotient import quotient
from tasks.score.stats.wilson import wilson

near = pytest.approx
NOON = datetime.datetime(2026, 11, 29, 12, tzinfo=datetime.UTC)
ARMS: list[Arm] = ["free", "guided", "free_matched"]


def row(sample: int, arm: str, **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "request_id": f"{arm}-{sample}-{changes.get('repair_try')}",
        "dataset": "d",
        "sample_id": f"d:{sample}",
        "arm": arm,
        "kind": "generate",
        "status": "ok",
        "repeat": 0,
        "output": "{}",
        "valid": True,
        "finish_reason": "stop",
        "prompt_tokens": 10,
        "output_tokens": 11,
        "whitespace_share": 0.0,
        "sent_at": NOON,
        "ttft_ms": 100.0,
        "tpot_ms": 20.0,
        "e2e_ms": 300.0,
        "prefill_ms": 50.0,
        "decode_ms": 200.0,
        "repair_try": None,
    }
    return fields | changes


def named(rows: list[Aggregate]) -> dict[str, Aggregate]:
    found = {
        each.name if each.arm in ("guided", "repair", None) else f"{each.name} ({each.arm})": each for each in rows
    }
    assert len(found) == len(rows)
    return found


def guided_figures(rows: list[dict[str, Any]], **changes: Any) -> dict[str, Aggregate]:
    arms = changes.pop("arms", ["free", "guided"])
    return named(guiding_metrics(rows, arms=arms, guides={"d": "json_schema"}, **changes))


def test_the_failures_that_a_grammar_saves_are_counted_over_pairs_of_answers() -> None:
    rows = [row(n, "free", output="no" if n < 4 else "{}", valid=n >= 4) for n in range(8)]
    rows += [row(n, "guided", output="no" if n == 0 else "{}", valid=n != 0) for n in range(7)]
    rows.append(row(7, "guided", status="refused", output=None, valid=None))
    found = guided_figures(rows)["d.guide.parse_failures_reduction"]
    assert (found.value, found.n) == (near(1 - 1 / 4), 7)  # one of seven against four of seven
    assert found.details == {"baseline_arm": "free", "candidate": near(1 / 7), "baseline": near(4 / 7)}
    assert found.lo is not None and found.hi is not None and found.lo < 0.75 <= found.hi <= 1
    assert (found.direction, found.unit) == ("higher", "share")


def test_where_no_guided_answer_fails_the_reduction_is_not_certain_all_the_same() -> None:
    rows = [row(n, "free", output="no" if n < 12 else "{}", valid=n >= 12) for n in range(20)]
    rows += [row(n, "guided") for n in range(20)]
    found = guided_figures(rows)["d.guide.parse_failures_reduction"]
    assert (found.value, found.hi) == (1.0, 1.0)
    assert found.lo == near(1 - wilson(rate=0.0, n=20)[1] / 0.6)


def test_without_a_failure_there_is_nothing_to_reduce() -> None:
    found = guided_figures([row(n, arm) for n in range(5) for arm in ("free", "guided")])
    assert found["d.guide.parse_failures_reduction"].value is None
    assert "no failures to reduce" in found["d.guide.parse_failures_reduction"].method


def test_lengths_times_and_ends_are_paired_differences() -> None:
    rows = [row(n, "free", output_tokens=20 + n, finish_reason="length", tpot_ms=20.0 + n % 2) for n in range(4)]
    rows += [row(n, "guided", output_tokens=10 + n, tpot_ms=22.0, whitespace_share=0.25) for n in range(4)]
    found = guided_figures(rows)
    tokens, length, tpot = (found[f"d.guide.{name}"] for name in ("output_tokens", "length_finishes", "tpot_ms"))
    assert (tokens.value, tokens.details["baseline"], tokens.details["candidate"]) == (-10, 21.5, 11.5)
    assert (length.value, length.method) == (-1.0, "mcnemar_exact+tango")
    assert (tpot.value, tpot.unit, tpot.direction) == (near(1.5), "ms/token", "lower")
    assert found["d.guide.whitespace_share"].value == near(0.25)
    assert found["d.guide.stream_tokens_per_s"].value == near(1000 * (9 + 10 + 11 + 12) / 800)


def blocks(*slower: float) -> list[dict[str, Any]]:
    """Blocks of two samples, each 100 ms after the other; in block b the mask costs slower[b] us a token."""
    rows = []
    for block, us in enumerate(slower):
        for place in range(2):
            sample, start = 2 * block + place, NOON + datetime.timedelta(seconds=10 * block)
            tokens = 11 if place else 21
            ms = {"guided": (tokens - 1) * (20 + us / 1000), "free_matched": (tokens - 1) * 20.0}
            rows.append(row(sample, "free", sent_at=NOON - datetime.timedelta(seconds=60)))
            for arm, later in (("guided", 0), ("free_matched", 5)):
                rows.append(
                    row(sample, arm, output_tokens=tokens, decode_ms=ms[arm], e2e_ms=100 + ms[arm],
                        sent_at=start + datetime.timedelta(seconds=later))
                )  # fmt: skip
    return rows


def test_the_mask_costs_what_guided_answers_take_longer_than_free_ones_of_their_length() -> None:
    found = guided_figures(blocks(1000, 1000, 2000, 2000), arms=ARMS)
    for name in ("d.guide.mask_us_per_token", "guide.mask_us_per_token"):
        cost = found[name]
        assert (cost.value, cost.n, cost.unit, cost.details["blocks"]) == (near(1500), 8, "us/token", 4)
        # Four blocks: the answers of one share what the machine did, so that there are three degrees of freedom.
        half = 3.18245 * math.sqrt(4 / 3 * 4 * 1000.0**2) / 8
        assert (cost.lo, cost.hi) == (near(1500 - half, rel=1e-4), near(1500 + half, rel=1e-4))
    ratio = found["d.guide.tokens_per_s_ratio"]
    assert ratio.value == near(4 * 600 / (2 * 30 * (21 + 22))) and ratio.direction == "higher"
    assert ratio.lo is not None and ratio.hi is not None and ratio.lo < ratio.value < ratio.hi


def test_the_engines_tokens_a_second_are_over_each_arms_own_time() -> None:
    found = guided_figures(blocks(1000, 1000, 1000, 1000), arms=ARMS)
    assert found["guide.tokens_per_s"].value == near(32 / 0.52)  # 100 ms, and 20 tokens of 21 ms
    assert found["guide.tokens_per_s (free_matched)"].value == near(32 / 0.5)
    ratio = found["guide.throughput_ratio"]
    assert (ratio.value, ratio.lo, ratio.hi, ratio.n) == (near(0.5 / 0.52), near(0.5 / 0.52), near(0.5 / 0.52), 4)


def test_pairs_of_other_lengths_and_answers_of_one_token_say_nothing_of_the_mask() -> None:
    rows = blocks(1000, 1000)
    rows[1]["output_tokens"] = 20  # of 21
    for each in rows[4:6]:
        each["output_tokens"] = 1
    cost = guided_figures(rows, arms=ARMS)["guide.mask_us_per_token"]
    assert (cost.value, cost.n, cost.n_failed) == (near(1000), 2, 2)


def test_in_a_run_that_was_interrupted_no_time_is_told() -> None:
    found = guided_figures(blocks(1000, 1000), arms=ARMS, resumed=True)
    times = [each for name, each in found.items() if "token" in name.replace("output_tokens", "") or "ttft" in name]
    assert len(times) > 5 and all((each.value, each.lo, each.method) == (None, None, RESUMED) for each in times)
    assert found["d.guide.output_tokens"].value is not None


def test_a_quotient_of_sums_by_hand() -> None:
    found = quotient([1.0, 3.0], [2.0, 2.0])
    assert found.value == 1.0 and found.lo == 0.5 and found.hi == 1.5  # each replicate is one of 1/2, 1, 3/2
    assert quotient([1.0], [2.0]).lo is None and quotient([1.0], [0.0]).value is None
    assert quotient([1.0, 0.0, 0.0], [1.0, 0.0, 0.0]).method == "none"  # a third of the replicates has no quotient


def repairs() -> list[dict[str, Any]]:
    """Four samples: one valid at once, one mended at once, one at the second try, one never."""
    rows = [row(n, "free", valid=n == 0, status="ok" if n == 0 else "invalid") for n in range(4)]
    rows += [row(n, "guided", output_tokens=22, decode_ms=400.0) for n in range(4)]
    rows += [row(n, "repair", repair_try=1, valid=n == 1, status="ok" if n == 1 else "invalid") for n in (1, 2, 3)]
    rows += [row(2, "repair", repair_try=2), row(3, "repair", repair_try=2, valid=None, status="error", output=None)]
    return rows


def test_of_a_repaired_sample_the_last_answer_counts() -> None:
    judged = [each for each in judged_rows(repairs(), datasets={"d"}) if each["arm"] == "repair"]
    assert {each["sample_id"]: each["request_id"] for each in judged} == {
        "d:0": "free-0-None", "d:1": "repair-1-1", "d:2": "repair-2-2", "d:3": "repair-3-1"
    }  # fmt: skip
    assert [each["valid"] for each in judged] == [True, True, True, False]


def test_only_datasets_that_have_the_arm_are_repaired_and_the_control_is_not_judged() -> None:
    rows = [row(0, "free"), row(1, "free", dataset="other"), row(0, "free_matched")]
    judged = judged_rows(rows, datasets={"d"})
    assert [(each["dataset"], each["arm"]) for each in judged] == [("d", "free"), ("other", "free"), ("d", "repair")]


def test_an_arm_of_its_own_begins_with_its_own_free_answer() -> None:
    rows = [row(0, "repair", repair_try=0, valid=False), row(0, "repair", repair_try=1)]
    assert [each["repair_try"] for each in judged_rows(rows, datasets={"d"})] == [1]


def test_what_repairing_took_is_the_sum_over_all_tries() -> None:
    found = named(repair_metrics(repairs(), datasets=["d"]))
    assert (found["d.repair.retried_share"].value, found["d.repair.retried_share"].n) == (0.75, 4)
    assert (found["d.repair.repaired_share"].value, found["d.repair.repaired_share"].n) == (near(2 / 3), 3)
    assert found["d.repair.requests"].value == (1 + 2 + 3 + 2) / 4  # what the engine did not answer took nothing
    assert found["d.repair.output_tokens"].value == 22
    assert found["d.repair.output_tokens_ratio"].value == 1.0
    assert found["d.repair.seconds"].value == near(0.25 * 8 / 4)
    assert found["d.repair.seconds_ratio"].value == near(0.5 / 0.45)
    assert found["d.repair.output_tokens_ratio"].details["baseline_arm"] == "guided"
    again = named(repair_metrics(repairs(), datasets=["d"], resumed=True))
    assert again["d.repair.seconds"].value is None and again["d.repair.requests"].value == 2


def test_a_time_that_is_not_known_is_no_smaller_sum() -> None:
    rows = [each if each["repair_try"] is None else each | {"decode_ms": None} for each in repairs()]
    found = named(repair_metrics(rows, datasets=["d"]))
    assert (found["d.repair.seconds"].value, found["d.repair.seconds"].n) == (0.25, 1)


def test_the_lines_say_what_helps_and_what_it_costs() -> None:
    rows = blocks(1000, 1000, 1000, 2000)
    for each in rows:
        if each["arm"] == "free":
            each |= {"output": "no", "valid": False}
    metrics = guiding_metrics(rows, arms=ARMS, guides={"d": "json_schema"})
    told = [
        {name: getattr(each, name) for name in ("name", "arm", "value", "lo", "hi", "n", "method", "details")}
        for each in metrics
    ]
    lines = {(line.dataset, line.figure): line for line in guiding_lines(told, datasets=["d"], short=True)}
    failures = lines["d", "parse failures"]
    assert (failures.arms, failures.before, failures.after) == ("guided − free", "100.0%", "0.0%")
    assert failures.change.startswith("-100.0% [-100.0%, -")
    cost = lines["all", "time per token, us"]
    assert (cost.arms, cost.before, cost.after) == ("guided − free_matched", "20,000", "21,250")
    assert cost.change.startswith("+1,250 [")
    assert lines["d", "tokens/s of an answer"].change.startswith("x 0.9")
    assert ("d", "not of the form") not in lines and ("d", "white space") not in lines


def test_mlflow_gets_a_few_of_them_and_never_fifty() -> None:
    metrics = [
        {
            "name": f"d{n}.guide.{name}",
            "arm": "guided",
            "value": 1.0,
            "cell_id": None,
            "scope": "dataset",
            "n_failed": 0,
        }
        for n in range(40)
        for name in ("parse_failures_reduction", "output_tokens", "mask_us_per_token")
    ]
    metrics.append(metrics[0] | {"name": "guide.mask_us_per_token", "scope": "run"})
    found = parent_metrics(metrics, engine=None)
    assert len(found) <= MAX_METRICS and not any("output_tokens" in name for name in found)
    assert any(name.startswith("d0.guide.parse_failures_reduction") for name in found)
