"""Keeping house: what runs left open, what MLflow missed, many small files, and, if asked, what is too old."""

import os
from pathlib import Path
from typing import Annotated

from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from pydantic import Field

from flows.context import this_flow_run
from flows.form import Shown
from flows.pileup import stand_for_the_others
from flows.reconcile import close_what_crashed
from flows.runtime import assay_home
from schemas.errors import AssayError
from tasks.record.step import try_artifact
from tasks.record.tracking.sync import sync
from warehouse.push import push
from warehouse.retention import Policy, plan_prune, prune
from warehouse.vacuum import vacuum

EVERYTHING, AFTER_A_CRASH = "everything", "after a crash"
_SYNC_S = 600.0
_DAY_S = 86_400.0


@flow(name="maintain", flow_run_name="maintain: {only}", persist_result=False)
def maintain(
    only: Annotated[str, Shown(lambda: {"enum": [EVERYTHING, AFTER_A_CRASH]})] = EVERYTHING,
    keep_days: Annotated[int, Field(ge=0)] = 0,
) -> None:
    """Close runs whose process is gone, send what MLflow missed, compact, rebuild the database file.

    Args:
        only: Everything, or only what must be done at once after a crash.
        keep_days: Delete runs that ended longer ago than this; baselines stay. 0: delete nothing.
    """
    stand_for_the_others(this_flow_run())
    home = assay_home()
    done = _close(home) + _sync(home)
    if only == EVERYTHING:
        if keep_days:
            done += _prune(home, keep_days=keep_days)
        done += _vacuum(home)
        done += _push(home)
    for line in done:
        get_run_logger().info("%s: %s", line["what"], line["result"])
    try_artifact(create_table_artifact, key="maintenance", table=done, description="what was done")


def _close(home: Path) -> list[dict[str, str]]:
    closed = close_what_crashed(home)
    ids = ", ".join(run.run_id for run in closed)
    return [{"what": "runs whose process was gone", "result": f"{len(closed)} closed as crashed {ids}".strip()}]


def _sync(home: Path) -> list[dict[str, str]]:
    synced = sync(home, within_s=_SYNC_S)
    left = "".join(f"; {run_id} waits: {reason}" for run_id, reason in synced.remaining.items())
    return [{"what": "runs that MLflow missed", "result": f"{len(synced.replayed)} sent{left}"}]


def _prune(home: Path, *, keep_days: int) -> list[dict[str, str]]:
    pruned = prune(home, plan_prune(home, Policy(older_than_s=keep_days * _DAY_S)))
    stayed = "".join(f"; {run_id} stayed: {reason}" for run_id, reason in pruned.stayed.items())
    result = f"{len(pruned.run_ids)} deleted, {pruned.bytes / 1e6:,.1f} MB{stayed}"
    return [{"what": f"runs older than {keep_days} days", "result": result}]


def _vacuum(home: Path) -> list[dict[str, str]]:
    freed = vacuum(home)
    return [
        {"what": "runs compacted", "result": str(len(freed.compacted))},
        {"what": "disk freed", "result": f"{freed.bytes / 1e6:,.1f} MB"},
    ]


def _push(home: Path) -> list[dict[str, str]]:
    url = os.environ.get("ASSAY_PUSH")
    if not url:
        return []
    try:
        pushed = push(home=home, url=url)
    except AssayError as error:
        return [{"what": f"copied to {url}", "result": f"not now: {error}"}]
    return [{"what": f"copied to {url}", "result": f"{pushed.uploaded} files, {pushed.uploaded_bytes / 1e6:,.1f} MB"}]
