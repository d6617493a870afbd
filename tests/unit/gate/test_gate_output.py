"""Where a verdict is told: the command, Markdown, JUnit XML, the report, MLflow, the nightly comparison."""

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from flows.compare import Asked, chosen_run, gates_on
from schemas.errors import ConfigError
from schemas.experiment import Experiment, Gate
from schemas.gate import Known, gate_faults
from tasks.compare.promote import promote
from tasks.gate.evaluate import evaluate
from tasks.gate.junit import junit
from tasks.gate.keep import gate_rows, gates_word
from tasks.gate.markdown import markdown
from tasks.gate.model import Evaluation
from tasks.gate.words import sentence
from tasks.record import stage
from tasks.record.tracking.build import build_publication
from tasks.report.build import render
from tasks.report.data import load_report_data
from tasks.report.figures import figures
from tests.e2e.command import assay
from tests.mlflow_parts import answered, begun
from tests.unit.compare.two_runs import HOSTILE
from tests.unit.gate.nights import ACC, FIRST, SECOND, THIRD, binary, gate, judge, judged, night
from warehouse.parquet import read_rows

GATES = [
    gate(against=["last_green", "baseline:main"]),
    gate(rule="at_least", value=0.1, margin=None, against=None),
    gate(rule="at_least", value=0.36, margin=None, against=None),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two good nights, the first one pinned, and a bad one whose every text is hostile."""
    home = tmp_path_factory.mktemp("gates")
    texts = {f"s{i:04}": f"{HOSTILE}{i}" for i in range(400)}
    for run_id in (FIRST, SECOND):
        night(home, run_id, {ACC: binary(n=400, right=200)}, outputs=texts, targets=texts)
    promote(home, FIRST, name="main")
    bad = {ACC: binary(n=400, right=200, flipped_down=60, flipped_up=2)}
    night(home, THIRD, bad, gates=GATES, outputs=texts, targets=texts)
    return home


@pytest.fixture(scope="module")
def found(home: Path) -> Evaluation:
    return judge(home, THIRD, *GATES)


def test_the_sentence_says_the_worst_first(found: Evaluation) -> None:
    assert [each.verdict for each in found.verdicts] == ["failed", "failed", "passed", "undecided"]
    assert sentence(found) == (
        "2 of 4 gate checks failed: d.acc (free) not worse than last_green by more than 0.02, d.acc (free) not worse "
        "than baseline:main by more than 0.02; 1 undecided: d.acc (free) at least 0.36; 1 passed."
    )


def test_markdown_has_the_evidence_and_hostile_text_is_text(found: Evaluation) -> None:
    text = markdown(found, flips=3)
    assert text.startswith("## ❌ Gates failed\n")
    assert "| ❌ failed | <code>d.acc</code> | free | not worse, margin 0.02 | <code>last\\_green, run" in text
    assert "| ❔ undecided |" in text and "5 of 62 samples that changed" in text
    assert set(re.findall(r"</?([a-z]+)>", text)) == {"code", "details", "summary", "span"}
    for wrong in ("<script", "![x]", "http://", "www.", "\x1b", "\u202e"):
        assert wrong not in text, wrong


def test_a_run_without_the_arm_is_told_by_its_reason_alone(tmp_path: Path) -> None:
    guided = ("d", "acc", "guided")
    night(tmp_path, FIRST, {ACC: binary(n=40, right=20)})
    promote(tmp_path, FIRST, name="main")
    night(tmp_path, SECOND, {ACC: binary(n=40, right=20), guided: binary(n=40, right=20)})
    found = evaluate(judged(tmp_path, SECOND), [gate(arm="guided", against="baseline:main")])
    text = markdown(found)
    assert "d.acc (guided) is not in both runs" in text and "<details>" not in text
    ET.fromstring(junit(found))


def test_junit_takes_any_text(found: Evaluation) -> None:
    """Control characters, lone surrogates, what is no character: shown as escapes, and the file is well formed."""
    wild = "".join(map(chr, [*range(0x20), 0x7F, 0x85, 0xD800, 0xDFFF, 0xFFFE, 0xFFFF, 0x10FFFF])) + "]]>&<'\""
    flips = tuple(
        replace(flip, sample_id=wild) for each in found.comparisons for flip in each.flips if flip.change == "lost"
    )
    verdicts = tuple(each.model_copy(update={"metric": wild, "reason": wild}) for each in found.verdicts)
    made = replace(found, name=wild, model=wild, verdicts=verdicts)
    made = replace(made, comparisons=tuple(replace(each, flips=flips, results=()) for each in found.comparisons))
    root = ET.fromstring(junit(made).encode("utf-8"))
    shown = str(root.findtext("testsuite/testcase/failure"))
    assert r"\x00\x01" in shown and r"\xd800\xdfff\xfffe\xffff" in shown and "]]>&<'\"" in shown
    markdown(made).encode("utf-8")


def test_junit_counts_and_tells_each_check(found: Evaluation) -> None:
    root = ET.fromstring(junit(found))
    suite = root.find("testsuite")
    assert suite is not None
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["4", "2", "0", "1"]
    kinds = [[child.tag for child in case] for case in suite.findall("testcase")]
    assert kinds == [["failure"], ["failure"], ["system-out"], ["skipped"]]
    message = suite.findall("testcase")[3].find("skipped")
    assert message is not None and "would decide" in str(message.get("message"))
    assert "60 samples lost, the first:\n  s0000: 1 -> 0" in str(suite.findtext("testcase/failure"))


def test_junit_holds_what_xml_cannot(home: Path, tmp_path: Path) -> None:
    night(tmp_path, FIRST, {ACC: binary(n=40, right=20)}, name=HOSTILE)
    found = evaluate(
        judged(tmp_path, FIRST), [gate(), gate(metric="d.no", rule="at_least", value=1, margin=None, against=None)]
    )
    suite = ET.fromstring(junit(found)).find("testsuite")
    assert suite is not None and [suite.get(name) for name in ("errors", "skipped")] == ["1", "1"]
    assert "\\x1b[31m" in str(suite.get("name"))


def test_the_report_shows_verdicts_trend_and_changed_samples(home: Path, found: Evaluation) -> None:
    data = load_report_data(home=home, run_id=THIRD)
    page = render(data)
    section = page.partition('<section id="gates"')[2].partition("</section>")[0]
    assert "2 of 4 gate checks failed" in section and "The gated metrics over the runs" in section
    assert section.count("<summary>") == 3, "the figure's numbers, and the samples of two other runs"
    assert "verdict-worse" in section and "s0000" in section and f"WHERE run_id = &#39;{THIRD}&#39;" in section
    assert "<script>alert" not in page
    assert [row["run_id"] for row in data.gate_trend] == [FIRST, SECOND, THIRD]
    assert len(data.gate_flips) == 2 * (20 + 2)
    assert "gates" in figures(data)
    assert "A gate failed" in page.partition('<section id="warnings"')[2]
    without = load_report_data(home=home, run_id=FIRST)
    assert "gates" not in figures(without) and '<section id="gates"' not in render(without)


def test_mlflow_gets_the_word_and_the_files(home: Path, found: Evaluation, tmp_path: Path) -> None:
    assert gates_word(read_rows(home, "gates", THIRD)) == "failed"
    session = begun(tmp_path / "home")
    answered(session)
    assert "assay.gates" not in build_publication(session.run.home, session.run.run_id).parent.tags
    session.store.write("gates", gate_rows(found))
    stage.end(session, status="finished")
    published = build_publication(session.run.home, session.run.run_id)
    assert published.parent.tags["assay.gates"] == "failed"
    assert {"gates.md", "gates.xml"} <= {file.file for file in published.files}


def test_the_command_judges_shows_and_keeps(home: Path, found: Evaluation, tmp_path: Path) -> None:
    xml = tmp_path / "gates.xml"
    done = assay("gate", THIRD[:8], "--json", "--junit", str(xml), home=home, timeout_s=120)
    assert done.code == 3 and done.json["exit_code"] == 3 and done.json["saved"] is True
    assert [each["verdict"] for each in done.json["gates"]] == ["failed", "failed", "passed", "undecided"]
    assert ET.parse(xml).getroot().get("failures") == "2"
    assert (home / "runs" / THIRD / "gates.md").read_text("utf-8").startswith("## ❌ Gates failed")
    for words, code, says in (
        ((FIRST,), 2, "has no `gates:`"),
        (("last", "--against", "baseline:mian"), 2, "did you mean `main`"),
        (("last", "--against", "yesterday"), 2, "last_green, baseline:NAME or the whole id"),
        (("last", "--markdown", "--json"), 2, "two formats"),
    ):
        refused = assay("gate", *words, home=home, timeout_s=120)
        assert refused.code == code and says in refused.stderr, refused.stderr
        assert refused.stdout == ""


def test_the_nightly_comparison_chooses_its_run_and_its_metrics(home: Path, tmp_path: Path) -> None:
    assert chosen_run(home, "last", experiment="") == THIRD == chosen_run(home, "last", experiment="nightly")
    assert chosen_run(home, "baseline:main", experiment="nightly") == FIRST
    assert chosen_run(tmp_path, "last", experiment="") is None
    with pytest.raises(ConfigError, match="did you mean `nightly`"):
        chosen_run(home, "last", experiment="nihgtly")
    run = judged(home, THIRD)
    asked = Asked(metrics=[], margin=0.02, slower=0.05, against=["last_green"], strict=True)
    made = gates_on(run, asked)
    assert [(each.metric, each.arm, each.on_undecided) for each in made] == [("d.acc", "free", "fail")]
    with pytest.raises(ConfigError, match=r"did you mean `d\.acc`"):
        gates_on(run, replace(asked, metrics=["d.ac"]))
    for wrong in ([], ["yesterday"]):
        with pytest.raises(ConfigError, match="does not name runs"):
            gates_on(run, replace(asked, against=wrong))


def test_a_config_of_before_gates_has_none() -> None:
    assert Experiment.model_fields["gates"].get_default(call_default_factory=True) == []
    made = Gate.model_validate(json.loads(GATES[0].model_dump_json()))
    assert made == GATES[0] and made.baselines == ("last_green", "baseline:main")


def test_a_further_number_of_a_metric_is_gated_by_a_number_only() -> None:
    known = Known(metrics={"code": ["code_pass"]}, groups={}, guided=frozenset(), arms=["free"])
    number = gate(metric="code.pass@2", rule="at_least", value=0.5, margin=None, against=None)
    assert gate_faults([number], known=known) == []
    [fault] = gate_faults([gate(metric="code.pass@2", against="baseline:main")], known=known)
    assert fault.keypath == ("gates", 0, "rule")
