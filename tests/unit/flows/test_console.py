"""What a run says on the terminal: text of a server, a model or a file is text there."""

from pathlib import Path

import pytest

from flows.console import RunConsole
from tests.e2e.command import assay

WILD = "a judge said \x1b[31m\x1b]0;title\x07 [red]no[/red]\nthen \u202eturned"


def test_nothing_that_a_run_says_moves_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    logged: list[str] = []
    console = RunConsole(log=logged.append)
    console.title(WILD)
    console.warn(WILD)
    console.note(WILD)
    console.lines([("run", WILD)])
    with console.step("judge") as said:
        said.append(WILD)
    shown = capsys.readouterr().err
    assert not set(shown) & set("\x1b\x07\u202e"), "they are shown as their escapes"
    for part in (r"\x1b[31m\x1b]0;title\x07 [red]no[/red]", r"then \u202eturned"):
        assert shown.count(part) == 5, part
    assert len(logged) == 4


def test_nothing_that_an_error_says_does_either(tmp_path: Path) -> None:
    done = assay("compare", "\x1b[31mred", "last", home=tmp_path)
    assert (done.code, done.stdout) == (2, "")
    assert "\x1b" not in done.stderr and "error: there are no runs" in done.stderr
    (tmp_path / "e.yaml").write_text("name: e\nmodel: m\ndatasets: [d]\n")
    refused = assay("plan", str(tmp_path / "e.yaml"), "--set", "engine.\x1b]0;title\x07=1", home=tmp_path)
    assert refused.code == 2 and "error: " in refused.stderr and not set(refused.stderr) & set("\x1b\x07")
