"""`assay sql` and the commands that keep the warehouse, as users type them."""

import csv
import io
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from flows.commands.answers import markdown
from flows.commands.sql import run_query
from flows.commands.warehouse import parse_age, parse_size
from schemas.errors import ConfigError
from tests.e2e.command import assay, command, environment
from tests.unit.warehouse.cookbook_rows import CRASHED, MONDAY, TUESDAY, fill
from warehouse.cookbook import COOKBOOK
from warehouse.parquet import write_rows
from warehouse.query import Result

HOSTILE = "=cmd|' /C calc'!A0 \x1b[31mred\x1b[0m ![x](http://evil) <script>alert(1)</script> `|\n_a_ www.evil"

NEVER_RIGHT = str(next(n for n, each in enumerate(COOKBOOK, 1) if "no run get right" in each.question))


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = fill(tmp_path_factory.mktemp("example"))
    row = {
        "request_id": "h",
        "attempt": 0,
        "status": "ok",
        "output": HOSTILE,
        "output_token_ids": [1, 2],
        "arm": "free",
    }
    write_rows(home=home, table="requests", run_id="hostile", rows=[row], part="p")
    yield home


def test_an_answer_in_each_format(example: Path, tmp_path: Path) -> None:
    sql = "SELECT output, output_token_ids, valid FROM requests WHERE run_id = 'hostile'"
    table = assay("sql", sql, home=example)
    assert table.code == 0, table.stderr
    assert "\x1b" not in table.stdout
    told = json.loads(assay("sql", sql, "--format", "json", home=example).stdout)
    assert told["rows"] == [{"output": HOSTILE, "output_token_ids": [1, 2], "valid": None}]
    cells = list(csv.reader(io.StringIO(assay("sql", sql, "--format", "csv", home=example).stdout)))
    assert cells[0] == ["output", "output_token_ids", "valid"]
    assert cells[1][0].startswith("'=cmd")
    assert "\x1b" not in cells[1][0]
    for ending, start in ((".md", "| output |"), (".csv", "output,"), (".json", '{"columns"'), (".txt", "output")):
        out = tmp_path / f"answer{ending}"
        done = assay("sql", sql, "--out", str(out), home=example)
        assert (done.code, done.stdout) == (0, ""), done.stderr
        assert done.stderr.strip().endswith("1 row")
        assert out.read_text("utf-8").startswith(start)
    done = assay("sql", sql, "-o", str(tmp_path / "a.parquet"), home=example)
    assert done.code == 0, done.stderr
    assert pq.read_table(tmp_path / "a.parquet").to_pylist() == told["rows"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.parquet",
        "answer.csv",
        "answer.json",
        "answer.md",
        "answer.txt",
    ]


def test_markdown_holds_hostile_text_as_text() -> None:
    result = Result(columns=["a|b", "n"], types=["VARCHAR", "DOUBLE"], rows=[(HOSTILE, 0.123456789), (None, None)])
    lines = markdown(result).splitlines()
    assert len(lines) == 4
    assert lines[0] == r"| a\|b | n |"
    assert lines[1] == "| --- | ---: |"
    assert lines[3] == "| NULL | NULL |"
    assert lines[2].endswith("| 0.123457 |")
    for wrong in ("<script", "![x]", "http://", "\x1b", "www.", " _a_"):
        assert wrong not in lines[2], wrong
    assert r"!\[x\](http&#58;//evil)" in lines[2]
    assert lines[2].replace("\\|", "").count("|") == 3


def test_a_query_comes_from_a_file_from_stdin_or_from_the_cookbook(example: Path, tmp_path: Path) -> None:
    file = tmp_path / "q.sql"
    file.write_text("-- how many\nSELECT count(*) AS n\nFROM runs;\n", "utf-8-sig")
    assert json.loads(assay("sql", "-f", str(file), "--format", "json", home=example).stdout)["rows"] == [{"n": 3}]
    piped = subprocess.run(
        command("sql", "-", "--format", "json"),
        input=file.read_text("utf-8-sig"),
        env=environment(example),
        capture_output=True,
        text=True,
        check=False,
    )
    assert json.loads(piped.stdout)["rows"] == [{"n": 3}]
    listed = assay("sql", "--examples", home=example).stdout
    assert f"{len(COOKBOOK)}  {COOKBOOK[-1].question}" in listed
    assert "a-003" in assay("sql", "--example", NEVER_RIGHT, home=example).stdout


WRONG = [
    ({"text": "SELECT nme FROM runs"}, "line 1, column 8: Referenced column .* (did you mean `name`?)"),
    ({"text": "COPY runs TO 'x.csv'"}, "does more than read"),
    ({"text": "FROM runs", "format_": "xml"}, "--format xml is not known (use table"),
    ({"text": "FROM runs", "format_": "parquet"}, "add --out FILE.parquet"),
    ({"text": "FROM runs", "out": "."}, "cannot be written"),
    ({"text": "FROM runs", "out": "no/x.csv"}, "cannot be written"),
    ({"text": "FROM runs", "out": "no/x.parquet"}, "cannot be written"),
    ({"text": "FROM rns", "out": "x.parquet"}, "did you mean `runs`?"),
    ({"text": "FROM rns", "out": "x.csv"}, "did you mean `runs`?"),
    ({"file": "none.sql"}, "cannot be read"),
    ({"file": "latin.sql"}, "is no UTF-8 text"),
    ({"text": "FROM runs", "example": 1}, "give one question"),
    ({}, "give one question"),
    ({"example": 99}, "there are 1 to "),
]


@pytest.mark.parametrize(("given", "words"), WRONG)
def test_what_is_wrong_is_said_and_nothing_is_written(
    example: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: dict[str, Any],
    words: str,
) -> None:
    monkeypatch.setenv("ASSAY_HOME", str(example))
    (tmp_path / "latin.sql").write_bytes(b"SELECT '\xe4'")
    paths = {name: tmp_path / given[name] for name in ("file", "out") if name in given}
    nothing = dict.fromkeys(("text", "file", "example", "format_", "out", "limit"))
    with pytest.raises(ConfigError, match=re.escape(words).replace(r"\.\*", ".*")):
        run_query(**nothing | given | paths)
    assert capsys.readouterr().out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["latin.sql"]


def test_a_refused_query_ends_with_code_2(example: Path) -> None:
    done = assay("sql", "SELECT nme FROM runs", home=example)
    assert (done.code, done.stdout) == (2, "")
    assert "did you mean `name`?" in done.stderr


def test_ctrl_c_ends_a_query_at_once(example: Path) -> None:
    asked = subprocess.Popen(
        command(
            "sql", "SELECT count(*) FROM range(10_000_000_000) a, range(10_000_000) b WHERE a.range + b.range = -1"
        ),
        env=environment(example),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - one thread
    )
    time.sleep(4)
    asked.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, stderr = asked.communicate(timeout=30)
    assert asked.returncode == 130, stderr
    assert "cancelled" in stderr
    assert time.monotonic() - began < 10


def test_a_run_goes_from_one_home_to_another(example: Path, tmp_path: Path) -> None:
    out = tmp_path / "monday.zip"
    done = assay("export", MONDAY, "--out", str(out), "--json", home=example)
    assert done.code == 0, done.stderr
    assert done.json["bytes"] > 10_000
    again = assay("export", MONDAY, "--out", str(out), home=example)
    assert (again.code, "exists" in again.stderr) == (2, True)
    home = tmp_path / "home"
    done = assay("import", "warehouse", str(out), home=home)
    assert done.code == 0, done.stderr
    assert "imported" in done.stdout
    assert "gpu-1" in done.stdout
    row = {"scope": "run", "name": "x", "value": 1.0}
    write_rows(home=home, table="metrics", run_id=MONDAY, rows=[row], part="other")
    done = assay("import", "warehouse", str(example), "--json", home=home)
    assert done.code == 1
    assert {run["run_id"]: run["outcome"] for run in done.json["runs"]} == {
        MONDAY: "refused",
        TUESDAY: "imported",
        CRASHED: "imported",
        "hostile": "skipped",
    }
    assert assay("import", "warehouse", str(tmp_path / "none"), home=home).code == 2


def test_prune_says_first_and_does_it_with_yes(tmp_path: Path) -> None:
    home = fill(tmp_path / "home")
    dry = assay("prune", "--status", "crashed", home=home)
    assert dry.code == 0, dry.stderr
    assert "would go" in dry.stdout
    assert "it is finished" in dry.stdout
    assert "add --yes" in dry.stdout
    done = assay("prune", "--status", "crashed", "--yes", "--json", home=home)
    assert (done.code, [run["run_id"] for run in done.json["runs"] if run["gone"]]) == (0, [CRASHED])
    assert assay("runs", "--json", home=home).stdout.count("run_id") == 2
    freed = assay("vacuum", "--grace", "0s", "--json", home=home)
    assert freed.json["compacted"] == [MONDAY, TUESDAY]
    assert "came free" in assay("vacuum", home=home).stdout
    for arguments, words in (
        ([], "nothing says which runs"),
        (["--older-than", "soon"], "is no age"),
        (["--max-size", "a lot"], "is no size"),
        (["--tag", "=x"], "is no tag"),
    ):
        wrong = assay("prune", *arguments, home=home)
        assert (wrong.code, words in wrong.stderr) == (2, True), arguments


def test_ages_and_sizes() -> None:
    assert [parse_age(text) for text in ("0s", "1.5h", "90d", "2W")] == [0, 5_400, 7_776_000, 1_209_600]
    assert [parse_size(text) for text in ("10", "50GB", "1 gib", "1.5MB")] == [10, 50 * 10**9, 1 << 30, 1_500_000]
    for wrong in ("", "5", "-1d", "1y"):
        with pytest.raises(ConfigError):
            parse_age(wrong)
    for wrong in ("", "GB", "-1GB", "5 apples"):
        with pytest.raises(ConfigError):
            parse_size(wrong)


def test_help_comes_at_once_and_has_examples(example: Path) -> None:
    for words in (["sql"], ["export"], ["import", "warehouse"], ["prune"], ["vacuum"]):
        done = assay(*words, "--help", home=example)
        assert "Examples:" in done.stdout, words
    code = "import sys, flows.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"duckdb", "pyarrow", "prompt_toolkit", "pygments"} & set(loaded)
