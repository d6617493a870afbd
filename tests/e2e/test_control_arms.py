"""The arms `free_matched` and `repair` in one real run: what the engine was asked, and what a reader is told of it."""

import sqlite3
from pathlib import Path

import pytest

from tests.e2e.command import Done, assay, rows
from tests.stores import used_before

EXPERIMENT = """\
name: what-guiding-costs
model: smollm2-135m-instruct
engine: {extends: vllm, max_num_seqs: 8}
datasets: [{use: arithmetic, max_tokens: 20}, {use: extract, max_tokens: 60}]
arms: [free, guided, free_matched, repair]
"""
LIMIT = 4


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> Path:
    folder = tmp_path_factory.mktemp("control")
    (folder / "control.yaml").write_text(EXPERIMENT)
    return used_before(folder / "home", model_dir)


@pytest.fixture(scope="module")
def done(home: Path) -> Done:
    file = str(home.parent / "control.yaml")
    done = assay("run", file, "--limit", str(LIMIT), "--set", "model.dtype=float32", "--json", home=home)
    assert done.code == 0, done.stderr
    return done


def test_the_control_has_exactly_the_tokens_of_the_guided_answers(home: Path, done: Done) -> None:
    pairs = rows(
        home,
        "SELECT g.output_tokens AS guided, m.output_tokens AS matched, len(m.output_token_ids) AS ids, m.status, "
        "m.valid, m.sent_at >= g.sent_at AS after, f.output_token_ids[1:5] AS free, m.output_token_ids[1:5] AS begun "
        "FROM requests g JOIN requests m USING (sample_id) JOIN requests f USING (sample_id) "
        "WHERE g.arm = 'guided' AND m.arm = 'free_matched' AND f.arm = 'free'",
    )
    assert len(pairs) == 2 * LIMIT
    assert all(pair["guided"] == pair["matched"] == pair["ids"] for pair in pairs)
    assert all((pair["status"], pair["valid"], pair["after"]) == ("ok", None, True) for pair in pairs)
    assert len({pair["guided"] for pair in pairs}) > 2
    same = [pair["free"][: pair["matched"]] == pair["begun"] for pair in pairs]
    assert all(same), "the control is the free answer, of another length"


def test_only_what_was_not_valid_was_asked_again(home: Path, done: Done) -> None:
    free = rows(home, "SELECT sample_id, valid FROM requests WHERE arm = 'free'")
    invalid = {row["sample_id"] for row in free if row["valid"] is not True}
    again = rows(home, "SELECT sample_id, repair_try, valid, finish_reason FROM requests WHERE arm = 'repair'")
    assert {row["sample_id"] for row in again} == invalid and 0 < len(again) == len(invalid) < 2 * LIMIT
    assert all(row["repair_try"] == 1 for row in again)
    assert all(row["valid"] or row["finish_reason"] == "length" for row in again)
    finals = rows(home, "SELECT name, value, n FROM metrics WHERE name LIKE '%.form.compliance' AND arm = 'repair'")
    lost = sum(not row["valid"] for row in again)
    assert sum(row["n"] * (1 - row["value"]) for row in finals) == pytest.approx(lost)
    assert sum(row["n"] for row in finals) == 2 * LIMIT


def test_the_control_is_timed_and_not_scored(home: Path, done: Done) -> None:
    assert rows(home, "SELECT DISTINCT arm FROM scores ORDER BY arm") == [
        {"arm": "free"}, {"arm": "guided"}, {"arm": "repair"}
    ]  # fmt: skip
    pairs = rows(home, "SELECT DISTINCT candidate_arm AS one, baseline_arm AS two FROM comparisons ORDER BY ALL")
    assert [(row["one"], row["two"]) for row in pairs] == [("guided", "free"), ("repair", "free"), ("repair", "guided")]
    found = {
        row["name"]: row
        for row in rows(home, "SELECT name, value, lo, hi, n, details FROM metrics WHERE arm = 'guided'")
    }
    for name in ("guide.mask_us_per_token", "guide.tokens_per_s_ratio", "guide.throughput_ratio"):
        assert found[name]["value"] is not None and found[name]["lo"] < found[name]["hi"]
    timed = rows(home, "SELECT value FROM metrics WHERE name = 'timing.tpot_ms.p50' AND arm = 'free_matched'")
    assert timed[0]["value"] > 0


def test_a_reader_sees_what_it_does_and_what_it_costs(home: Path, done: Done) -> None:
    head = done.stderr.index("what guiding does")
    told = done.stderr[head:]
    for words in ("parse failures", "guided − free_matched", "guided / free_matched", "repair / guided"):
        assert words in told
    page = Path(done.json["report"]).read_text("utf-8")
    assert "What guiding does" in page and "is not scored" in page
    with sqlite3.connect(home / "mlflow.db") as store:
        counts = dict(store.execute("SELECT run_uuid, count(DISTINCT key) FROM metrics GROUP BY run_uuid"))
        names = {key for (key,) in store.execute("SELECT DISTINCT key FROM metrics")}
    assert max(counts.values()) < 50 and "guide.mask_us_per_token.guided" in names


def test_scoring_again_gives_the_same_scores_and_the_same_figures(home: Path, done: Done) -> None:
    sql = "SELECT dataset, metric, arm, sample_id, value FROM scores ORDER BY ALL"
    figures = (
        "SELECT name, arm, value, lo, hi, n, method, details FROM metrics "
        "WHERE name LIKE '%guide.%' OR name LIKE '%.repair.%' ORDER BY ALL"
    )
    before, told = rows(home, sql), rows(home, figures)
    again = assay("rescore", "last", "--json", home=home, timeout_s=120)
    assert again.code == 0, again.stderr
    assert rows(home, sql) == before
    assert rows(home, figures) == told and len(told) > 20
    assert len(again.json["guiding"]) == len(told) and all(each["same"] for each in again.json["guiding"])
