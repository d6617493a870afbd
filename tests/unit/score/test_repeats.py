"""Every sample asked several times: every repeat is a request, every repeat is scored, a sample is one number."""

import datetime
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from schemas.dataset import Dataset, MetricUse, NamedDataset
from schemas.engine import Sampling
from schemas.errors import ConfigError
from schemas.experiment import Group
from schemas.guide import Guide
from schemas.prompt import Prompt
from schemas.run import RunContext
from schemas.sample import Choice, Grammar, Request, Sample
from schemas.source import JsonlSource
from schemas.summary import DatasetsSummary, DatasetSummary, ScoredSummary
from tasks.config.resolve import load_experiment
from tasks.engine.protocol import WireResult
from tasks.plan.stage import run_requests
from tasks.requests import engine_identity, plan_requests, planned_load, request_key
from tasks.responses import RowContext, response_row
from tasks.score.stage import score_run
from tasks.session import Session
from warehouse.parquet import read_rows

THREE = Sampling(temperature=0.7, repeats=3)


def dataset(name: str, *, metrics: list[str], sampling: Sampling = THREE) -> NamedDataset:
    config = Dataset(
        source=JsonlSource(kind="jsonl", path="x.jsonl"),
        prompt=Prompt(text="{{ q }}"),
        target="{{ a }}",
        guide=Guide(kind="regex", pattern="[0-9]+"),
        metrics=[MetricUse(use=metric) for metric in metrics],
    )
    return NamedDataset(name=name, config=config, sampling=sampling)


def sample(name: str, number: int, *, choices: int = 0) -> Sample:
    return Sample(
        dataset=name,
        sample_id=f"{name}:{number}",
        row_index=number,
        raw=b"{}",
        input={},
        prompt="p",
        prompt_hash="h",
        prompt_token_ids=[1, 2, number],
        target=str(number) if not choices else 0,
        grammar=Grammar(grammar_id="a" * 16, kind="regex", content="[0-9]+"),
        choices=[Choice(text=str(i), token_ids=[1, 2, number, i], start=3) for i in range(choices)],
    )


def plan(*, needs: tuple[str, ...] = ("generate",), sampling: Sampling = THREE, choices: int = 0) -> list[Request]:
    return plan_requests(
        dataset=dataset("numbers", metrics=["exact_match"], sampling=sampling),
        samples=[sample("numbers", number, choices=choices) for number in range(2)],
        arms=["free", "guided"],
        needs=needs,
    )


def test_each_sample_is_asked_so_often_in_each_arm() -> None:
    requests = plan()
    asked = Counter((request.sample_id, request.arm) for request in requests)
    assert set(asked.values()) == {3}
    assert [(r.sample_id[-1], r.repeat, r.arm) for r in requests[:4]] == [
        ("0", 0, "free"),
        ("0", 0, "guided"),
        ("0", 1, "free"),
        ("0", 1, "guided"),
    ]
    assert len({request.request_id for request in requests}) == len(requests)
    assert len(planned_load(requests).prompt_tokens) == 12  # what plan and estimate count
    once = plan(sampling=Sampling(temperature=0.7))
    assert {r.request_id for r in once} == {r.request_id for r in requests if r.repeat == 0}


def test_each_repeat_is_a_question_of_its_own() -> None:
    resolved = {"grammar_backend": "xgrammar"}
    identity = engine_identity(model_fingerprint="m", versions={}, device_name="cpu", resolved=resolved)
    requests = plan()
    assert len({request_key(request, identity=identity, sampling=THREE) for request in requests}) == len(requests)


def test_loglikelihoods_draw_nothing_and_are_asked_once() -> None:
    requests = plan(needs=("generate", "loglikelihood"), choices=2)
    assert Counter((r.kind, r.sample_id[-1]) for r in requests) == {
        ("generate", "0"): 6,
        ("generate", "1"): 6,
        ("loglikelihood", "0"): 2,
        ("loglikelihood", "1"): 2,
    }


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"repeats": 2}, "temperature: 0.*same answer"),
        ({"repeats": 2, "temperature": 0.5, "seed": 3}, "seed.*same answer"),
        ({"repeats": 0, "temperature": 0.5}, "greater than or equal to 1"),
    ],
)
def test_copies_are_refused(keys: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        Sampling.model_validate(keys)
    assert Sampling(repeats=1).repeats == 1


def test_copies_are_refused_where_they_are_written() -> None:
    with pytest.raises(ConfigError, match=r"--set sampling\.repeats: with `temperature: 0`.*set one above 0"):
        load_experiment("quickstart", overrides=["sampling.repeats=4"])
    experiment = load_experiment("quickstart", overrides=["sampling.repeats=4", "sampling.temperature=0.8"])
    assert {each.sampling.repeats for each in experiment.datasets} == {4}


def a_session(home: Path, datasets: list[NamedDataset], *, groups: dict[str, Group]) -> Session:
    experiment = load_experiment("quickstart").model_copy(
        update={"datasets": datasets, "arms": ["free", "guided"], "groups": groups}
    )
    run_id = "20260101-000000-repeats"
    folder = home / "runs" / run_id
    folder.mkdir(parents=True)
    now = datetime.datetime.now(datetime.UTC)
    return Session(
        RunContext(
            run_id=run_id,
            home=home,
            folder=folder,
            revision=0,
            resumed=False,
            started_at=now,
            experiment=experiment,
        )
    )


def summary(name: str) -> DatasetSummary:
    return DatasetSummary(
        dataset=name,
        rows_total=4,
        rows_used=4,
        fingerprint="f",
        template_hash="t",
        bos_policy="none",
        tokenize_s=0.0,
        tokenizer_fingerprint="k",
        max_len=16,
        over_limit=0,
        needs=["generate"],
        arms=["free", "guided"],
        warnings=[],
    )


def text_of(request: Request) -> str:
    """Right in the guided arm; in the free one wrong in every other repeat, and never right for `lost`."""
    number = request.sample_id.split(":")[1]
    wrong = request.dataset == "lost" or (request.arm == "free" and request.repeat == 1)
    return "none" if wrong else number


def scored(session: Session, datasets: list[NamedDataset], *, leave_out: set[tuple[str, int]]) -> ScoredSummary:
    """A run of real rows, from the samples to the scores; only the engine is not there."""
    summaries = DatasetsSummary(datasets=[summary(each.name) for each in datasets])
    session.keep_samples([sample(each.name, number) for each in datasets for number in range(24)])
    requests = run_requests(session.run.experiment, datasets=summaries, samples=session.samples())
    session.request_keys = {request.request_id: f"key of {request.request_id}" for request in requests}
    context = RowContext(
        engine_id="e",
        sampling={each.name: each.sampling for each in datasets},
        keys=session.request_keys,
        attempts={},
    )
    rows = []
    for request in requests:
        if (request.sample_id, request.repeat) in leave_out:
            continue
        result = WireResult(
            request_id=request.request_id,
            token_ids=[5],
            text=text_of(request),
            finish_reason="stop",
            stop_reason=None,
            sent_at=1.0,
            finished_at=2.0,
        )
        rows.append(response_row(request, result, context))
    session.store.write("requests", rows)
    return score_run(session, summaries)


def test_a_run_with_repeats_groups_and_an_alarm(tmp_path: Path) -> None:
    datasets = [dataset("numbers", metrics=["exact_match"]), dataset("lost", metrics=["exact_match"])]
    groups = {"both": Group(datasets=["numbers", "lost"], metric="exact_match")}
    session = a_session(tmp_path, datasets, groups=groups)
    found = scored(session, datasets, leave_out={("numbers:3", 2)})

    scores = read_rows(tmp_path, "scores", session.run.run_id)
    assert len(scores) == found.scores == 2 * 24 * 2 * 3  # no repeat is thrown away
    assert {row["repeat"] for row in scores} == {0, 1, 2}
    missing = [row for row in scores if row["value"] is None]
    assert {(row["sample_id"], row["repeat"], row["reason"]) for row in missing} == {
        ("numbers:3", 2, "not answered: the run was stopped before")
    }

    metrics = {
        (row["scope"], row["name"], row["arm"]): row
        for row in read_rows(tmp_path, "metrics", session.run.run_id, parse_json=True)
    }
    free = metrics["dataset", "numbers.exact_match", "free"]
    assert free["n"] == 24  # samples, not answers
    assert free["value"] == pytest.approx((23 * 2 / 3 + 1 / 2) / 24)
    assert free["details"]["repeats"] == 3
    assert free["details"]["failed_scores"] == 1
    assert metrics["group", "both.exact_match", "free"]["value"] == pytest.approx(free["value"] / 2)
    assert any(row["metric"] == "both.exact_match" for row in found.headline)

    comparisons = {row["dataset"]: row for row in read_rows(tmp_path, "comparisons", session.run.run_id)}
    assert (comparisons["numbers"]["method"], comparisons["numbers"]["n_pairs"]) == ("paired_t", 24)
    assert (comparisons["numbers"]["verdict"], comparisons["numbers"]["wins"]) == ("better", 24)
    assert found.warnings[0].startswith("lost.exact_match (free) is 0 over 24 samples")
    assert len(found.warnings) == 2  # and in the guided arm
