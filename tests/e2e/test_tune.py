"""A tuning on the real engine, from the command line: killed, gone on with, confirmed, and its engine used."""

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import assay, rows, start
from tests.stores import used_before
from warehouse.parquet import read_rows

BASE = """\
name: small
model: smollm2-135m-instruct
engine: {extends: vllm, core: inprocess, compile: none}
datasets: [{use: arithmetic, limit: 4, max_tokens: 8}]
arms: [free]
"""
TUNING = """\
base: ./small.yaml
tune:
  trials: 4
  limit: 4
  first_share: 0.5
  confirm: {rounds: 2}
  space: {engine.max_num_seqs: [1, 2], engine.max_model_len: [16, 1024]}
"""


def cells(home: Path) -> list[dict[str, Any]]:
    return read_rows(home, "sweep_cells")


@pytest.mark.slow
@pytest.mark.engine
def test_a_tuning_is_killed_goes_on_and_gives_an_engine(tmp_path: Path, model_dir: Path) -> None:
    home = tmp_path / "home"
    used_before(home, model_dir)
    (tmp_path / "small.yaml").write_text(BASE)
    file = tmp_path / "tuning.yaml"
    file.write_text(TUNING)

    begun = start("tune", str(file), home=home)
    deadline = time.monotonic() + 120
    while not any(cell["cell_index"] == 0 and cell["state"] == "finished" for cell in cells(home)):
        assert time.monotonic() < deadline and begun.poll() is None, begun.communicate()[1]
        time.sleep(0.2)
    begun.send_signal(signal.SIGKILL)
    begun.wait(timeout=30)
    before = {
        (cell["cell_index"], cell["repeat"]): cell["cell_run_id"] for cell in cells(home) if cell["state"] == "finished"
    }

    done = assay("tune", "--resume", "last", "--json", home=home, timeout_s=500)
    assert done.code == 0, done.stderr
    told = done.json
    tuned = told["tuned"]
    after = {(cell["cell_index"], cell["repeat"]): cell for cell in cells(home)}
    assert all(after[key]["cell_run_id"] == run_id for key, run_id in before.items()), "nothing is run twice"
    assert [trial["reference"] for trial in tuned["trials"]][:2] == ["plan", "vllm"]

    trials = rows(home, "FROM trials ORDER BY trial")
    assert [row["state"] for row in trials] == [trial["state"] for trial in tuned["trials"]]
    for row, trial in zip(trials, tuned["trials"], strict=True):
        assert json.loads(row["settings"]) == trial["settings"]
        if trial["settings"].get("engine.max_model_len") == 16 and trial["state"] != "repeated":
            assert (trial["why"], trial["run_ids"]) == ("refused", []), "no prompt fits: known before anything starts"
        if trial["state"] == "measured":
            first, whole = (after[trial["number"], part] for part in (0, 1))
            assert first["engine_group"] == whole["engine_group"] is not None
            assert whole["built"] is False or (trial["number"], 0) in before, "both parts share an engine"
            assert row["value"] == pytest.approx(trial["figures"]["throughput.output_tokens_per_s"])
            [run] = rows(home, f"SELECT parent_run_id, tags FROM runs WHERE run_id = '{whole['cell_run_id']}'")
            assert run["parent_run_id"] == told["run_id"]

    winner = next(trial for trial in tuned["trials"] if trial["number"] == tuned["winner"])
    if winner["reference"] != "plan":
        sides = tuned["confirmation"]["sides"]
        assert [side["name"] for side in sides][:2] == ["winner", "plan"]
        assert all(value is not None for side in sides[:2] for value in side["values"])
    text = Path(told["engine_file"]).read_text("utf-8")
    assert tuned["answer"] in text and told["run_id"] in text
    planned = assay("plan", str(tmp_path / "small.yaml"), "--set", f"engine={told['engine_file']}", home=home)
    assert planned.code == 0, planned.stderr
    assert tuned["answer"].split(":")[0] in Path(told["report"]).read_text("utf-8")

    again = assay("tune", "--resume", "last", "--json", home=home)
    assert again.json["tuned"]["answer"] == tuned["answer"]
    assert len(cells(home)) == len(after)
