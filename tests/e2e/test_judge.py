"""A judge that assay runs itself: a whole run with it, and going on after the judge's rows were there already.

SmolLM2 is a poor judge: what is looked at is the form of what it says, not whether it is right."""

import datetime
import json
from pathlib import Path

import pytest

from tasks.predictions.rescore import rescore
from tests.e2e.command import assay, rows
from warehouse.parquet import read_rows, write_rows

pytestmark = pytest.mark.engine

CITIES = (("riga", "Latvia"), ("oslo", "Norway"), ("bern", "Switzerland"))


def experiment(folder: Path) -> Path:
    (folder / "cities.jsonl").write_text(
        "".join(json.dumps({"id": city, "city": city, "land": land}) + "\n" for city, land in CITIES)
    )
    (folder / "cities.yaml").write_text(
        "source: {kind: jsonl, path: cities.jsonl}\nid_field: id\n"
        'prompt: {messages: [{role: user, content: "In which country lies {{ city }}?"}]}\n'
        'target: "{{ land }}"\nmax_tokens: 8\nmetrics:\n'
        "  - use: judge\n    options: {model: smollm2-135m-instruct, reasoning: false, max_tokens: 24}\n"
        "  - use: judge\n    as: style\n"
        "    options: {model: smollm2-135m-instruct, scale: {min: 1, max: 5}, max_tokens: 48, reason_chars: 20}\n"
        "  - contains\n"
    )
    path = folder / "judged.yaml"
    path.write_text(
        "name: judged\nmodel: smollm2-135m-instruct\ndatasets: [cities]\nsampling: {temperature: 0}\nmax_failed: 0\n"
    )
    return path


def test_a_run_is_judged_by_an_own_engine_and_no_answer_twice(home: Path, tmp_path: Path) -> None:
    done = assay("run", str(experiment(tmp_path)), "--json", home=home)
    assert done.code == 0, done.stderr
    run_id = str(done.json["run_id"])
    found = read_rows(home, "judgements", run_id)
    assert len(found) == 2 * len(CITIES)
    assert {row["status"] for row in found} <= {"ok", "truncated", "invalid"}
    assert any(row["status"] == "ok" for row in found if row["metric"] == "judge")
    for row in found:
        facts = json.loads(row["judge"])
        assert facts["kind"] == "model" and len(facts["fingerprint"]) == 64 and facts["vllm"]
        assert row["output"] and row["prompt_tokens"] > 50 and row["judge_ms"] > 0 and len(row["judge_key"]) == 64
        scale = {"CORRECT", "INCORRECT"} if row["metric"] == "judge" else set("12345")
        assert (row["verdict"] in scale) == (row["status"] == "ok") and (row["verdict"] is None) != (
            row["status"] == "ok"
        )
    scores = rows(home, "SELECT metric, value, reason FROM scores WHERE metric <> 'contains' ORDER BY ALL")
    assert len(scores) == 2 * len(CITIES)
    assert sum(row["value"] is not None for row in scores) == sum(row["status"] == "ok" for row in found)
    assert all(row["reason"] for row in scores if row["value"] is None)
    assert (home / "runs" / run_id / "judge-engine.log").stat().st_size > 0
    assert "6 answers" in done.stderr

    # As if all but one had been judged before: only that one is asked about, and then none, without an engine.
    lost = next(row for row in found if row["metric"] == "judge")
    kept = {name: value for name, value in lost.items() if name not in ("run_id", "revision")} | {"status": "error"}
    write_rows(home=home, table="judgements", run_id=run_id, rows=[kept], part="late", revision=lost["revision"] + 1)
    log = home / "judge-engine.log"
    before = datetime.datetime.now(datetime.UTC)
    again = rescore(home, run_id)
    judged = read_rows(home, "judgements", run_id)
    assert [row["request_id"] for row in judged if row["judged_at"] > before] == [lost["request_id"]]
    new = next(row for row in judged if row["judged_at"] > before)
    assert {name: new[name] for name in ("judge_key", "judge_id", "prompt", "status")} == {
        name: lost[name] for name in ("judge_key", "judge_id", "prompt", "status")
    }
    assert len(judged) == len(found) and len(again.scores) == 3 * len(CITIES)
    size = log.stat().st_size
    rescore(home, run_id)
    assert log.stat().st_size == size > 0
