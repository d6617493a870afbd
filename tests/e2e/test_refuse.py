"""What is wrong with the input is said at once, with its place, by the real command; nothing is started for it."""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import ROOT, Done, assay, rows
from tests.e2e.examples import INVALID
from tests.faults.processes import marked, wait_until_gone

IN_THE_FLOW = "prompt-too-long"
"""The one example that needs the model's tokenizer, so that the run itself finds it."""

CASES = sorted(path.parent.name for path in INVALID.glob("*/experiment.yaml"))


def expected(case: str) -> str:
    folder = INVALID / case
    file = folder / "expected.txt" if folder.is_dir() else INVALID / f"{case}.expected.txt"
    return file.read_text(encoding="utf-8")


# ---------------------------------------------------------------- the messages, word for word


@pytest.fixture(scope="module")
def examples() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.e2e.examples"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("case", [case for case in CASES if case != IN_THE_FLOW])
def test_an_example_with_bad_data_is_refused_with_its_message(case: str, examples: dict[str, Any]) -> None:
    assert examples["said"][case] == expected(case)


def test_a_prompt_that_is_too_long_passes_the_checks_that_need_no_model(examples: dict[str, Any]) -> None:
    assert examples["said"][IN_THE_FLOW] is None


def test_nothing_heavy_is_imported_to_say_so(examples: dict[str, Any]) -> None:
    assert examples["imported"] == []


# ---------------------------------------------------------------- the command


@pytest.fixture
def empty_home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def processor_s() -> float:
    """Seconds of processor time of all commands so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def refused(*arguments: str, home: Path, cwd: Path = ROOT) -> Done:
    """Runs a command that must be refused within three seconds, with a message and without a trace in `home`."""
    used, began = processor_s(), time.monotonic()
    done = assay(*arguments, home=home, cwd=cwd, timeout_s=60)
    took, used = time.monotonic() - began, processor_s() - used
    assert done.code == 2, (done.stdout, done.stderr)
    assert used <= 3, used
    if os.getloadavg()[0] < (os.cpu_count() or 1):  # else it waits for others
        assert took <= 3, took
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert marked(f"ASSAY_HOME={home}") == []
    for trace in ("runs", "tables", "prefect", "mlflow.db"):
        assert not (home / trace).exists(), trace
    return done


@pytest.mark.parametrize(
    "case",
    [
        "unknown-key-top",
        "unknown-dataset",
        "data-broken-line",
        "data-duplicate-ids",
        "data-undefined-field",
        "model-without-weights",
    ],
)
def test_a_bad_experiment_is_refused_before_anything_starts(case: str, empty_home: Path) -> None:
    folder = INVALID / case
    file, cwd = ("experiment.yaml", folder) if folder.is_dir() else (f"{case}.yaml", INVALID)
    assert refused("run", file, home=empty_home, cwd=cwd).stderr == f"error: {expected(case)}"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--set", "engine.prefil.policy=off"], "--set engine.prefil: is not a known key (did you mean `prefill`?)"),
        (["--set", "datasets.arithmetc.limit=4"], "did you mean `arithmetic`?"),
        (["--max-time", "soon"], "--max-time soon is no duration (write 90s, 15m or 2h)"),
        (["--limit", "0"], "--limit"),
        (["--resume", "20200101T000000-none"], "there is no run 20200101T000000-none"),
        (["--resum", "last"], "--resume"),
    ],
)
def test_bad_usage_is_refused_before_anything_starts(arguments: list[str], says: str, empty_home: Path) -> None:
    done = refused("run", "quickstart", *arguments, home=empty_home)
    # An option that does not exist is told in a box, whose lines break anywhere.
    assert says in done.stderr or says in " ".join(done.stderr.replace("│", " ").split())


def test_an_unknown_experiment_names_the_nearest(empty_home: Path) -> None:
    assert "did you mean `quickstart`?" in refused("run", "quickstrat", home=empty_home).stderr


def test_validate_says_the_same_as_run(empty_home: Path) -> None:
    folder = INVALID / "model-without-weights"
    done = assay("validate", "experiment.yaml", home=empty_home, cwd=folder, timeout_s=60)
    assert (done.code, done.stderr) == (2, expected("model-without-weights"))
    told = assay("validate", "experiment.yaml", "--json", home=empty_home, cwd=folder, timeout_s=60)
    assert told.code == 2 and told.json["ok"] is False
    assert {(problem["file"], problem["line"], problem["key"]) for problem in told.json["problems"]} == {
        ("experiment.yaml", 2, "model")
    }


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("COPY (SELECT 1) TO '{out}'", "does more than read"),
        ("SELECT 1; COPY (SELECT 1) TO '{out}'", "2 statements"),
        ("WITH x AS (COPY (SELECT 1) TO '{out}') FROM x", "COPY inside a SELECT"),
        ("FROM read_csv('{secret}')", "read_csv is not allowed"),
        ("SELECT * FROM '{secret}'", "secret.csv"),
        ("SELECT * FROM read_parquet('{secret}')", "secret.csv"),
        ("ATTACH '{out}' AS other", "does more than read"),
    ],
)
def test_sql_that_does_more_than_read_the_warehouse_is_refused(sql: str, says: str, tmp_path: Path) -> None:
    home, out, secret = tmp_path / "home", tmp_path / "out.csv", tmp_path / "secret.csv"
    secret.write_text("word\nabracadabra\n")
    done = assay("sql", sql.format(out=out, secret=secret), home=home, timeout_s=60)
    assert done.code == 2, (done.stdout, done.stderr)
    assert done.stderr.startswith("error: sql: ") and says in done.stderr
    assert "Traceback" not in done.stderr and "abracadabra" not in done.stdout + done.stderr
    assert not out.exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root can mount a small file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_without_room_is_refused_before_anything_starts(small_disk: Path) -> None:
    done = refused("run", "quickstart", home=small_disk / "home")
    assert f"the disk under {small_disk / 'home'} has 1 MB free, a run needs 537 MB (make room" in done.stderr


@pytest.mark.engine
def test_a_prompt_that_is_too_long_is_refused_with_the_list(home: Path) -> None:
    done = assay("run", "experiment.yaml", "--json", home=home, cwd=INVALID / IN_THE_FLOW, timeout_s=120)
    assert done.code == 2, done.stderr
    assert f"error: {expected(IN_THE_FLOW)}" in done.stderr
    assert "Traceback" not in done.stderr
    assert wait_until_gone(f"ASSAY_HOME={home}", timeout_s=10) == []
    run = rows(home, "SELECT status, error FROM runs")
    assert len(run) == 1 and run[0]["status"] == "failed"  # it had begun: the model was known, the engine not built
    assert "questions:long: 4,217 tokens" in run[0]["error"]
    assert rows(home, "SELECT count(*) AS n FROM engines")[0]["n"] == 0
