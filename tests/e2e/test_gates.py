"""A release gate on the real engine: the first run is green, a worse prompt is caught, and whoever asks is told."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.e2e.command import Done, assay, rows
from tests.stores import used_before

pytestmark = pytest.mark.engine

WORDS = (
    *("apple", "river", "window", "garden", "yellow", "dinner", "market", "castle", "silver", "butter", "planet"),
    *("summer", "winter", "forest", "pencil", "bottle", "button", "candle", "desert", "engine", "father", "guitar"),
    *("hammer", "island"),
)
DATASET = """\
source: {kind: jsonl, path: words.jsonl}
id_field: id
prompt: {messages: [{role: user, content: "%s"}]}
target: "{{ word }}"
metrics: [contains]
max_tokens: 8
"""
ECHO = "Repeat this word and nothing else: {{ word }}"
WORSE = "Name any country and nothing else."
EXPERIMENT = """\
name: release-gate
model: smollm2-135m-instruct
datasets: [words.yaml]
gates:
  - {metric: words.contains, rule: not_worse, margin: 0.1, against: last_green}
  - {metric: words.contains, rule: not_worse, margin: 0.3, against: "baseline:main"}
  - {metric: words.contains, rule: at_least, value: 0.3}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> Path:
    folder = tmp_path_factory.mktemp("gates") / "home"
    used_before(folder, model_dir)
    return folder


@pytest.fixture(scope="module")
def folder(home: Path) -> Path:
    folder = home.parent / "configs"
    folder.mkdir()
    lines = [json.dumps({"id": word, "word": word}) for word in WORDS]
    (folder / "words.jsonl").write_text("\n".join(lines), "utf-8")
    (folder / "words.yaml").write_text(DATASET % ECHO, "utf-8")
    (folder / "release-gate.yaml").write_text(EXPERIMENT, "utf-8")
    return folder


@pytest.fixture(scope="module")
def refused(home: Path, folder: Path) -> Done:
    return assay("run", "release-gate.yaml", home=home, cwd=folder)


@pytest.fixture(scope="module")
def green(home: Path, folder: Path, refused: Done) -> Iterator[Done]:
    """The first night: nothing is pinned yet, so only the gate against a number is there."""
    only = "gates=[{metric: words.contains, rule: at_least, value: 0.3}]"
    yield assay("run", "release-gate.yaml", "--set", only, "--json", home=home, cwd=folder)


@pytest.fixture(scope="module")
def worse(home: Path, folder: Path, green: Done) -> Iterator[Done]:
    """Another night, with a worse prompt, against the first one."""
    assert green.code == 0, green.stderr
    promoted = assay("promote", "last", "--as", "baseline:main", home=home, cwd=folder)
    assert promoted.code == 0, promoted.stderr
    (folder / "words.yaml").write_text(DATASET % WORSE, "utf-8")
    yield assay("run", "release-gate.yaml", "--json", home=home, cwd=folder)


def test_a_baseline_that_is_not_there_is_refused_before_the_engine_starts(refused: Done) -> None:
    assert refused.code == 2
    line = "release-gate.yaml:6: gates[1].against: there is no baseline:main"
    assert line in refused.stderr and "assay promote RUN --as baseline:main makes one" in refused.stderr
    assert "build engine" not in refused.stderr


def test_the_first_night_is_green(green: Done, home: Path) -> None:
    assert green.code == 0, green.stderr
    assert [gate["verdict"] for gate in green.json["gates"]] == ["passed"]
    assert re.search(r"passed +words.contains +free +at least 0.3", green.stderr)


def test_a_worse_prompt_is_caught(worse: Done, green: Done, home: Path) -> None:
    assert worse.code == 3, worse.stderr
    result = worse.json
    assert (result["status"], result["exit_code"]) == ("finished", 3)
    assert [gate["verdict"] for gate in result["gates"]] == ["failed"] * 3
    assert {gate["baseline_run_id"] for gate in result["gates"]} == {green.json["run_id"], None}
    assert "3 of 3 gate checks failed: words.contains (free)" in worse.stderr
    found = rows(home, "SELECT gate, verdict, effect, hi FROM gates WHERE effect IS NOT NULL ORDER BY gate")
    assert [row["verdict"] for row in found] == ["failed", "failed"] and all(row["hi"] < -0.3 for row in found)
    assert rows(home, "SELECT run_id FROM regressions") == [{"run_id": result["run_id"]}]


def test_resuming_it_does_nothing_and_fails_as_it_did(worse: Done, home: Path) -> None:
    again = assay("run", "--resume", worse.json["run_id"], "--json", home=home)
    assert (again.code, again.json["exit_code"]) == (3, 3), again.stderr
    assert "3 of 3 gate checks failed" in again.stderr and "nothing is left to do" in again.stderr


def test_a_pull_request_and_a_ci_system_are_told(worse: Done) -> None:
    folder = Path(worse.json["report"]).parent
    markdown = (folder / "gates.md").read_text("utf-8")
    assert markdown.startswith("## ❌ Gates failed") and "samples that changed" in markdown
    suite = ET.parse(folder / "gates.xml").getroot().find("testsuite")
    assert suite is not None and (suite.get("tests"), suite.get("failures")) == ("3", "3")
    assert "samples lost" in str(suite.findtext("testcase/failure"))
    report = (folder / "report.html").read_text("utf-8")
    assert '<section id="gates"' in report and "The gated metrics over the runs" in report
    section = report.split('<section id="gates"')[1].split("</section>")[0]
    assert 'class="said"' in section and "no answer" not in section
    assert (folder / "figures" / "gates.png").stat().st_size > 5_000
    assert len(list(folder.glob("compare-*.html"))) == 1


def test_mlflow_has_the_verdict(worse: Done, home: Path) -> None:
    from mlflow.tracking import MlflowClient

    from tasks.record.mlflow_run import tracking_uri

    client = MlflowClient(tracking_uri(home))
    run_id = worse.json["mlflow_run_id"]
    assert client.get_run(run_id).data.tags["assay.gates"] == "failed"
    assert {"gates.md", "gates.xml"} <= {each.path for each in client.list_artifacts(run_id)}


def test_the_gates_are_judged_again_without_an_engine(worse: Done, home: Path, tmp_path: Path) -> None:
    again = assay("gate", "last", "--json", "--junit", str(tmp_path / "gates.xml"), home=home, timeout_s=60)
    assert again.code == 3, again.stderr
    before = [gate["verdict"] for gate in worse.json["gates"]]
    assert [gate["verdict"] for gate in again.json["gates"]] == before and again.json["saved"] is True
    assert (tmp_path / "gates.xml").stat().st_size > 500
    assert assay("gate", "baseline:main", home=home, timeout_s=60).code == 0
