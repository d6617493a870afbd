"""Packages that add metrics, datasets and reasoning parsers: one that is really installed, and some that are broken."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from offline_files import ROOT, assay, cities, last_object, write_lines

from tasks.score.parsers import think_tags
from tasks.score.reasoning import parse_reasoning


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example package, installed by pip into a folder of its own, without a network."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(ROOT / "tests" / "plugins" / "example", folder / "source")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet"]
    target = ["--target", str(folder / "site"), str(folder / "source")]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, *target], check=True, capture_output=True)
    return folder / "site"


def declare(folder: Path, *, name: str, group: str, entry: str, module: str | None = None) -> Path:
    """A package as pip leaves it: one entry point, and a module `<name>_code` with the text of `module`."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")
    if module is not None:
        (folder / f"{name}_code.py").write_text(module)
    return folder


def test_the_installed_example_works(installed: Path, tmp_path: Path) -> None:
    answers = write_lines(
        tmp_path / "seas.jsonl",
        [
            {"id": "riga", "output": "Riga is in Latvia.\nThe baltic sea."},
            {"id": "odesa", "output": "Black Sea"},
            {"id": "bergen", "output": "Black Sea"},
            {"id": "split", "output": "Adriatic Sea, I think"},
        ],
    )
    home = tmp_path / "home"
    asked = ["--dataset", "seas", "--predictions", str(answers), "--reasoning-parser", "final_line"]
    said = last_object(assay("score", *asked, "--json", home=home, path=(installed,)))
    assert [(row["name"], row["value"], row["n"]) for row in said["metrics"]] == [("seas.ends_with", 0.5, 4)]
    again = assay("rescore", "last", "--dry-run", "--json", home=home, path=(installed,))
    assert [change["same"] for change in last_object(again)["changes"]] == [True]
    gone = assay("rescore", "last", home=home)
    assert gone.returncode == 2
    assert "ends_with: there is no such metric" in gone.stderr
    assert "is the plugin installed that brought it?" in gone.stderr


def test_the_lists_say_who_brings_what(installed: Path, tmp_path: Path) -> None:
    metrics = last_object(assay("metrics", "--json", home=tmp_path, path=(installed,)))["metrics"]
    sources = {row["name"]: row["source"] for row in metrics}
    assert sources["ends_with"] == "assay-example 0.1.0"
    assert sources["exact_match"] == "assay"
    described = next(row["description"] for row in metrics if row["name"] == "ends_with")
    assert described == "1 if the answer ends with the target, else 0."
    datasets = last_object(assay("datasets", "--json", home=tmp_path, path=(installed,)))["datasets"]
    paths = {row["name"]: row["path"] for row in datasets}
    assert Path(paths["seas"]).is_relative_to(installed)


def test_options_and_names_of_plugins_are_checked(installed: Path, tmp_path: Path) -> None:
    answers = write_lines(tmp_path / "seas.jsonl", [{"id": "riga", "output": "x"}])
    for arguments, said in (
        (["--dataset", "sea"], "in assay-example 0.1.0 (assay_example.datasets) (did you mean `seas`?)"),
        (["--dataset", "seas", "--metric", 'ends_with:{"ignore": 1}'], "did you mean ignore_case?"),
        (["--dataset", "seas", "--reasoning-parser", "final"], "did you mean `final_line`?"),
    ):
        done = assay("score", *arguments, "--predictions", str(answers), home=tmp_path, path=(installed,))
        assert done.returncode == 2
        assert said in done.stderr


def test_a_plugin_that_cannot_be_imported_costs_only_its_users(tmp_path: Path) -> None:
    site = declare(
        tmp_path / "site", name="broken", group="assay.metrics", entry="odd = broken_code:METRIC",
        module="raise RuntimeError('no licence')\n",
    )  # fmt: skip
    answers = write_lines(tmp_path / "out.jsonl", [{"id": "riga", "output": "Latvia"}])
    asked = ["score", "--dataset", str(cities(tmp_path)), "--predictions", str(answers), "--no-save", "--json"]
    assert last_object(assay(*asked, home=tmp_path, path=(site,)))["scored"] == 1
    done = assay(*asked, "--metric", "odd", home=tmp_path, path=(site,))
    assert done.returncode == 2
    assert "the plugin broken 1.0 (broken_code:METRIC) cannot be imported: RuntimeError: no licence" in done.stderr
    assert "Traceback" not in done.stderr
    listed = last_object(assay("metrics", "--json", home=tmp_path, path=(site,)))["metrics"]
    assert "no licence" in next(row["description"] for row in listed if row["name"] == "odd")


def test_a_name_that_is_there_twice_is_refused_with_both_places(tmp_path: Path) -> None:
    entry = "exact_match = other_code:METRIC"
    site = declare(tmp_path / "site", name="other", group="assay.metrics", entry=entry, module="METRIC = 1\n")
    answers = write_lines(tmp_path / "out.jsonl", [{"id": "riga", "output": "Latvia"}])
    done = assay(
        "score", "--dataset", str(cities(tmp_path)), "--predictions", str(answers), home=tmp_path, path=(site,)
    )
    assert done.returncode == 2
    assert "tasks/score/metrics/exact_match.py and in other 1.0 (other_code:METRIC)" in done.stderr


def test_what_is_no_metric_is_refused(tmp_path: Path) -> None:
    site = declare(
        tmp_path / "site", name="wrong", group="assay.metrics", entry="odd = wrong_code:METRIC", module="METRIC = 1\n"
    )
    code = (
        "from schemas.errors import ConfigError\nfrom tasks.score.registry import metric\n"
        "try:\n    metric('odd')\nexcept ConfigError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": f"{ROOT}:{site}"}, capture_output=True, text=True, check=True
    )
    assert "of the plugin wrong 1.0 (wrong_code:METRIC) cannot be used: it is of the type int" in done.stdout


def test_two_plugins_with_a_dataset_of_one_name(tmp_path: Path) -> None:
    site = tmp_path / "site"
    for name in ("one", "two"):
        declare(site, name=name, group="assay.datasets", entry=f"all = {name}_data")
        (site / f"{name}_data").mkdir()
        shutil.copy(cities(tmp_path), site / f"{name}_data" / "towns.yaml")
        shutil.copy(tmp_path / "cities.jsonl", site / f"{name}_data")
    answers = write_lines(tmp_path / "out.jsonl", [{"id": "riga", "output": "Latvia"}])
    asked = ["score", "--predictions", str(answers), "--no-save", "--json"]
    done = assay(*asked, "--dataset", "towns", home=tmp_path, path=(site,))
    assert done.returncode == 2
    assert "two plugins bring a dataset `towns`" in done.stderr
    assert str(site / "two_data" / "towns.yaml") in done.stderr
    chosen = assay(*asked, "--dataset", str(site / "two_data" / "towns.yaml"), home=tmp_path, path=(site,))
    assert json.loads(chosen.stdout)["scored"] == 1


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("<think>two and two</think>\n\n4", ("two and two", "4", True)),
        ("\n<think>\n</think>4", ("", "4", True)),
        ("two and two</think>4", ("two and two", "4", True)),
        ("<think>two and", ("two and", "", False)),
        ("4", (None, "4", True)),
        ("", (None, "", True)),
        ("<think>a</think>b</think>c", ("a", "b</think>c", True)),
        ("4 <think>no", (None, "4 <think>no", True)),
    ],
)
def test_think_tags(text: str, parts: tuple[str | None, str, bool]) -> None:
    assert parse_reasoning("think_tags", text) == parts == think_tags.parse(text)
