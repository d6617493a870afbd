"""`assay export --format vllm-bench`: measured cells as files that dashboards of vLLM's benchmark read."""

import json
from pathlib import Path

from flows.commands.output import print_json, stdout_console
from flows.runtime import assay_home
from schemas.cell_figures import Slo
from schemas.errors import ConfigError
from tasks.load.vllm_json import vllm_result
from tasks.record.open import stored_run
from warehouse.parquet import read_rows


def export_load(*, run_id: str, out: Path | None, as_json: bool) -> None:
    """Writes a file for each measured cell; prints their paths. Raises ConfigError for a run without any."""
    home = assay_home()
    run = stored_run(home, run_id)
    cells = [row for row in read_rows(home, "cells", run["run_id"], parse_json=True) if row["point_id"] is not None]
    if not cells:
        raise ConfigError.one(
            f"run {run['run_id']} measured no load", suggestion="assay bench FILE, or a block `benchmark` in its file"
        )
    folder = out or Path(f"{run['run_id']}-load")
    folder.mkdir(parents=True, exist_ok=True)
    [config] = [row["config"] for row in read_rows(home, "runs", run["run_id"], parse_json=True)]
    requests = read_rows(home, "requests", run["run_id"], parse_json=True)
    written = []
    for cell in sorted(cells, key=lambda row: int(row["order_index"])):
        found = vllm_result(
            cell,
            requests,
            model_id=config["model"]["name"],
            backend=config["engine"]["kind"],
            slo=Slo.model_validate(config["benchmark"]["slo"]),
        )
        path = folder / f"{cell['point_id']}-r{cell['repeat']}.json"
        path.write_text(json.dumps(found), encoding="utf-8")
        written.append(path)
    if as_json:
        print_json({"run_id": run["run_id"], "files": [str(path) for path in written]})
        return
    console = stdout_console()
    for path in written:
        console.print(str(path), markup=False, soft_wrap=True)
