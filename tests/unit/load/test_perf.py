"""The metrics of one cell."""

import pytest

from schemas.cell_figures import Slo
from tasks.load.measured import Measured
from tasks.load.perf import perf_metrics


def measured(sent: float, *, ttft: float, tokens: int, each: float) -> Measured:
    last = sent + ttft + each * (tokens - 1)
    return Measured(
        answered=True,
        sent_at=sent,
        first_token_at=sent + ttft,
        last_token_at=last,
        gaps_ms=[each * 1000] * (tokens - 1),
        gap_tokens=[1] * (tokens - 1),
        output_tokens=tokens,
    )


FOUR = [measured(float(n), ttft=0.1 * (n + 1), tokens=11, each=0.05) for n in range(4)]
BAD = Measured(answered=False, sent_at=1.0)


def test_percentiles_totals_and_failures() -> None:
    found = {each.name: each for each in perf_metrics([*FOUR, BAD], cell_id="c", arm="free", slo=Slo(ttft_ms=250))}
    assert found["perf.ttft_ms.p50"].value == pytest.approx(250)
    assert found["perf.ttft_ms.p99"].value == pytest.approx(397)  # 300 + 0.97 of the way to 400
    assert (found["perf.ttft_ms.p50"].n, found["perf.ttft_ms.p50"].n_failed) == (4, 1)
    assert found["perf.gap_ms.p50"].n == 40
    assert found["perf.tpot_ms.p90"].value == pytest.approx(50)
    assert found["perf.output_tokens_per_s"].value == pytest.approx(44 / 3.9)
    assert found["perf.failed_share"].value == pytest.approx(0.2)
    assert found["perf.goodput_share"].value == pytest.approx(0.4)
    assert all(each.cell_id == "c" and each.arm == "free" for each in found.values())
    assert not any("client_queue" in name or "ttft_text" in name for name in found)


def test_without_an_slo_there_is_no_goodput() -> None:
    assert not any("goodput" in each.name for each in perf_metrics(FOUR, cell_id="c", arm=None, slo=Slo()))


def test_all_failed_is_missing_and_not_0() -> None:
    found = {each.name: each.value for each in perf_metrics([BAD, BAD], cell_id="c", arm=None, slo=Slo(e2e_ms=1))}
    assert found == {
        "perf.output_tokens_per_s": None,
        "perf.requests_per_s": None,
        "perf.failed_share": 1.0,
        "perf.goodput_requests_per_s": None,
        "perf.goodput_share": 0.0,
    }
