"""A corpus of schemas against the grammar backends, from the command line: what is recorded, shown and refused; what a
kill and an interrupt leave."""

import contextlib
import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.e2e.command import ROOT, Done, assay, rows, start
from tests.faults.processes import wait_for, wait_until_gone
from warehouse.parquet import read_rows

HOSTILE = "<script>alert(1)</script> ![x](http://evil) | `b` @team #1 $a$ www.evil \x1b[31m \u202e _a_\nnext"
ASKED = ("faults", "--split", "keys", "--split", "lists")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("grammars") / "home"


@pytest.fixture(scope="module")
def done(home: Path) -> Done:
    found = assay("grammars", *ASKED, "--backends", "xgrammar,guidance", "--jobs", "1", "--json", home=home)
    assert found.code == 0, found.stderr
    return found


def test_every_schema_and_instance_is_a_row(done: Done, home: Path) -> None:
    told = done.json
    assert (told["status"], told["exit_code"], told["cases"]) == ("finished", 0, 12)
    schemas = rows(home, "SELECT * FROM corpus_schemas ORDER BY case_id, backend")
    assert len(schemas) == 24 and {row["run_id"] for row in schemas} == {told["run_id"]}
    assert {row["backend_version"] for row in schemas} == set(told["backends"].values())
    tests = rows(home, "SELECT backend, case_id, expected, accepted, mask_us FROM corpus_tests")
    taken = [row for row in schemas if row["status"] == "accepted"]
    assert len(tests) == sum(row["tests"] for row in taken) and all(row["mask_us"] for row in tests)
    wrong = {(row["backend"], row["name"]) for row in schemas if row["verdict"] in ("over", "under", "both")}
    assert ("xgrammar", "patternProperties") in wrong and not any(backend == "guidance" for backend, _ in wrong)
    whole = {each["backend"]: each for each in told["figures"] if each["split"] is None}
    assert whole["xgrammar"]["over"] == sum(
        row["verdict"] in ("over", "both") for row in schemas if row["backend"] == "xgrammar"
    )
    (metric,) = rows(home, "SELECT value, n FROM metrics WHERE name = 'grammars.guidance.declared_coverage'")
    assert metric == {"value": whole["guidance"]["accepted"] / 12, "n": 12}


def test_its_page_its_run_and_its_place_in_mlflow(done: Done, home: Path) -> None:
    page = Path(done.json["report"]).read_text()
    assert "Silently wrong" in page and "xgrammar" in page
    (run,) = rows(home, "SELECT flow, status, name, mlflow_run_id FROM runs")
    assert (run["flow"], run["status"], run["name"]) == ("grammars", "finished", "faults") and run["mlflow_run_id"]
    shown = assay("report", "last", home=home)
    assert shown.code == 0 and shown.stdout.strip() == done.json["report"]
    asked = assay("compare", "last:xgrammar", "last:guidance", "--json", home=home)
    assert asked.code == 0, asked.stderr
    (backend,) = asked.json["backends"]
    assert {share["metric"] for share in backend["shares"]} == {"takes", "right", "silently_wrong"}
    assert {row["metric"] for row in rows(home, "FROM comparisons")} == {"takes", "right", "silently_wrong"}
    out = home / "missing" / "compared.json"
    for arguments, words in (
        (("last", "last"), "would be compared with itself"),
        (("last:xgrammar", "last:guidance", "--no-save", "--out", str(out)), "cannot be written"),
    ):
        refused = assay("compare", *arguments, home=home)
        assert refused.code == 2 and words in refused.stderr, refused.stderr


@pytest.mark.slow
def test_two_runs_are_compared_as_a_page_and_as_markdown(done: Done, home: Path, tmp_path: Path) -> None:
    """The packaged corpus, and the same schemas under names that nobody should trust."""
    mine = shutil.copytree(home, tmp_path / "home")
    lines = [json.loads(line) for line in (ROOT / "configs/corpora/data/faults.jsonl").read_text("utf-8").splitlines()]
    corpus = tmp_path / "wild.jsonl"
    corpus.write_text("".join(json.dumps(line | {"name": f"{HOSTILE}{n}"}) + "\n" for n, line in enumerate(lines)))
    wild = assay("grammars", str(corpus), *ASKED[1:], "--backends", "xgrammar", "--jobs", "1", "--json", home=mine)
    assert wild.code == 0, wild.stderr
    page, out, data = (tmp_path / name for name in ("page.html", "pr.md", "all.json"))
    two = ("last:xgrammar", f"{done.json['run_id']}:guidance")
    asked = assay("compare", *two, "--html", str(page), "--out", str(out), "--flips", "1", home=mine)
    assert (asked.code, asked.stdout) == (0, ""), asked.stderr
    assert str(page) in asked.stderr and str(out) in asked.stderr
    shown, text = page.read_text("utf-8"), out.read_text("utf-8")
    versions = "{guidance} → {xgrammar}".format(**done.json["backends"])
    for told in (shown, text):
        assert versions in told and "takes" in told and "p99" in told
        assert "alert(1)&lt;/script&gt;" in told and "<script>alert" not in told
        assert not {"\x1b", "\u202e"} & set(told)
    assert text.startswith("**") and "schemas came out otherwise" in text and "more\n" in text
    assert shown.count("<script") == 1 and "Coverage by split" in shown and "keys" in shown
    whole = assay("compare", *two, "--out", str(data), home=mine)
    assert whole.code == 0, whole.stderr
    found = json.loads(data.read_text("utf-8"))
    (backend,) = found["backends"]
    changed = [each for each in backend["changed"] if "<script>alert(1)</script>" in each["name"]]
    assert len(changed) == len(backend["changed"]) == shown.count('<tr><td class="path">') > 1
    assert {each["split"] for each in backend["coverage"]} == {None, "keys", "lists"}
    assert set(backend["ratios"][0]["candidate"]) == {"p50", "p95", "p99"}
    printed = assay("compare", *two, "--markdown", home=mine)
    assert printed.code == 0 and printed.stdout.startswith("**")
    both = assay("compare", *two, "--markdown", "--json", home=mine)
    assert both.code == 2 and "two formats" in both.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fault",), "faults"),
        (("faults", "--backends", "xgramar"), "xgrammar"),
        (("faults", "--split", "key"), "keys"),
        (("faults", "--model", "smollm"), "smollm2-135m-instruct"),
        (("--resume", "last", "--limit", "3"), "keeps its corpus"),
        (("--resume", "20260101"), "there is no run 20260101"),
        ((), "name a corpus"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    refused = assay("grammars", *arguments, home=tmp_path / "home")
    assert refused.code == 2 and words in refused.stderr, refused.stderr
    assert not (tmp_path / "home" / "runs").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)])
def test_what_is_cut_goes_on_and_asks_nothing_twice(tmp_path: Path, sent: signal.Signals, code: int) -> None:
    home = tmp_path / "home"
    flow = start("grammars", "faults", "--backends", "xgrammar,outlines", "--limit-s", "2", home=home)

    def cut() -> bool:
        if flow.poll() is not None:
            raise AssertionError(f"it ended too early: {flow.communicate()[1]}")
        return len(_done(home)) >= 5

    wait_for(cut, timeout_s=120, what="some schemas that are done")
    with contextlib.suppress(ProcessLookupError):
        os.kill(flow.pid, sent)
    _, said = flow.communicate(timeout=60)
    assert flow.returncode == code, said
    assert wait_until_gone(str(home), timeout_s=30) == []
    before = _done(home)
    assert 5 <= len(before) < 108
    if sent == signal.SIGINT:
        assert "assay grammars --resume last" in said
    again = assay("grammars", "--resume", "last", "--json", home=home)
    assert again.code == 0, again.stderr
    after = _done(home)
    assert len(after) == 108 and all(after[key] == seconds for key, seconds in before.items())


def _done(home: Path) -> dict[tuple[str, str], float]:
    columns = ["case_id", "backend", "seconds", "revision"]
    return {
        (row["case_id"], row["backend"]): row["seconds"] for row in read_rows(home, "corpus_schemas", columns=columns)
    }
