"""`assay push`: the warehouse's Parquet tree to S3-compatible storage."""

import os
from dataclasses import asdict

from flows.commands.output import print_json, stdout_console
from flows.runtime import assay_home
from schemas.errors import ConfigError
from warehouse.push import push, push_run

VARIABLE = "ASSAY_PUSH"


def push_tables(*, url: str | None, run_id: str | None, as_json: bool) -> None:
    """Copies what is not there yet, and says how much that was. Raises ConfigError without a URL or for a wrong one,
    RunError where the server fails."""
    target = url or os.environ.get(VARIABLE)
    if not target:
        raise ConfigError.one("no address given", suggestion=f"write assay push s3://BUCKET/PREFIX, or set {VARIABLE}")
    home = assay_home()
    if run_id is not None and not any((home / "tables").glob(f"*/run={run_id}")):
        raise ConfigError.one(f"there is no run {run_id}", key="--run", suggestion="assay runs lists them")
    done = push(home=home, url=target) if run_id is None else push_run(home=home, run_id=run_id, url=target)
    if as_json:
        print_json({"url": target, **asdict(done)})
        return
    size = f"{done.uploaded_bytes / 1e6:,.1f} MB"
    stdout_console().print(
        f"{target}: {done.uploaded:,} files copied ({size}), {done.unchanged:,} were there, {done.removed:,} old ones"
        " removed",
        markup=False,
        soft_wrap=True,
    )
