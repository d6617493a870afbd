"""Runs that measured documents: scored from their stored requests, and compared by their own numbers."""

import datetime
import math
from pathlib import Path
from typing import Any

import pytest

from schemas.dataset import Dataset, NamedDataset
from schemas.engine import Sampling
from schemas.errors import ConfigError
from schemas.sample import Response, Window
from tasks.compare.markdown import markdown
from tasks.compare.runs import compare_runs
from tasks.dataset.load import load_rows
from tasks.predictions.record import run_row, write_run
from tasks.predictions.rescore import rescore
from tasks.predictions.samples import asked_samples
from tasks.record.rows import metric_rows, sample_rows, score_rows
from tasks.score.aggregate import aggregate
from tasks.score.answers import score_answers
from warehouse.query import query

NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
TEXTS = ["a short one", "a much longer document " * 9, "é", "four words of it"]


def measured(folder: Path, home: Path, *, nats: float, texts: list[str] = TEXTS, window: int = 8) -> str:
    """A run over the documents in which each byte costs so many nats, the first document's a tenth more; in two windows
    but for the third document."""
    lines = "".join(f'{{"id": "{number}", "text": "{text}"}}\n' for number, text in enumerate(texts))
    (folder / "rows.jsonl").write_text(lines)
    config = {
        "source": {"kind": "jsonl", "path": str(folder / "rows.jsonl")},
        "id_field": "id",
        "document": {"text": "{{ text }}", "window": window},
        "metrics": ["bits_per_byte", {"use": "word_perplexity", "as": "words"}],
    }
    dataset = NamedDataset(name="texts", config=Dataset.model_validate(config), sampling=Sampling())
    samples, rows, responses = [], [], []
    for number, sample in enumerate(asked_samples(dataset, load_rows(dataset))):
        windows = 1 if number == 2 else 2
        kept = {name: getattr(sample, name) for name in sample.__slots__} | {
            "windows": [Window(begin=0, start=1, end=2)] * windows,
            "window": window,
        }
        samples.append(type(sample)(**kept))
        each = -nats * len(sample.prompt.encode()) * (1.1 if number == 0 else 1) / windows
        for index in range(windows):
            row: dict[str, Any] = {
                "request_id": f"{number}/{index}", "dataset": "texts", "sample_id": sample.sample_id, "arm": "free",
                "kind": "loglikelihood", "status": "ok", "choice_index": index, "logprob_sum": each, "repeat": 0,
            }  # fmt: skip
            responses.append(Response(**row))
            rows.append(row | {"attempt": 0, "phase": "quality"})
    scores = score_answers(
        metrics=dataset.config.metrics, samples=samples, responses=responses, arms=["free"], absent="none"
    )
    whole = {"name": "n", "arms": ["free"], "datasets": [dataset.model_dump(mode="json", by_alias=True)]}
    return write_run(
        home=home,
        run=run_row(flow="experiment", config=whole, started_at=NOW, warnings=[]),
        tables={
            "samples": sample_rows(samples),
            "requests": rows,
            "scores": score_rows(scores, scored_at=NOW),
            "metrics": metric_rows(aggregate(scores=scores)),
        },
    )


def test_a_run_of_documents_is_rescored_and_asked(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run_id = measured(tmp_path, home, nats=0.7)
    again = rescore(home, run_id)
    assert [(change.name, change.same) for change in again.changes] == [
        ("texts.bits_per_byte", True),
        ("texts.words", True),
    ]
    assert rescore(home, run_id, metrics=["byte_perplexity"]).changes[0].new == pytest.approx(
        math.exp(0.7 * sum(len(text.encode()) * (1.1 if not number else 1) for number, text in enumerate(TEXTS))
                 / sum(len(text.encode()) for text in TEXTS))
    )  # fmt: skip
    with pytest.raises(ConfigError, match=r"(?s)exact_match.*reads answers, and a `document` is not answered"):
        rescore(home, run_id, metrics=["exact_match"])
    rows = query(home=home, sql="SELECT windows, window_tokens FROM samples ORDER BY row_index").rows
    assert [tuple(row) for row in rows] == [(2, 8), (2, 8), (1, 8), (2, 8)]
    by_hand = query(
        home=home,
        sql="SELECT sum(numerator) / sum(denominator) FROM scores WHERE base_metric IS NULL AND metric='bits_per_byte'",
    )
    board = query(home=home, sql="SELECT value, direction FROM leaderboard WHERE metric = 'bits_per_byte'").rows
    assert (board[0][0], board[0][1]) == (pytest.approx(by_hand.rows[0][0]), "lower")


def test_two_runs_are_compared_by_their_own_numbers_and_lower_is_better(tmp_path: Path) -> None:
    home = tmp_path / "home"
    before, after = (measured(tmp_path, home, nats=nats) for nats in (0.7, 0.5))
    found = compare_runs(home=home, candidate=after, baseline=before)
    stored = {
        (row[0], row[1]): row[2]
        for row in query(home=home, sql="SELECT run_id, name, value FROM metrics WHERE scope = 'dataset'").rows
    }
    for result in found.results:
        own = result.comparison
        assert own.candidate == pytest.approx(stored[after, result.name])
        assert own.baseline == pytest.approx(stored[before, result.name])
        assert own.effect == pytest.approx(stored[after, result.name] - stored[before, result.name])
        assert (result.direction, own.wins, own.losses) == ("lower", 4, 0)
    assert [result.comparison.verdict for result in found.results] == ["better", "better"]
    assert {flip.change for flip in found.flips} == {"won"}
    assert "better" in markdown(found)
    assert found.notes == ()
    back = compare_runs(home=home, candidate=before, baseline=after, metrics=["bits_per_byte"])
    assert [result.comparison.verdict for result in back.results] == ["worse"]


def test_other_texts_are_refused_and_other_windows_are_told(tmp_path: Path) -> None:
    home = tmp_path / "home"
    one = measured(tmp_path, home, nats=0.7)
    wider = measured(tmp_path, home, nats=0.6, window=64)
    notes = compare_runs(home=home, candidate=wider, baseline=one).notes
    assert any("in windows of 64 tokens, the baseline in windows of 8" in note for note in notes)
    other = measured(tmp_path, home, nats=0.7, texts=[*TEXTS[:3], "five words of it now"])
    with pytest.raises(ConfigError, match=r"1 documents have other words or bytes.*3: 20 against 16"):
        compare_runs(home=home, candidate=other, baseline=one)
