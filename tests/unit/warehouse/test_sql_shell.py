"""The SQL shell: what Tab offers, where statements end, a pipe, and a terminal."""

import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from flows.commands.completion import SqlCompleter
from flows.commands.shell import COMMANDS
from tests.e2e.command import command, environment
from tests.unit.warehouse.cookbook_rows import fill
from warehouse.cookbook import COOKBOOK
from warehouse.parquet import write_rows
from warehouse.split import is_empty, split_statements
from warehouse.vocabulary import Vocabulary, load_vocabulary


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield fill(tmp_path_factory.mktemp("example"))


@pytest.fixture(scope="module")
def vocabulary(example: Path) -> Vocabulary:
    return load_vocabulary(example)


def offered(vocabulary: Vocabulary, text: str) -> dict[str, str]:
    """What is offered where `^` stands in the text, with what is said of it."""
    before, _, after = text.partition("^")
    document = Document(before + after, cursor_position=len(before))
    completer = SqlCompleter(lambda: vocabulary, commands=COMMANDS)
    return {each.text: each.display_meta_text for each in completer.get_completions(document, CompleteEvent())}


def test_relations_come_after_from_and_join(vocabulary: Vocabulary) -> None:
    found = offered(vocabulary, "SELECT * FROM ^")
    assert {"runs", "requests", "request_attempts", "leaderboard", "flips(", "trend("} <= found.keys()
    assert found["runs"].startswith("One row per run")
    assert list(offered(vocabulary, "FROM lea^")) == ["leaderboard"]
    assert list(offered(vocabulary, "from runs join guided^")) == ["guided_lift"]
    assert list(offered(vocabulary, "FROM runs, lat^")) == ["latency_by_bucket"]
    assert "runs" in offered(vocabulary, "DESCRIBE ru^")


def test_columns_are_those_of_the_tables_named_with_their_meaning(vocabulary: Vocabulary) -> None:
    found = offered(vocabulary, "SELECT ttf^ FROM requests")
    assert list(found)[:2] == ["ttft_ms", "ttft_text_ms"]
    assert found["ttft_ms"] == "requests: From sent, under an open load from planned, to the first token. Unit: ms."
    assert "ttft_p50_ms" in offered(vocabulary, "SELECT ttf^ FROM latency_by_bucket")
    assert "ttft_p50_ms" not in found
    assert list(offered(vocabulary, "SELECT r.git_c^ FROM runs AS r")) == ["git_commit"]
    assert list(offered(vocabulary, "SELECT runs.git_c^ FROM runs WHERE 1")) == ["git_commit"]
    assert offered(vocabulary, "SELECT x.git_c^ FROM runs AS r") == {}
    assert "started_at" in offered(vocabulary, "SELECT star^"), "before FROM is typed, every column is offered"


def test_keywords_functions_and_dot_commands(vocabulary: Vocabulary) -> None:
    assert "WHERE" in offered(vocabulary, "FROM runs WHE^")
    assert "where" in offered(vocabulary, "FROM runs whe^")
    found = offered(vocabulary, "SELECT quantile_c^ FROM requests")
    assert "quantile_cont(" in found
    assert list(offered(vocabulary, ".fo^")) == [".format"]
    assert list(offered(vocabulary, ".format mark^")) == ["markdown"]
    assert "requests" in offered(vocabulary, ".columns requ^")
    assert offered(vocabulary, "SELECT 'FROM ru^") == {}, "nothing inside a string"
    assert offered(vocabulary, "SELECT ^ FROM runs") == {}, "nothing before a letter is typed"


@pytest.mark.parametrize(
    ("text", "done", "rest"),
    [
        ("SELECT 1; SELECT 2", ["SELECT 1"], "SELECT 2"),
        ("SELECT ';' -- no; end\n, 2;", ["SELECT ';' -- no; end\n, 2"], ""),
        ('SELECT "a;b", $$ ; $$, $x$ ; $$ ; $x$ /* ; */ ;', ['SELECT "a;b", $$ ; $$, $x$ ; $$ ; $x$ /* ; */'], ""),
        ("SELECT 'it''s;'", [], "SELECT 'it''s;'"),
        ("SELECT 'open; ", [], "SELECT 'open;"),
        (" ; ;\n-- only\n;", [], ""),
        ("", [], ""),
    ],
)
def test_where_statements_end(text: str, done: list[str], rest: str) -> None:
    assert split_statements(text) == (done, rest)


def test_comments_are_nothing() -> None:
    assert is_empty(" -- a\n/* b */ ; ")
    assert not is_empty("-- a\nx")
    assert not is_empty("''")


def piped(home: Path, text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("sql", "--shell"),
        input=text,
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_pipe_is_read_to_its_end(example: Path, tmp_path: Path) -> None:
    out = tmp_path / "answer.csv"
    no = next(n for n, each in enumerate(COOKBOOK, 1) if "no run get right" in each.question)
    done = piped(
        example,
        "SELECT count(*) AS\n  n FROM runs; SELECT 'two';\n.format json\nSELECT 5 AS five;\n"
        f".out {out}\nSELECT 6 AS six;\n.format csv\nSELECT 7 AS seven;\n.run {no}\n.columns runs\n.tables\nSELECT 8",
    )
    assert done.returncode == 0, done.stderr
    assert '{"columns": ["five"], "rows": [{"five": 5}]}' in done.stdout
    assert out.read_text() == '{"columns": ["six"], "rows": [{"six": 6}]}\n'
    assert "seven\n7\n" in done.stdout.replace("\r", "")
    for words in ("two", "a-003", "git_commit", "Commit of the checkout", "leaderboard", "8"):
        assert words in done.stdout


def test_a_mistake_in_a_pipe_is_told_and_the_rest_runs(example: Path) -> None:
    done = piped(
        example, "SELECT nme FROM runs;\n.colums runs\nCOPY runs TO 'x';\nSELECT 'still here';\n.quit\nSELECT 'not';"
    )
    assert done.returncode == 2
    assert "did you mean `name`?" in done.stderr
    assert "there is no command .colums" in done.stderr
    assert "does more than read" in done.stderr
    assert "still here" in done.stdout
    assert "not" not in done.stdout


class Terminal:
    """The shell in a terminal of its own."""

    def __init__(self, home: Path) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            command("sql", "--shell"),
            env=environment(home, TERM="xterm", PROMPT_TOOLKIT_NO_CPR="1"),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - one thread
        )
        os.close(slave)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def wait_for(self, words: str, *, timeout_s: float = 60) -> None:
        """Reads on until the words come after what was waited for before."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            at = self.seen.find(words)
            if at >= 0:
                self.seen = self.seen[at + len(words) :]
                return
            if select.select([self._master], [], [], 0.1)[0]:
                try:
                    text = os.read(self._master, 65536).decode(errors="replace")
                except OSError:
                    break
                self.seen += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
        raise AssertionError(f"{words!r} did not come; the end was {self.seen[-2000:]!r}")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(20)
        os.close(self._master)


def test_a_terminal_has_a_prompt_that_outlives_ctrl_c(tmp_path: Path) -> None:
    home = fill(tmp_path / "home")
    terminal = Terminal(home)
    try:
        terminal.wait_for("assay>")
        terminal.type("SELECT 40 +\r")
        terminal.wait_for("...>")
        terminal.type("2 AS sum;\r")
        terminal.wait_for("1 row")
        terminal.type("SELECT count(*) AS n FROM ru\t")
        terminal.wait_for("ns")  # what Tab added to `ru`
        terminal.type(";\r")
        terminal.wait_for("1 row")
        # What comes in meanwhile is seen by the next question.
        write_rows(home=home, table="runs", run_id="meanwhile", rows=[{"name": "brand-new"}], part="p")
        terminal.type("SELECT name FROM runs WHERE run_id = 'meanwhile';\r")
        terminal.wait_for("brand-new")
        terminal.wait_for("1 row")
        terminal.type("SELECT count(*) FROM range(9_000_000_000) a, range(9_000_000) b WHERE a.range + b.range = -1;\r")
        time.sleep(3)
        # The terminal turns Ctrl-C into a signal for whoever is in front.
        os.killpg(terminal.process.pid, signal.SIGINT)
        terminal.wait_for("cancelled", timeout_s=20)
        terminal.type("SELECT 'alive';\r")
        terminal.wait_for("1 row")
        terminal.wait_for("assay>")  # a control key that comes before the prompt is the terminal's, not the prompt's
        terminal.type("half a question\x03")
        terminal.type("SELECT nme FROM runs;\r")
        terminal.wait_for("did you mean `name`?")
        terminal.wait_for("assay>")
        terminal.type("\x04")
        assert terminal.process.wait(20) == 0
    finally:
        terminal.close()
    history = home / "sql_history"
    assert "meanwhile" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0
