"""The metric `judge` with a server behind a real socket: verdicts, failures, retries, and what is recorded of them."""

import datetime
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from judge_server import KEY, Answer, dataset, outputs, says, serving, verdict

from schemas.errors import ConfigError
from tasks.compare.runs import compare_runs
from tasks.config.resolve import load_experiment
from tasks.judge.endpoint import STOP_AFTER
from tasks.predictions.offline import Asked, Offline, score_file
from tasks.predictions.record import record_offline
from tasks.predictions.rescore import rescore, write_rescored
from tests.e2e.command import ROOT
from warehouse.parquet import read_rows
from warehouse.query import query

NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
RIGHT = {"riga": "Latvia", "oslo": "It is Norway.", "bern": "Austria", "graz": "Austria"}


def score(folder: Path, url: str, *, endpoint: str = "", options: str = "", **answers: str) -> Offline:
    given = dataset(folder, url, endpoint=endpoint, options=options)
    return score_file(
        Asked(dataset=str(given), predictions=outputs(folder, **(answers or RIGHT))), home=folder / "home"
    )


def by_city(offline: Offline) -> dict[str, Any]:
    return {row["sample_id"].partition(":")[2]: row for row in offline.judgements}


def test_verdicts_become_scores_and_everything_is_on_record(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with serving() as server:
        offline = score(tmp_path, server.url)
        calls = server.calls
    run_id = record_offline(offline, home=home, name="towns", started_at=NOW)
    [metric] = [row for row in read_rows(home, "metrics", run_id) if row["name"] == "cities.judge"]
    assert (metric["value"], metric["n"], metric["method"]) == (0.75, 4, "wilson")
    rows = {row["sample_id"]: row for row in read_rows(home, "judgements", run_id)}
    bern = rows["cities:bern"]
    assert {city: row["verdict"] for city, row in by_city(offline).items() if city != "bern"} == dict.fromkeys(
        ("riga", "oslo", "graz"), "CORRECT"
    )
    wanted = {"status": "ok", "verdict": "INCORRECT", "reason": "so it is", "judge_model": "judge-1", "tries": 1}
    assert {name: bern[name] for name in wanted} == wanted
    assert bern["prompt_tokens"] == 100 and bern["output_tokens"] == 7 and bern["judge_ms"] > 0
    assert bern["output"] == '{"reason": "so it is", "verdict": "INCORRECT"}' and "Switzerland" in bern["prompt"]
    facts = json.loads(bern["judge"])
    assert facts["model"] == "judge-1" and facts["url"] == server.url and facts["sampling"]["temperature"] == 0
    scores = {row["sample_id"]: row for row in read_rows(home, "scores", run_id)}
    wanted = {"value": 0.0, "extracted": "INCORRECT", "reason": "so it is"}
    assert {name: scores["cities:bern"][name] for name in wanted} == wanted
    assert len(calls) == 4
    schema = calls[0]["response_format"]["json_schema"]["schema"]
    assert calls[0]["response_format"]["type"] == "json_schema" and schema["properties"]["verdict"]["enum"]
    assert list(schema["properties"]) == ["reason", "verdict"]


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (says(None, refusal="I will not grade this."), "refused", "I will not grade this."),
        (says("", finish="content_filter"), "refused", "filter"),
        (says('{"reason": "well, let me th', finish="length"), "truncated", "cut after 512 tokens"),
        (says("It is CORRECT."), "invalid", "JSON"),
        (says('{"reason": "r", "verdict": "MAYBE"}'), "invalid", "MAYBE"),
        (says('{"verdict": "CORRECT"}'), "invalid", "reason"),
        (says(""), "invalid", "empty"),
        (Answer(status=400, body={"error": "response_format is not supported"}), "error", "not supported"),
        (Answer(status=200, body=b"<html>hello"), "error", "no chat completion: <html>hello"),
        (Answer(status=200, body={"choices": []}), "error", "no chat completion"),
        (Answer(status=200, body=b"[" * 100_000), "error", "no chat completion: [[["),
        (Answer(status=200, body=b" " * (9 << 20)), "error", "sent more than 8,388,608 bytes"),
    ],
)
def test_what_is_no_verdict_is_no_score_and_never_a_0(tmp_path: Path, answer: Answer, status: str, words: str) -> None:
    def rule(body: dict[str, Any], number: int) -> Answer:
        return answer if "Oslo" in body["messages"][-1]["content"].title() else verdict("CORRECT")

    with serving(rule=rule) as server:
        offline = score(tmp_path, server.url)
    oslo = by_city(offline)["oslo"]
    assert (oslo["status"], oslo["verdict"], oslo["tries"]) == (status, None, 1)
    assert words in oslo["error"]
    [found] = [each for each in offline.scores if each.sample_id == "cities:oslo"]
    assert found.value is None and found.reason is not None and status in found.reason and words in found.reason
    [metric] = [row for row in offline.metrics if row.name == "cities.judge"]
    assert (metric.value, metric.n, metric.n_failed) == (1.0, 3, 1)
    assert any(f"1 of 4 answers have no verdict (1 {status})" in warning for warning in offline.warnings)


@pytest.mark.parametrize("usage", [["many"], "many", {"prompt_tokens": 10**30, "completion_tokens": -1}, None])
def test_what_a_server_says_of_its_tokens_costs_no_verdict(tmp_path: Path, usage: Any) -> None:
    said = verdict("CORRECT").body | {"usage": usage}
    with serving(rule=lambda _body, _number: Answer(body=said)) as server:
        offline = score(tmp_path, server.url)
    record_offline(offline, home=tmp_path / "home", name="towns", started_at=NOW)
    found = {(row["status"], row["prompt_tokens"], row["output_tokens"]) for row in offline.judgements}
    assert found == {("ok", None, None)}


def test_a_busy_server_is_asked_again_and_a_broken_one_for_so_long(tmp_path: Path) -> None:
    def rule(body: dict[str, Any], number: int) -> Answer:
        text = body["messages"][-1]["content"].lower()
        if "lies riga" in text and number < 2:
            return Answer(status=429, body={"error": "slow down"}, headers={"Retry-After": "0.01"})
        if "lies oslo" in text and number < 1:
            return Answer(status=503, body={"error": "warming up"}, headers={"Retry-After": "0.01"})
        if "lies bern" in text:
            return Answer(status=500, body={"error": "broken"}, headers={"Retry-After": "0.01"})
        return verdict("CORRECT")

    with serving(rule=rule) as server:
        offline = score(tmp_path, server.url, endpoint=", retries: 2")
        assert len(server.calls) == 3 + 2 + 3 + 1
    found = {city: (row["status"], row["tries"]) for city, row in by_city(offline).items()}
    assert found == {"riga": ("ok", 3), "oslo": ("ok", 2), "bern": ("error", 3), "graz": ("ok", 1)}
    assert "HTTP 500" in by_city(offline)["bern"]["error"]


def test_a_slow_server_is_a_timeout_and_calls_run_at_once(tmp_path: Path) -> None:
    def rule(body: dict[str, Any], number: int) -> Answer:
        slow = "lies bern" in body["messages"][-1]["content"]
        return Answer(after_s=3) if slow else Answer(body=verdict("CORRECT").body, after_s=0.2)

    with serving(rule=rule) as server:
        started = time.monotonic()
        offline = score(tmp_path, server.url, endpoint=", timeout_s: 0.8, retries: 0, concurrency: 3")
        assert time.monotonic() - started < 2.5
        assert server.most_at_once == 3
    found = {city: row["status"] for city, row in by_city(offline).items()}
    assert found == {"riga": "ok", "oslo": "ok", "bern": "timeout", "graz": "ok"}
    assert "no answer in 0.8 s" in by_city(offline)["bern"]["error"]


def test_a_server_that_goes_away_costs_the_rest_and_rescore_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = {"calls": 2}

    def rule(body: dict[str, Any], number: int) -> Answer:
        left["calls"] -= 1
        return verdict("CORRECT") if left["calls"] >= 0 else Answer(status=401, body={"error": f"key {KEY} is old"})

    home = tmp_path / "home"
    monkeypatch.setenv("TEST_JUDGE_KEY", KEY)
    with serving(rule=rule, key=KEY) as server:
        offline = score(tmp_path, server.url, endpoint=", api_key_env: TEST_JUDGE_KEY, concurrency: 1")
        run_id = record_offline(offline, home=home, name="towns", started_at=NOW)
        [metric] = [row for row in offline.metrics if row.name == "cities.judge"]
        assert (metric.n, metric.n_failed) == (2, 2)
        told = " ".join(offline.warnings)
        assert "2 of 4 answers were not judged: HTTP 401" in told and "assay rescore" in told
        left["calls"], before = 100, len(server.calls)
        dry = rescore(home, run_id, ask=False)
        assert "2 answers are not judged yet" in " ".join(dry.warnings) and len(server.calls) == before
        again = rescore(home, run_id)
        assert len(server.calls) == before + 2
        assert [(each.new_n, each.new_failed) for each in again.changes if each.name == "cities.judge"] == [(4, 0)]
        assert len(read_rows(home, "judgements", run_id)) == 4, "on disk before the scores are"
        write_rescored(home, again)
        assert [each.new_n for each in rescore(home, run_id).changes] == [4]
        assert len(server.calls) == before + 2
    for path in home.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
    assert all(KEY not in text for each in (offline, again) for text in each.warnings)


def test_a_server_that_only_fails_is_left(tmp_path: Path) -> None:
    with serving(rule=lambda _body, _number: Answer(status=400, body="no")) as server:
        given = dataset(tmp_path, server.url, endpoint=", concurrency: 1")
        many = [{"id": "riga", "repeat": number, "output": f"answer {number}"} for number in range(STOP_AFTER + 30)]
        path = tmp_path / "many.jsonl"
        path.write_text("".join(json.dumps(each) + "\n" for each in many))
        offline = score_file(Asked(dataset=str(given), predictions=path), home=tmp_path / "home")
        assert len(server.calls) == STOP_AFTER
    assert any(
        f"30 of {STOP_AFTER + 30} answers were not judged: {STOP_AFTER} calls failed" in w for w in offline.warnings
    )


def experiment(folder: Path) -> Path:
    path = folder / "experiment.yaml"
    path.write_text("name: e\nmodel: smollm2-135m-instruct\ndatasets: [cities]\n")
    return path


def test_before_a_run_it_is_said_what_is_wrong_with_the_endpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TEST_JUDGE_KEY", raising=False)

    def refusal(url: str, **more: str) -> str:
        dataset(tmp_path, url, **more)
        with pytest.raises(ConfigError) as caught:
            load_experiment(experiment(tmp_path))
        [problem] = caught.value.problems
        assert problem.line is not None
        return str(problem)

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    assert f"{nobody} cannot be reached" in refusal(nobody)
    with serving(models=("judge-2", "other")) as server:
        said = refusal(server.url)
        assert "has no model `judge-1`" in said and "did you mean `judge-2`?" in said
        assert "TEST_JUDGE_KEY, which is not set" in refusal(server.url, endpoint=", api_key_env: TEST_JUDGE_KEY")
        assert "syntax error" in refusal(server.url, options=", prompt: '{{ output'")
    with serving(key=KEY) as server:
        assert "a call without a key (HTTP 401)" in refusal(server.url)
        monkeypatch.setenv("TEST_JUDGE_KEY", "sk-wrong")
        said = refusal(server.url, endpoint=", api_key_env: TEST_JUDGE_KEY")
        assert "does not take the key in TEST_JUDGE_KEY" in said and "sk-wrong" not in said
        monkeypatch.setenv("TEST_JUDGE_KEY", "“sk-secret”")
        said = refusal(server.url, endpoint=", api_key_env: TEST_JUDGE_KEY")
        assert "TEST_JUDGE_KEY has a character that no HTTP header can hold" in said and "secret" not in said
    for url in ("http://a b/v1", "http://127.0.0.1:99999/v1", "http://xn--/v1"):
        assert re.search("is no address|out of range|cannot be reached", refusal(url)), url
    with serving() as server:
        dataset(tmp_path, server.url)
        assert load_experiment(experiment(tmp_path)).datasets[0].config.metrics[0].use == "judge"


def test_a_field_that_the_rows_do_not_have_is_said_before_anything_is_asked(tmp_path: Path) -> None:
    with serving() as server:
        with pytest.raises(ConfigError, match=r"uses 'citty', which is no column \(did you mean `city`\?\)"):
            score(tmp_path, server.url, options=", prompt: 'Is {{ output }} right for {{ citty }}?'")
        assert server.calls == []


def test_numbers_are_scores_as_they_are(tmp_path: Path) -> None:
    def rule(body: dict[str, Any], number: int) -> Answer:
        return says('{"verdict": 4.0}' if "lies riga" in body["messages"][-1]["content"] else '{"verdict": 2}')

    with serving(rule=rule) as server:
        offline = score(tmp_path, server.url, options=", scale: {min: 1, max: 5}, reasoning: false")
    [metric] = [row for row in offline.metrics if row.name == "cities.judge"]
    assert (metric.value, metric.unit, metric.n) == (2.5, "points", 4)
    assert {city: row["verdict"] for city, row in by_city(offline).items()} == {
        "riga": "4", "oslo": "2", "bern": "2", "graz": "2"}  # fmt: skip


def test_two_judges_in_one_dataset_keep_apart(tmp_path: Path) -> None:
    def rule(body: dict[str, Any], number: int) -> Answer:
        return says('{"verdict": 5}') if "style" in body["messages"][-1]["content"] else verdict("CORRECT")

    with serving(rule=rule) as server:
        given = dataset(tmp_path, server.url)
        own = f"{{url: '{server.url}', model: judge-1}}"
        asked = "prompt: 'Grade the style: {{ output }}', scale: {min: 1, max: 5}, reasoning: false"
        style = f"{{endpoint: {own}, {asked}}}"
        given.write_text(f"{given.read_text()}  - use: judge\n    as: style\n    options: {style}\n")
        offline = score_file(Asked(dataset=str(given), predictions=outputs(tmp_path, **RIGHT)), home=tmp_path / "home")
    values = {row.name: row.value for row in offline.metrics if ".form." not in row.name}
    assert values == {"cities.judge": 1.0, "cities.style": 5.0}
    assert len({row["judge_id"] for row in offline.judgements}) == 2 and len(offline.judgements) == 8


def saved(folder: Path, url: str, **more: str) -> str:
    return record_offline(score(folder, url, **more), home=folder / "home", name="towns", started_at=NOW)


def test_another_judge_is_another_metric(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with serving() as server, serving() as elsewhere:
        first, same = saved(tmp_path, server.url), saved(tmp_path, elsewhere.url)
        prompt = saved(tmp_path, server.url, options=", system: Be strict.")
        server.rule = lambda _body, _number: says('{"reason": "r", "verdict": "CORRECT"}', model="judge-1-2027")
        newer = saved(tmp_path, server.url)
    done = compare_runs(home=home, candidate=same, baseline=first)
    assert [each.comparison.metric for each in done.results] == ["judge"]
    assert any("the judge's url was" in note for note in done.notes)
    with pytest.raises(ConfigError, match=r"another judge in the candidate than in the baseline.* differs: system"):
        compare_runs(home=home, candidate=prompt, baseline=first)
    with pytest.raises(ConfigError, match=r"model \(judge-1-2027 against judge-1\)"):
        compare_runs(home=home, candidate=newer, baseline=first)
    asked = query(home=home, sql="SELECT count(*) FROM judgements WHERE status = 'ok'").rows
    assert asked == [(16,)]


def test_ctrl_c_ends_it_at_once(tmp_path: Path) -> None:
    with serving(rule=lambda _body, _number: Answer(after_s=4)) as server:
        given = dataset(tmp_path, server.url)
        child = subprocess.Popen(
            [sys.executable, "-m", "flows.cli", "score", "--dataset", str(given), "--predictions",
             str(outputs(tmp_path, **RIGHT))],
            env={**os.environ, "ASSAY_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            # A shell ignores Ctrl-C for what it runs in the background, and a child inherits that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - it starts no thread
        )  # fmt: skip
        end = time.monotonic() + 20
        while not server.calls and time.monotonic() < end:
            time.sleep(0.05)
        assert server.calls
        started = time.monotonic()
        child.send_signal(2)
        child.communicate(timeout=10)
        assert time.monotonic() - started < 2.5
        assert child.returncode not in (0, None)
