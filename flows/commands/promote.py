"""`assay promote`: pinned baselines."""

import os
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flows.commands.output import print_json, stdout_console, visible
from flows.runtime import assay_home, prepare_environment
from flows.servers import running_up
from tasks.compare.names import BASELINE, find_run
from tasks.compare.promote import baseline_name, baselines, demote, promote, tell_mlflow


def promote_run(*, given: str, name: str, as_json: bool) -> None:
    """Gives a run the name `baseline:NAME`. Raises ConfigError for an unknown or unfinished run, or another form."""
    home = assay_home()
    chosen = baseline_name(name)
    run_id = find_run(home, given).run_id
    moved = promote(home, run_id, name=chosen)
    waiting = tell_tracking([run_id, *moved.lost])
    if as_json:
        print_json(
            {"run_id": run_id, "baseline": chosen, "taken_from": list(moved.lost), "mlflow_waits": waiting}
            | {"changed": moved.changed}
        )
        return
    before = f", which {', '.join(moved.lost)} was before" if moved.lost else ""
    verb = "is now" if moved.changed else "is already"
    stdout_console().print(f"{run_id} {verb} {BASELINE}{chosen}{before}", markup=False, soft_wrap=True)


def demote_run(*, given: str, name: str | None, as_json: bool) -> None:
    """Takes the name, or every name, from a run; raises ConfigError where it has none."""
    home = assay_home()
    chosen = None if name is None else baseline_name(name)
    run_id = find_run(home, given).run_id
    demote(home, run_id, name=chosen)
    waiting = tell_tracking([run_id])
    if as_json:
        print_json({"run_id": run_id, "removed": chosen, "mlflow_waits": waiting})
        return
    said = "is no baseline any more" if chosen is None else f"is no longer {BASELINE}{chosen}"
    stdout_console().print(f"{run_id} {said}", markup=False, soft_wrap=True)


def list_baselines(*, as_json: bool) -> None:
    """The baselines, by name."""
    found = baselines(assay_home())
    if as_json:
        print_json({"baselines": [each._asdict() for each in found]})
        return
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0))
    for head in ("baseline", "run", "experiment", "started (UTC)"):
        table.add_column(head, overflow="fold")
    for each in found:
        table.add_row(
            escape(f"{BASELINE}{visible(each.name)}"),
            escape(each.run_id),
            escape(visible(each.experiment)),
            "–" if each.started_at is None else f"{each.started_at:%Y-%m-%d %H:%M:%S}",
        )
    stdout_console().print(table if found else "no baselines; make one with: assay promote last --as baseline:main")


def tell_tracking(run_ids: Sequence[str]) -> dict[str, str]:
    """Brings the tags to MLflow. It being down is a warning: the warehouse has them."""
    home = assay_home()
    prepare_environment(home)
    up = running_up(home)
    if up is not None:
        for name, value in up.environment().items():
            os.environ.setdefault(name, value)
    waiting = tell_mlflow(home, run_ids)
    console = Console(stderr=True, highlight=False)
    for run_id, reason in waiting.items():
        said = f"MLflow has not got the tag of {run_id} yet ({visible(reason)}); `assay sync` brings it"
        console.print(f"! {said}", markup=False, soft_wrap=True)
    return waiting
