"""The judging step of a run: rows as they come, and a later session that asks only for what is missing."""

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from judge_server import CITIES, Answer, dataset, serving, verdict

from schemas.experiment import Experiment
from schemas.run import RunContext
from schemas.sample import Sample
from schemas.summary import DatasetsSummary, DatasetSummary
from tasks.config.resolve import load_experiment
from tasks.judge.stage import has_judge, judge_run, runs_engine
from tasks.requests import request_id
from tasks.score.stage import score_run
from tasks.session import Session
from warehouse.parquet import read_rows

RUN = "20261127T220355-3f9a2c"
NOW = datetime.datetime(2026, 11, 27, tzinfo=datetime.UTC)


def experiment(folder: Path, url: str, **more: str) -> Experiment:
    dataset(folder, url, **more)
    path = folder / "experiment.yaml"
    path.write_text("name: e\nmodel: smollm2-135m-instruct\ndatasets: [cities]\n")
    return load_experiment(path)


def session(folder: Path, given: Experiment, *, revision: int, answers: Mapping[str, str]) -> Session:
    """A session of the run in which the engine has answered."""
    run = RunContext(
        run_id=RUN,
        home=folder / "home",
        folder=folder / "run",
        revision=revision,
        resumed=revision > 0,
        started_at=NOW,
        experiment=given,
    )
    run.folder.mkdir(exist_ok=True)
    made = Session(run)
    samples = [_sample(city, land) for city, land in CITIES]
    made.keep_samples(samples)
    rows = [_row(city, text, attempt=revision) for city, text in answers.items()]
    made.store.write("requests", rows)
    made.request_keys = {row["request_id"]: row["request_key"] for row in rows}
    return made


def _sample(city: str, land: str) -> Sample:
    return Sample(
        dataset="cities",
        sample_id=f"cities:{city}",
        row_index=0,
        raw=b"{}",
        input={"city": city, "land": land},
        prompt="",
        prompt_hash="",
        prompt_token_ids=[],
        messages=[{"role": "user", "content": f"In which country lies {city}?"}],
        target=land,
    )


def _row(city: str, text: str, *, attempt: int) -> dict[str, Any]:
    sample_id = f"cities:{city}"
    return {
        "request_id": request_id(sample_id, "free", "generate"),
        "request_key": f"k-{city}",
        "attempt": attempt,
        "dataset": "cities",
        "sample_id": sample_id,
        "arm": "free",
        "kind": "generate",
        "repeat": 0,
        "phase": "quality",
        "status": "ok",
        "output": text,
        "prompt_tokens": 9,
    }


SUMMARY = DatasetsSummary(
    datasets=[
        DatasetSummary(
            dataset="cities",
            rows_total=4,
            rows_used=4,
            fingerprint="f",
            template_hash="t",
            bos_policy="auto",
            tokenize_s=0,
            tokenizer_fingerprint="f",
            max_len=64,
            over_limit=0,
            needs=["generate"],
            arms=["free"],
            warnings=[],
        )
    ]
)
ANSWERS = {"riga": "Latvia", "oslo": "Norway", "bern": "Austria", "graz": "Austria"}


def values(home: Path) -> dict[str, float | None]:
    return {row["sample_id"].partition(":")[2]: row["value"] for row in read_rows(home, "scores", RUN)}


def test_a_later_session_asks_for_what_is_missing_and_for_what_was_answered_anew(tmp_path: Path) -> None:
    left = {"calls": 2}

    def rule(body: dict[str, Any], number: int) -> Answer:
        left["calls"] -= 1
        return verdict("CORRECT") if left["calls"] >= 0 else Answer(status=403, body="quota is used up")

    home = tmp_path / "home"
    with serving(rule=rule) as server:
        given = experiment(tmp_path, server.url, endpoint=", concurrency: 1")
        assert has_judge(given) and not runs_engine(given)
        first = session(tmp_path, given, revision=0, answers=ANSWERS)
        done = judge_run(first, SUMMARY)
        assert (done.answers, done.reused, done.statuses, done.failed) == (4, 0, {"ok": 2}, 2)
        assert "2 of 4 answers were not judged: HTTP 403" in done.warnings[0]
        score_run(first, SUMMARY)
        assert list(values(home).values()).count(None) == 2

        left["calls"] = 100
        second = session(tmp_path, given, revision=1, answers=ANSWERS)
        done = judge_run(second, SUMMARY)
        assert (done.answers, done.reused, done.statuses, done.failed) == (4, 2, {"ok": 2}, 0)
        score_run(second, SUMMARY)
        assert values(home) == dict.fromkeys(ANSWERS, 1.0)

        before = len(server.calls)
        third = session(tmp_path, given, revision=2, answers=ANSWERS | {"bern": "Switzerland"})
        score_run(third, SUMMARY)
        assert values(home)["bern"] is None, "what was said of an earlier answer is not said of this one"
        done = judge_run(third, SUMMARY)
        assert (done.reused, done.statuses, len(server.calls)) == (3, {"ok": 1}, before + 1)
        score_run(third, SUMMARY)
        assert values(home)["bern"] == 1.0


def test_what_was_judged_is_on_disk_when_the_judging_is_ended(tmp_path: Path) -> None:
    def rule(body: dict[str, Any], number: int) -> Answer:
        return verdict("CORRECT") if "riga" in body["messages"][-1]["content"] else Answer(after_s=2)

    with serving(rule=rule) as server:
        given = experiment(tmp_path, server.url, endpoint=", concurrency: 1")
        made = session(tmp_path, given, revision=0, answers=ANSWERS)

        def stop(_: object) -> None:
            if len(server.calls) > 1:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            judge_run(made, SUMMARY, on_update=stop)
    assert [row["sample_id"] for row in read_rows(tmp_path / "home", "judgements", RUN)] == ["cities:riga"]
