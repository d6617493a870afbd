"""Which request had how much of what a cell used: at each moment the requests that run share it equally.

That is an allocation and no measurement: a prompt that is read costs more than an answer's token, and both share alike.
It adds up to the whole, with what was used while nothing ran.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from schemas.sample import ANSWERED
from tasks.load.curves import Curve, total
from tasks.load.readings import Row, Window

Scores = Mapping[tuple[str, str, str], float]
"""A sample's score under its dataset's first metric, 0 to 1, by (dataset, sample_id, arm)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """by_request: of each request that ran in the window, by request_id. idle: of nobody."""

    by_request: dict[str, float]
    idle: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A cell's requests. others: those that ran with the measured ones and are not measured (cool-down). scored: each
    answer that has a score, with it; unscored: the answers without."""

    answered: list[Row]
    failed: list[Row]
    others: list[Row]
    scored: list[tuple[Row, float]]
    unscored: list[Row]


def counted(requests: Iterable[Row], *, cell_id: str, scores: Scores | None = None) -> Counted:
    """The requests of this cell among the rows of `requests`."""
    own = [row for row in requests if row["cell_id"] == cell_id]
    measured = [row for row in own if row["phase"] == "measure"]
    answered = [row for row in measured if row["status"] in ANSWERED]
    found = [(row, (scores or {}).get((row["dataset"], row["sample_id"], row["arm"]))) for row in answered]
    return Counted(
        answered=answered,
        failed=[row for row in measured if row["status"] not in ANSWERED],
        others=[row for row in own if row["phase"] != "measure"],
        scored=[(row, score) for row, score in found if score is not None],
        unscored=[row for row, score in found if score is None],
    )


def shared(curve: Curve, requests: Iterable[Row], window: Window) -> Shares:
    """Shares what was used over the window among the requests that ran in it.

    A request runs from when the engine began with it (where that is not known: from when it was sent) to its last
    token. One that came to no last token has no share; what it cost falls to those beside it, or to nobody."""
    spans = list(_spans(requests, window))
    begins = np.asarray([begin for _, begin, _ in spans], dtype=np.float64)
    ends = np.asarray([end for _, _, end in spans], dtype=np.float64)
    moments = np.unique(np.concatenate([[0.0, window.seconds], begins, ends]))
    used = np.diff(curve(moments))
    running = np.searchsorted(np.sort(begins), moments[:-1], side="right") - np.searchsorted(
        np.sort(ends), moments[:-1], side="right"
    )
    each = np.concatenate([[0.0], np.cumsum(np.where(running > 0, used / np.maximum(running, 1), 0.0))])
    shares = each[np.searchsorted(moments, ends)] - each[np.searchsorted(moments, begins)]
    by_request: dict[str, float] = {}
    for (request_id, _, _), share in zip(spans, shares, strict=True):
        by_request[request_id] = by_request.get(request_id, 0.0) + float(share)
    return Shares(by_request=by_request, idle=float(used[running == 0].sum()))


def without(curve: Curve, counted_: Counted, window: Window, *, left_out: Sequence[Row] = ()) -> float:
    """What the window used, less the shares of requests that are not measured, and of those left out. What was used
    while nothing ran, and what failed, stays in it."""
    whole = total(curve, window)
    if not counted_.others and not left_out:
        return whole
    everyone = [*counted_.answered, *counted_.failed, *counted_.others]
    by_request = shared(curve, everyone, window).by_request
    return whole - sum(by_request.get(row["request_id"], 0.0) for row in [*counted_.others, *left_out])


def _spans(requests: Iterable[Row], window: Window) -> Iterator[tuple[str, float, float]]:
    for row in requests:
        if row["sent_at"] is None or row["e2e_ms"] is None:
            continue
        sent = window.at(row["sent_at"])
        asked = sent if row.get("planned_at") is None else window.at(row["planned_at"])
        begin = max(0.0, sent + (row.get("queued_ms") or 0.0) / 1000)
        end = min(window.seconds, asked + row["e2e_ms"] / 1000)
        if end > begin:
            yield row["request_id"], begin, end
