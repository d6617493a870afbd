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


def test_bars_leave_nothing_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    console = RunConsole()
    with console.progress(3):
        pass
    with console.counting(3, what="asking", unit="schemas") as update:
        update(2, "one refused")
    assert capsys.readouterr().err == ""


def test_nothing_that_an_error_says_does_either(tmp_path: Path) -> None:
    done = assay("import", "lm-eval-task", str(tmp_path / "\x1b[31mred\u202e.yaml"), home=tmp_path)
    assert (done.code, done.stdout) == (2, "")
    assert r"\x1b[31mred\u202e.yaml: no such file" in done.stderr
    assert not set(done.stderr) & set("\x1b\u202e")
