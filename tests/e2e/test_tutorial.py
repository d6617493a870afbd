"""The tutorial and the how-to pages do what they say: every command is typed, every line of output looked for."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flows.runtime import prefect_server, prepare_environment
from tests.e2e.command import ROOT
from tests.e2e.pages import File, Typed, as_pattern, missing, steps
from tests.stores import mlflow_store, with_model

DOCS = ROOT / "docs"
HOW_TO = [
    page for page in sorted((DOCS / "how-to").glob("*.md")) if any(isinstance(step, Typed) for step in steps(page))
]
"""The pages with a command that needs neither a browser nor a server nor another machine."""


def do(page: Path, *, folder: Path, home: Path, **more: str) -> list[Typed]:
    """Writes the page's files and types its commands, in a folder of its own."""
    assay = folder / "bin" / "assay"
    assay.parent.mkdir(parents=True)
    assay.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m flows.cli "$@"\n', "utf-8")
    assay.chmod(0o755)
    environment = os.environ | {
        "ASSAY_HOME": str(home),
        "PYTHONPATH": str(ROOT),
        "PATH": f"{assay.parent}{os.pathsep}{os.environ['PATH']}",
        **more,
    }
    done = []
    for step in steps(page):
        if isinstance(step, File):
            file = folder / step.name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(step.text, "utf-8")
            continue
        ended = subprocess.run(
            ["bash", "-c", step.command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        printed = ended.stdout + ended.stderr if step.refused else ended.stderr + ended.stdout
        assert ended.returncode == (2 if step.refused else 0), f"{step.command}\n{printed}"
        absent = missing(step.shown, printed)
        assert absent is None, f"{step.command}\ndid not print\n{absent}\nbut\n{printed}"
        done.append(step)
    return done


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.timeout(1800)
def test_the_tutorial(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        monkeypatch.setenv(name, os.environ[name])  # what the server's settings change is put back
    prepare_environment(home)
    with prefect_server(home) as prefect:
        prefect.wait()
        done = do(DOCS / "tutorial.md", folder=tmp_path / "clone", home=home, ASSAY_PREFECT_API_URL=prefect.url)
    runs = [step for step in done if step.command.startswith("assay run")]
    assert len(runs) == 4
    reports = list((home / "runs").glob("*/report.html"))
    assert len(reports) == 4 and all(report.stat().st_size > 50_000 for report in reports)


@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.stem)
def test_a_how_to_page(page: Path, tmp_path: Path, model_dir: Path) -> None:
    home = tmp_path / "home"
    with_model(home, model_dir)
    shutil.copy(mlflow_store(), home / "mlflow.db")
    assert do(page, folder=tmp_path / "clone", home=home)


def test_a_line_that_is_not_printed_is_missed() -> None:
    shown = ["tables   0.0% of 20  95.0% of 20", "run  20261128T012950-c986d1, finished, 40 requests, 34 s in all"]
    printed = (
        "tables 5.0% of 20  100.0% of 20\nrun       20270101T000000-abcdef, finished, 1,040 requests, 9.5 s in all\n"
    )
    assert missing(shown, printed) is None
    assert missing(shown[::-1], printed) == shown[0]
    assert missing(["tables   0.0% of 20"], printed) == "tables   0.0% of 20"
    assert missing(["run  …, failed, …"], printed) == "run  …, failed, …"


def test_verdicts_and_statuses_may_differ_and_names_may_not() -> None:
    line = "tables.json_valid   0.000 [0.000, 0.161]  0.950 [0.764, 0.991]  +0.950 [+0.636, +0.991]  better"
    assert missing([line], line.replace("better", "undecided").replace(" 0.950", " –")) is None
    assert missing([line], line.replace("json_valid", "json_fields")) == line
    generated = "✓ generate  19 ok, 21 truncated, 1,286 output tokens, 24 tokens/s  53.6 s"
    assert missing([generated], "✓ generate  1 error, 40 ok, 9 output tokens, 2 tokens/s  3 s") is None
    assert as_pattern("a (b)") == r"a \(b\)"
