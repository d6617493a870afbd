"""`assay run` with several files: what is refused before anything starts."""

import json
from pathlib import Path

import pytest

from tests.e2e.command import assay


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a", "b", "--resume", "last"], "--resume goes on with one run, not with 2 files"),
        (["a", "b", "--compare", "--resume", "last"], "and --resume goes on with one run"),
        (["quickstart", "--compare"], "--compare takes two files, the candidate and the baseline, not 1"),
        (["a", "b", "c", "--compare"], "not 3"),
        (["a", "b", "--margin", "0.1", "--fail-on", "worse"], "--margin and --fail-on goes with --compare only"),
        (["a", "b", "--compare", "--markdown", "--json"], "--markdown and --json are two formats"),
        (["a", "b", "--compare", "--margin", "-1"], "a margin is 0 or more, not -1.0"),
        (["a", "b", "--compare", "--fail-on", "wrose"], "'wrose' is not one of 'worse', 'undecided'"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = assay("run", *arguments, home=tmp_path / "home", timeout_s=60)
    assert done.code == 2 and said in " ".join(done.stderr.split())
    assert not (tmp_path / "home").exists()


def test_what_is_wrong_with_any_file_is_said_of_all_and_none_runs(tmp_path: Path) -> None:
    asked = ["quickstart", "quickstrat", "--compare", "--set", "sampling.temprature=0", "--json"]
    done = assay("run", *asked, home=tmp_path / "home", timeout_s=60)
    assert done.code == 2
    assert "did you mean `temperature`?" in done.stderr and "did you mean `quickstart`?" in done.stderr
    assert done.stdout.count("\n") == 1
    found = json.loads(done.stdout)
    assert (found["runs"], found["comparison"], found["exit_code"]) == ([], None, 2)
    assert not list((tmp_path / "home").glob("runs/*"))
