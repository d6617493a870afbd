"""How an endpoint is configured; its key and its metrics, without a process."""

from typing import Any

import pytest
from pydantic import ValidationError

from schemas.endpoint import EndpointEngine
from tasks.engine.endpoint.http import Http, proxy_of
from tasks.engine.endpoint.key import NoKey, Scrub, read_key
from tasks.engine.endpoint.steps import Readings, counters, read_metrics

KEY = 'sk-/4"7+secret-of-a-user'


@pytest.mark.parametrize("url", ["http://localhost:8000", "https://api.example.com/v1/", "http://[::1]:80/x"])
def test_an_address_is_taken_with_or_without_its_end(url: str) -> None:
    assert EndpointEngine(kind="endpoint", url=url, model="m").url == url.rstrip("/")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"url": "localhost:8000"}, "begins with http"),
        ({"url": "http://me:pw@host"}, "holds no key"),
        ({"url": "http://host/v1?key=1"}, "holds no key"),
        ({"url": "http://host/v1/chat/completions"}, "ends before `/chat/completions`"),
        ({"model": ""}, "at least 1 character"),
        ({"api_key_env": "sk-123"}, "should match pattern"),
        ({"body": {"prompt": "x"}}, "assay sets `prompt` itself"),
        ({"api": "chat", "prompts": "text"}, "chat gets messages"),
        ({"retries": {"tries": 0}}, "greater than or equal to 1"),
        ({"timeout": 3}, "Extra inputs"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        EndpointEngine.model_validate({"kind": "endpoint", "url": "http://host", "model": "m", **given})


def test_the_key_comes_from_its_variable_alone() -> None:
    assert read_key(None) is None
    assert read_key("A", environment={"A": " sk-1 \n"}) == "sk-1"
    for value in ({}, {"A": "  "}):
        with pytest.raises(NoKey, match="environment variable A, which is not set: export A="):
            read_key("A", environment=value)
    with pytest.raises(NoKey, match="no HTTP header can hold"):
        read_key("A", environment={"A": "sk\u00e4"})


def test_the_key_is_taken_out_however_it_is_written() -> None:
    scrub = Scrub(KEY)
    for form in (KEY, KEY.replace('"', '\\"'), "sk-%2F4%227%2Bsecret-of-a-user", "sk-/4%227%2Bsecret-of-a-user"):
        assert "secret" not in scrub.words(f"Incorrect key: Bearer {form}, see\n docs")
        assert "secret" not in scrub.lines(f"a\n{form}\nb") and "secret" not in scrub.answer(form)
    assert scrub.words("a\n b") == "a b" and len(scrub.words("x" * 5000)) < 700
    short = Scrub("EMPTY")
    assert short.answer("EMPTY is a word") == "EMPTY is a word", "a placeholder is no secret"
    assert short.words("key EMPTY") == "key ***"


def test_the_root_of_a_server_is_where_its_v1_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for base, root in (("http://h/v1", "http://h"), ("http://h/api", "http://h/api"), ("http://h/x/v3", "http://h/x")):
        assert Http.root.fget(type("Base", (), {"base": base})()) == root  # type: ignore[attr-defined]
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "inside.example.com")
    assert proxy_of("https://api.example.com/v1") == "http://proxy:3128"
    assert proxy_of("https://inside.example.com/v1") is None


def metrics(**numbers: float) -> str:
    """vLLM's text of them, of one engine, with what else is there."""
    known = {
        "num_requests_running": 2.0,
        "num_requests_waiting": 1.0,
        "kv_cache_usage_perc": 0.25,
        "iteration_tokens_total_count": 10.0,
        "prompt_tokens_total": 100.0,
        "prompt_tokens_cached_total": 40.0,
        "generation_tokens_total": 50.0,
        "prefix_cache_queries_total": 100.0,
        "prefix_cache_hits_total": 40.0,
        "num_preemptions_total": 0.0,
    } | numbers
    lines = [f'vllm:{name}{{engine="0",model_name="m"}} {value}' for name, value in known.items()]
    noise = ["# HELP vllm:num_requests_running x", 'vllm:iteration_tokens_total_bucket{le="1.0"} 3.0', "python_x 1.0"]
    return "\n".join([*noise, *lines, 'vllm:num_requests_waiting_by_reason{reason="x"} 9.0']) + "\n"


def test_readings_are_steps_with_what_the_counters_grew_by() -> None:
    readings = Readings()
    assert readings.take(read_metrics(metrics()), at=1.0) is None, "the first one only says where they stand"
    now = {"iteration_tokens_total_count": 25.0, "prompt_tokens_total": 180.0, "prompt_tokens_cached_total": 60.0}
    more = {"generation_tokens_total": 90.0, "prefix_cache_queries_total": 180.0, "prefix_cache_hits_total": 60.0}
    found = readings.take(read_metrics(metrics(**now, **more, num_preemptions_total=2.0)), at=1.5)
    assert found is not None
    (row,) = found.steps
    assert (row.step, row.stands_for, row.ended_at, row.step_ms) == (0, 15, 1.5, None)
    assert (row.running, row.waiting, row.kv_usage, row.preempted) == (2, 1, 0.25, 2)
    assert (row.prompt_tokens, row.decode_tokens) == (None, None), "of no single step"
    totals = found.totals
    assert (totals.steps, totals.sent, totals.timed, totals.counted) == (15, 1, 0, 15)
    assert (totals.prompt_tokens, totals.decode_tokens) == (80 - 20, 40)
    assert (totals.prefix_queries, totals.prefix_hits, totals.preempted) == (80, 20, 2)
    assert (totals.kv_read, totals.kv_usage_sum, totals.kv_usage_max) == (1, 0.25, 0.25)
    assert readings.take(read_metrics(metrics(**now, **more, num_preemptions_total=2.0)), at=2.0) is None
    later = now | {"iteration_tokens_total_count": 26.0}
    following = readings.take(read_metrics(metrics(**later, **more, num_preemptions_total=2.0)), at=2.5)
    assert following is not None and (following.steps[0].step, following.steps[0].stands_for) == (15, 1)


def test_the_cache_of_an_idle_server_is_not_what_its_steps_used() -> None:
    readings = Readings()
    readings.take(read_metrics(metrics()), at=1.0)
    idle = metrics(iteration_tokens_total_count=12.0, num_requests_running=0.0, kv_cache_usage_perc=0.0)
    found = readings.take(read_metrics(idle), at=2.0)
    assert found is not None
    assert (found.steps[0].kv_usage, found.totals.kv_read, found.totals.steps) == (None, 0, 2)


def test_what_grew_without_a_step_is_counted_with_the_next() -> None:
    readings = Readings()
    readings.take(read_metrics(metrics()), at=1.0)
    assert readings.take(read_metrics(metrics(prefix_cache_queries_total=110.0)), at=1.5) is None
    found = readings.take(
        read_metrics(metrics(prefix_cache_queries_total=115.0, iteration_tokens_total_count=11.0)), at=2.0
    )
    assert found is not None and found.totals.prefix_queries == 15


def test_a_server_that_was_started_anew_counts_from_nothing() -> None:
    readings = Readings()
    readings.take(read_metrics(metrics()), at=1.0)
    fresh = metrics(
        iteration_tokens_total_count=3.0,
        generation_tokens_total=4.0,
        prompt_tokens_total=6.0,
        prompt_tokens_cached_total=0.0,
        prefix_cache_queries_total=6.0,
        prefix_cache_hits_total=0.0,
    )
    found = readings.take(read_metrics(fresh), at=2.0)
    assert found is not None
    assert (found.totals.steps, found.totals.decode_tokens, found.totals.prompt_tokens) == (3, 4, 6)


def test_several_engines_behind_one_server_are_one() -> None:
    text = metrics() + metrics(kv_cache_usage_perc=0.75).replace('engine="0"', 'engine="1"')
    found = read_metrics(text)
    assert (found["num_requests_running"], found["kv_cache_usage_perc"]) == (4.0, 0.5)
    assert found["iteration_tokens_total_count"] == 20.0


def test_counters_go_by_the_workers_names() -> None:
    found = counters(metrics())
    assert found["vllm:num_preemptions"] == 0.0 and found["vllm:prefix_cache_hits"] == 40.0
    assert not any("bucket" in name for name in found)
    assert read_metrics("nothing of vLLM\n") == {}
    assert Readings().take({}, at=1.0) is None
