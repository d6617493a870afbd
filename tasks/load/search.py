"""The search for a knee, cell by cell."""

from collections import Counter
from collections.abc import Callable, Sequence

from schemas.benchmark import OfflineLoad, SaturateLoad
from schemas.cell_figures import Slo
from schemas.metric import Aggregate
from schemas.points import Point, probe
from tasks.load.cell import CellRun
from tasks.load.knee import Knee, Probe, Search
from tasks.load.slo import meets

FIRST_GUESS = 64
"""Requests of the offline load whose rate the search begins at."""
LEAST_PROBED = 30
"""Requests of a probe: fewer say little of a share near 1."""

Measure = Callable[[Point, int], CellRun | None]
"""Measures one repeat of a point; None where its engine died."""


def find_knee(load: SaturateLoad, *, arm: str, measure: Measure, slo: Slo) -> Aggregate:
    """The metric `perf.knee_requests_per_s` of an arm, its probes among the details; without a value where no rate
    keeps the SLO. A probe whose engine died is asked again."""
    search = Search(
        start=load.start or _offline_rate(arm, measure), share=load.share, tolerance=load.tolerance, most=load.probes
    )
    probes: list[Probe] = []
    asked: Counter[str] = Counter()
    while (rate := search.next()) is not None:
        long_enough = load.model_copy(update={"seconds": max(load.seconds, LEAST_PROBED / rate)})
        point = probe(long_enough, arm=arm, rate=rate)
        run = measure(point, asked[point.point_id])
        asked[point.point_id] += 1
        if run is None:
            continue
        measured = [taken.measured for taken in run.measured]
        if not measured:
            break
        met = sum(meets(each, slo) for each in measured)
        probes.append(Probe(rate=rate, met=met, asked=len(measured)))
        search.took(probes[-1])
    return _metric(search.knee, probes, arm=arm, share=load.share)


def _offline_rate(arm: str, measure: Measure) -> float:
    """Requests a second that an offline load gets: a guess at the knee from above."""
    offline = OfflineLoad(kind="offline", requests=FIRST_GUESS)
    run = measure(Point(arm=arm, name="probe-offline", load=offline, is_probe=True), 0)
    answered = 0 if run is None else sum(taken.measured.answered for taken in run.measured)
    return 1.0 if run is None else max(1, answered) / max(1e-3, run.ended_at - run.began_at)


def _metric(knee: Knee, probes: Sequence[Probe], *, arm: str, share: float) -> Aggregate:
    return Aggregate(
        scope="run",
        name="perf.knee_requests_per_s",
        arm=arm,
        value=knee.rate,
        unit="requests/s",
        direction="higher",
        n=len(probes),
        n_failed=0,
        lo=knee.rate,
        hi=knee.above,
        method="bisection: the highest rate that keeps the SLO, and the lowest that breaks it",
        cell_id=f"{arm}-saturate",
        details={
            "share": share,
            "decided": knee.decided,
            "above": knee.above,
            "probes": [{"rate": each.rate, "met": each.met, "asked": each.asked} for each in probes],
        },
    )
