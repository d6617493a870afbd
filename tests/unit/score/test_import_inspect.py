"""`assay import inspect`: logs that inspect_ai 0.3.285 wrote (tests/data/inspect), and what may be wrong with one."""

import gzip
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from offline_files import ROOT, assay, last_object

from schemas.errors import ConfigError
from tasks.compare.runs import compare_runs
from tasks.predictions.imported import Imported
from tasks.predictions.inspect_ai import read_inspect
from tasks.predictions.inspect_log import InspectLog
from tasks.predictions.inspect_scores import as_number
from tasks.predictions.record import DETAILS, record_import
from tasks.predictions.rescore import rescore, write_rescored
from warehouse.parquet import read_rows

LOGS = ROOT / "tests" / "data" / "inspect"


def requests(made: Imported) -> dict[tuple[str, int], dict[str, Any]]:
    return {(row["sample_id"], row["repeat"]): row for row in made.tables["requests"]}


def changed(folder: Path, change: Callable[[dict[str, Any]], None], *, file: str = "cities.json") -> Path:
    log = json.loads((LOGS / file).read_text())
    change(log)
    path = folder / file
    path.write_text(json.dumps(log))
    return path


def test_a_json_log_becomes_a_run(tmp_path: Path) -> None:
    home = tmp_path / "home"
    made = read_inspect(LOGS / "cities.json")
    assert made.warnings == []
    assert record_import(made, home=home)
    assert not record_import(read_inspect(LOGS / "cities.json"), home=home)
    [run] = read_rows(home, "runs", parse_json=True)
    assert (run["flow"], run["name"], run["status"], run["host"]) == ("import", "cities", "finished", None)
    assert run["config"]["model"]["name"] == "mockllm/model"
    assert run["packages"]["inspect_ai"] == "0.3.285"
    numbers = {row["name"]: (row["value"], row["n"], row["n_failed"]) for row in read_rows(home, "metrics")}
    assert numbers == {
        "cities.inspect.includes": (0.75, 4, 0),
        "cities.inspect.match": (0.625, 4, 0),
        "cities.inspect.style.chars": (10.125, 4, 0),
        "cities.inspect.style.polite": (0.75, 4, 0),
        "cities.inspect.unknown_number": (0.5, 3, 1),
    }
    results = run["config"]["inspect"]
    assert results["eval"]["dataset"]["sample_ids"] == ["riga", "oslo", "bern", "lima"]
    answers = {(row["sample_id"], row["repeat"]): row for row in read_rows(home, "requests", parse_json=True)}
    assert len(answers) == 8
    bern = answers["cities:bern", 1]
    assert (bern["output"], bern["status"], bern["finish_reason"]) == ("Germany", "truncated", "length")
    assert (bern["prompt_tokens"], bern["output_tokens"], bern["cached_tokens"]) == (12, 7, None)
    assert bern["sampling"] == {"temperature": 0.5, "max_tokens": 64}
    lima = answers["cities:lima", 1]
    assert (lima["status"], lima["error"], lima["output"]) == ("error", "RuntimeError('the tool is down')", None)
    samples = {row["sample_id"]: row for row in read_rows(home, "samples", parse_json=True)}
    assert [samples[f"cities:{city}"]["row_index"] for city in ("riga", "oslo", "bern", "lima")] == [0, 1, 2, 3]
    assert samples["cities:bern"]["target"] == ["Switzerland", "Schweiz"]
    assert samples["cities:oslo"]["prompt"] == "Answer with one word.\n\nIn which country lies Oslo?"
    assert [message["role"] for message in samples["cities:oslo"]["messages"]] == ["system", "user"]
    scores = {(row["sample_id"], row["repeat"], row["metric"]): row for row in read_rows(home, "scores")}
    nan = scores["cities:bern", 0, "inspect.unknown_number"]
    assert (nan["value"], nan["reason"]) == (None, "half of it")
    failed = scores["cities:lima", 1, "inspect.includes"]
    assert (failed["value"], failed["reason"]) == (None, "RuntimeError('the tool is down')")
    assert scores["cities:lima", 0, "inspect.style.polite"]["value"] == 0
    assert scores["cities:lima", 0, "inspect.match"]["extracted"] == "Is it Peru?"
    details = gzip.decompress((home / "runs" / made.run_id / DETAILS).read_bytes())
    lines = [json.loads(line) for line in details.splitlines()]
    assert lines[0]["total_time"] > 0 and lines[0]["uuid"]
    assert lines[-1]["header"]["results"]["completed_samples"] == 7


def test_an_eval_log_of_the_same_task_is_compared_with_it_and_rescored(tmp_path: Path) -> None:
    home = tmp_path / "home"
    ids = []
    for name in ("cities.json", "cities.eval"):
        made = read_inspect(LOGS / name)
        record_import(made, home=home)
        write_rescored(home, rescore(home, made.run_id, metrics=["contains"]))
        ids.append(made.run_id)
    first, second = ids
    [tagged] = read_rows(home, "runs", second)
    assert tagged["tags"] == {"second": "true"}
    compared = [result.comparison for result in compare_runs(home=home, candidate=second, baseline=first).results]
    effects = {line.metric: (line.baseline, line.candidate, line.n_pairs) for line in compared}
    assert effects["inspect.includes"] == (0.75, 1, 4)
    assert effects["contains"] == (0.625, 0.75, 4)
    assert not any(line.prompts_differ for line in compared)


def test_the_two_packings_of_a_zip_and_a_folder_are_read_alike(tmp_path: Path) -> None:
    packed = InspectLog(LOGS / "cities.eval")
    samples = dict(packed.samples())
    folder = tmp_path / "logs"
    folder.mkdir()
    with zipfile.ZipFile(folder / "2026-01-31T12-00-00-00-00_cities_x.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(packed.header))
        for name, sample in samples.items():
            archive.writestr(name, json.dumps(sample))
    one, two = read_inspect(LOGS / "cities.eval"), read_inspect(folder)
    assert one.tables["requests"] == two.tables["requests"] and one.metrics == two.metrics


def test_an_eval_that_was_broken_off_is_a_crashed_run(tmp_path: Path) -> None:
    packed = InspectLog(LOGS / "cities.eval")
    samples = dict(packed.samples())
    path = tmp_path / "cut.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "_journal/start.json", json.dumps({"version": 2, **{k: packed.header[k] for k in ("eval", "plan")}})
        )
        for name in list(samples)[:3]:
            archive.writestr(name, json.dumps(samples[name]))
    made = read_inspect(path)
    assert (made.status, made.error) == ("crashed", "Inspect says: started")
    assert "the eval did not finish" in made.warnings[0]
    assert {row.name: row.n for row in made.metrics}["cities.inspect.includes"] == 3


def test_a_multiple_choice_keeps_its_options_and_what_the_solver_asked() -> None:
    made = read_inspect(LOGS / "animals.eval", name="beasts")
    [first, _] = made.tables["samples"]
    assert (first["sample_id"], first["choices"], first["target"]) == ("beasts:1", ["a cat", "a dog", "a fish"], "B")
    assert first["input"]["input"] == "Which of these barks?"
    assert first["prompt"].endswith("A) a cat\nB) a dog\nC) a fish")


def test_limits_retries_attachments_reasoning_and_lone_surrogates(tmp_path: Path) -> None:
    def change(log: dict[str, Any]) -> None:
        by_id = {(sample["id"], sample["epoch"]): sample for sample in log["samples"]}
        riga = by_id["riga", 1]
        riga["input"] = riga["messages"][0]["content"] = "attachment://abc"
        riga["attachments"] = {"abc": "A long question \ud800"}
        riga["error_retries"] = [{"message": "timed out", "traceback": "", "traceback_ansi": ""}]
        message = riga["output"]["choices"][0]["message"]
        message["content"] = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "Latvia"}]
        by_id["oslo", 1]["limit"] = {"type": "token", "limit": 500}
        by_id["oslo", 1]["scores"]["includes"]["value"] = "maybe"
        by_id["oslo", 2]["model_usage"]["mockllm/model"] |= {"input_tokens_cache_read": 30, "reasoning_tokens": 2}
        by_id["oslo", 2]["model_usage"]["grader/model"] = {"input_tokens": 9, "output_tokens": 9}

    made = read_inspect(changed(tmp_path, change))
    answers = made.tables["requests"]
    riga = [row for row in answers if (row["sample_id"], row["repeat"]) == ("cities:riga", 0)]
    assert [(row["attempt"], row["status"], row["error"]) for row in riga] == [
        (0, "error", "timed out"),
        (1, "ok", None),
    ]
    assert riga[1]["reasoning"] == "hm"
    oslo = requests(made)["cities:oslo", 0]
    assert (oslo["status"], oslo["error"]) == ("truncated", "Inspect ended it: token limit of 500")
    again = requests(made)["cities:oslo", 1]
    assert (again["prompt_tokens"], again["cached_tokens"], again["reasoning_tokens"]) == (42, 30, 2)
    samples = {row["sample_id"]: row for row in made.tables["samples"]}
    assert samples["cities:riga"]["prompt"] == samples["cities:riga"]["input"]["input"] == "A long question \ufffd"
    assert any("1 values are no numbers, such as 'maybe'" in warning for warning in made.warnings)
    assert any("cities.inspect.includes: the results say 0.75, the mean of its samples is" in w for w in made.warnings)
    assert record_import(made, home=tmp_path / "home")


@pytest.mark.parametrize(
    ("value", "number"),
    [("C", 1), ("I", 0), ("P", 0.5), ("N", 0), (True, 1), ("Yes", 1), ("false", 0), ("2.5", 2.5), (float("nan"), None),
     ("nan", None), ("c", None), (None, None), (3, 3)],
)  # fmt: skip
def test_values_are_numbers_as_inspect_has_them(value: Any, number: float | None) -> None:
    assert as_number(value) == number


def broken(folder: Path, what: str) -> Path:
    if what == "no samples":
        return changed(folder, lambda log: log.pop("samples"))
    if what == "twice":
        return changed(folder, lambda log: log["samples"].append(log["samples"][0]))
    if what == "no epoch":
        return changed(folder, lambda log: log["samples"][0].pop("epoch"))
    path = folder / "log.eval"
    if what == "cut":
        path.write_bytes((LOGS / "cities.eval").read_bytes()[:4000])
    elif what == "flipped":
        content = bytearray((LOGS / "cities.eval").read_bytes())
        content[1500:1520] = bytes(20)
        path.write_bytes(content)
    elif what == "another zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.txt", "a")
    elif what == "unknown packing":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("header.json", "{}")
        content = path.read_bytes()
        for magic, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
            at = content.index(magic) + offset
            content = content[:at] + b"\x62\x00" + content[at + 2 :]
        path.write_bytes(content)
    elif what == "folder":
        return folder
    return path


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("no samples", "no samples in the log"),
        ("twice", "sample 'bern' is there twice in epoch 1"),
        ("no epoch", r"cities.json: line \d+: not as Inspect writes its logs: KeyError: 'epoch'"),
        ("cut", "breaks off or is damaged: the zip has no directory"),
        ("flipped", "breaks off or is damaged: .*json: "),
        ("another zip", "no log of Inspect: the zip has no header.json"),
        ("unknown packing", "packed in a way that cannot be read here.*inspect log convert"),
        ("folder", "no log of Inspect in it"),
        ("nothing", "there is no such file or folder"),
    ],
)
def test_what_is_no_log_says_so(tmp_path: Path, what: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_inspect(broken(tmp_path, what))


def test_a_large_log_is_read_sample_by_sample(tmp_path: Path) -> None:
    log = json.loads((LOGS / "cities.json").read_text())
    samples = log.pop("samples")
    path = tmp_path / "large.json"
    transcript = json.dumps([{"event": "model", "text": "x" * 1000}] * 1000)
    with path.open("w") as file:
        file.write(json.dumps(log)[:-1] + ', "samples": [')
        for number in range(60):
            sample = samples[number % 8] | {"id": f"s{number}", "epoch": 1, "error": None}
            file.write(("," if number else "") + json.dumps(sample)[:-1] + f', "events": {transcript}}}')
        file.write("]}")
    code = (
        "import sys; from pathlib import Path; from tasks.predictions.inspect_ai import read_inspect\n"
        "from tasks.record.host import peak_memory_bytes\n"
        "read_inspect(Path(sys.argv[2])); before = peak_memory_bytes()\n"
        "made = read_inspect(Path(sys.argv[1])); print(len(made.tables['samples']), peak_memory_bytes() - before)"
    )
    command = [sys.executable, "-c", code, str(path), str(LOGS / "cities.json")]
    read, grown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert int(read) == 60
    assert int(grown) < path.stat().st_size / 2


def test_the_command(tmp_path: Path) -> None:
    made = last_object(assay("import", "inspect", str(LOGS / "cities.eval"), "--as", "towns", "--json", home=tmp_path))
    assert made["imported"] and made["warnings"] == [] and made["mlflow_run_id"]
    assert {row["name"] for row in made["metrics"]} >= {"towns.inspect.includes"}
    refused = assay("import", "inspect", str(tmp_path / "no.eval"), home=tmp_path)
    assert refused.returncode == 2 and "there is no such file or folder" in refused.stderr
