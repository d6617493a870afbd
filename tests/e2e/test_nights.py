"""Twenty nights of one small experiment whose answers are drawn anew each night: its gates cry wolf in none of them,
and the night after, when the prompt was made worse by mistake, they catch it.

The runs are real; the clock of the day says 02:30 of each night."""

import datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.e2e.clock import at, moved_clock
from tests.e2e.command import ROOT, Done, assay

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

NIGHTS = 20
_EXPERIMENT = """\
name: nightly
model: smollm2-135m-instruct
datasets: [{use: sums, limit: 80}]
sampling: {temperature: 0.5, max_tokens: 40}
"""
_GATES = """\
gates:
  - {metric: sums.exact_match, rule: not_worse, margin: 0.05, against: [last_green, "baseline:first"]}
  - {metric: sums.exact_match, rule: at_least, value: 0.1}
"""


class Nights:
    """A folder with an experiment, and its runs, each on its night."""

    def __init__(self, *, folder: Path, home: Path) -> None:
        self.folder, self.home, self.library = folder, home, moved_clock(folder)
        today = datetime.datetime.now(datetime.UTC).replace(hour=2, minute=30, second=0, microsecond=0)
        self.first = today - datetime.timedelta(days=NIGHTS + 2)
        self.write(gates="")

    def write(self, *, question: str = "{{ question }}", gates: str = _GATES) -> None:
        shipped = (ROOT / "configs" / "datasets" / "arithmetic.yaml").read_text()
        data = ROOT / "configs" / "datasets" / "data" / "arithmetic.jsonl"
        changed = shipped.replace("data/arithmetic.jsonl", str(data)).replace("{{ question }}", question)
        (self.folder / "sums.yaml").write_text(changed)
        (self.folder / "nightly.yaml").write_text(_EXPERIMENT + gates)

    def run(self, night: int) -> Done:
        when = self.first + datetime.timedelta(days=night)
        by_s = round((when - datetime.datetime.now(datetime.UTC)).total_seconds())
        return self.assay("run", "nightly.yaml", "--json", **at(self.library, by_s=by_s))

    def assay(self, *arguments: str, **more: str) -> Done:
        return assay(*arguments, home=self.home, cwd=self.folder, **more)


def test_twenty_nights_without_a_false_alarm_and_the_worse_prompt_is_caught(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    nights = Nights(folder=folder, home=home)
    first = nights.run(0)
    assert first.code == 0, first.stderr
    assert nights.assay("promote", "last", "--as", "baseline:first").code == 0

    nights.write()
    codes = []
    for night in range(1, NIGHTS + 1):
        done = nights.run(night)
        codes.append(done.code)
        assert done.code == 0, f"night {night}: {done.stdout}\n{done.stderr}"
    nights.write(question="{{ question[:12] }}")
    worse = nights.run(NIGHTS + 1)
    assert worse.code == 3, worse.stdout + worse.stderr
    xml = ET.parse(home / "runs" / worse.json["run_id"] / "gates.xml")
    assert [case.find("failure") is not None for case in xml.iter("testcase")].count(True) >= 2

    sql = (
        "SELECT strftime(r.started_at, '%d %H:%M') AS night, g.gate, g.against, round(g.effect, 3) AS effect, "
        "round(g.lo, 3) AS lo, round(g.hi, 3) AS hi, g.verdict FROM gates g JOIN runs r USING (run_id) ORDER BY ALL"
    )
    table = nights.assay("sql", sql)
    assert table.code == 0, table.stderr
    started = nights.assay("sql", "SELECT count(DISTINCT started_at::DATE) AS nights FROM runs", "--format", "csv")
    assert started.stdout.split() == ["nights", str(NIGHTS + 2)], started.stderr
    with capsys.disabled():
        print(f"\n{NIGHTS} nights: exit codes {codes}; the worse prompt: {worse.code}\n{table.stdout}")
