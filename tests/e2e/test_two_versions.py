"""One experiment on two releases of vLLM: who answered is told, and how many answers are other texts is counted."""

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.engine.installed import installed_vllm
from tests.e2e.command import Done, assay, rows
from tests.e2e.other_vllm import other_python
from tests.stores import used_before

pytestmark = pytest.mark.slow

EXPERIMENT = """\
name: versions
model: smollm2-135m-instruct
datasets: [{use: arithmetic, limit: 6, max_tokens: 24}, {use: extract, limit: 4, max_tokens: 60}]
arms: [free, guided]
sampling: {temperature: 0}
"""
ENGINE = """\
extends: vllm
python: PYTHON
allow_code: true
"""
OUTPUTS = """SELECT s.role, q.arm, q.dataset, q.request_id, q.output
FROM sweep_cells AS s INNER JOIN requests AS q ON q.run_id = s.cell_run_id
WHERE q.kind = 'generate'"""


@pytest.fixture(scope="module")
def versions() -> tuple[str, str]:
    """This environment's and the other one's."""
    own, other = installed_vllm(), installed_vllm(other_python())
    assert own is not None and other is not None and own.version != other.version
    return own.version, other.version


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> Path:
    python = other_python()
    folder = tmp_path_factory.mktemp("versions")
    used_before(folder / "home", model_dir)
    (folder / "versions.yaml").write_text(EXPERIMENT)
    (folder / "other.yaml").write_text(ENGINE.replace("PYTHON", python))
    return folder / "home"


@pytest.fixture(scope="module")
def done(home: Path) -> Done:
    given = ("--over", "engine=other", "--rounds", "1", "--set", "model.dtype=float32", "--json")
    return assay("ablate", "versions.yaml", *given, home=home, cwd=home.parent)


@pytest.fixture(scope="module")
def cells(done: Done) -> dict[str, dict[str, Any]]:
    """The run of each release, by its role."""
    assert done.code == 0, done.stderr
    return {each["cell"]["role"]: each for each in done.json["cells"]}


def test_both_finish_and_each_says_its_release(
    home: Path, cells: dict[str, dict[str, Any]], versions: tuple[str, str]
) -> None:
    assert {role: each["state"] for role, each in cells.items()} == {"control": "finished", "candidate": "finished"}
    engines = rows(home, "SELECT run_id, engine_version, dtype, downgrades FROM engines")
    found = {each["run_id"]: each for each in engines}
    asked = (cells["control"]["run_id"], cells["candidate"]["run_id"])
    assert tuple(found[run_id]["engine_version"] for run_id in asked) == versions
    assert {(each["dtype"], json.dumps(each["downgrades"])) for each in engines} == {("float32", "[]")}


def test_the_answers_that_are_other_texts_are_counted(home: Path, done: Done, cells: dict[str, dict[str, Any]]) -> None:
    assert cells["candidate"]["error"] is None
    [setting] = done.json["settings"]
    texts: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows(home, OUTPUTS):
        texts.setdefault((row["arm"], row["dataset"], row["request_id"]), {})[row["role"]] = row["output"]
    assert len(texts) == 20 and all(len(each) == 2 for each in texts.values())
    differ = [key for key, each in texts.items() if each["control"] != each["candidate"]]
    changed = setting["changed"]
    assert (changed["samples"], changed["changed"], changed["left_out"]) == (20, len(differ), 0)
    assert sum(changed["arms"][arm]["changed"] for arm in ("free", "guided")) == len(differ)
    # Greedy and in float32 the model writes the same; what a grammar leaves of white space is the release's own.
    assert {(arm, dataset) for arm, dataset, _ in differ} <= {("guided", "extract")}
    for key in differ:
        pairs = zip(texts[key]["control"], texts[key]["candidate"], strict=False)
        assert " " in next(pair for pair in pairs if pair[0] != pair[1]), "a blank is where they part"


def test_the_page_and_the_comparison_name_both_releases(
    home: Path, done: Done, cells: dict[str, dict[str, Any]], versions: tuple[str, str]
) -> None:
    page = Path(done.json["report"]).read_text("utf-8")
    assert f"{versions[0]} (as configured), {versions[1]} (engine=other)" in page
    told = assay(
        "compare", cells["candidate"]["run_id"], cells["control"]["run_id"], "--json", home=home, cwd=home.parent
    )
    assert told.code == 0, told.stderr
    differs = {each["what"]: (each["candidate"], each["baseline"]) for each in told.json["differences"]}
    assert differs["vLLM"] == versions[::-1]
    assert {"engine.python", "engine.allow_code"} <= set(differs)
    report = (home / "runs" / cells["candidate"]["run_id"] / "report.html").read_text("utf-8")
    assert versions[1] in report
