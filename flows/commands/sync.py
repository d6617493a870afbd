"""`assay sync`: what MLflow missed is brought to it."""

import os
import time

from rich.console import Console
from rich.markup import escape

from flows.commands.output import print_json
from flows.runtime import assay_home, prepare_environment
from flows.servers import running_up
from tasks.record.tracking.store import tracking_uri
from tasks.record.tracking.sync import Synced, sync

_PATIENCE_S = "15"
"""For one answer of the server. A run waits less: it has better things to do."""


def sync_tracking(*, as_json: bool) -> int:
    """Replays every run that waits in the spool; 0 if none is left, 1 if one is, with the reason."""
    home = assay_home()
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", _PATIENCE_S)
    prepare_environment(home)
    up = running_up(home)
    if up is not None:
        for name, value in up.environment().items():
            os.environ.setdefault(name, value)
    console = Console(stderr=True, highlight=False)
    began = time.monotonic()
    with console.status("looking for runs that MLflow missed …") as status:

        def on_progress(done: int, of: int, run_id: str) -> None:
            line = f"{done + 1}/{of}  {escape(run_id)}"
            status.update(line)
            if not console.is_terminal:
                console.print(line)

        synced = sync(home, on_progress=on_progress)
    _say(console, synced, place=tracking_uri(home), seconds=time.monotonic() - began)
    code = 1 if synced.remaining else 0
    if as_json:
        remaining = [{"run_id": run_id, "reason": reason} for run_id, reason in synced.remaining.items()]
        print_json({"replayed": synced.replayed, "remaining": remaining, "exit_code": code})
    return code


def _say(console: Console, synced: Synced, *, place: str, seconds: float) -> None:
    if not synced.replayed and not synced.remaining:
        console.print("nothing waits: MLflow has every run")
        return
    console.print(f"{_runs(len(synced.replayed))} brought to {escape(place)} in {seconds:.1f} s", soft_wrap=True)
    for run_id, reason in synced.remaining.items():
        console.print(f"[yellow]![/yellow] {run_id} still waits: {escape(reason)}", soft_wrap=True)
    if synced.remaining:
        console.print(f"{_runs(len(synced.remaining))} left; `assay sync` again once MLflow answers, or start a run")


def _runs(n: int) -> str:
    return f"{n} run{'' if n == 1 else 's'}"
