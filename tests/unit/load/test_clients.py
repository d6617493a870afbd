"""Several processes as one server, against null engines."""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from socket import gethostname
from statistics import median
from typing import Any

import psutil
import pytest

from schemas.errors import EngineError
from tasks.engine.client import EngineClient
from tasks.engine.failure import EngineDied
from tasks.engine.protocol import WireRequest, WireResult, WireSampling
from tasks.engine.settings import ProcessSettings
from tasks.load.arrivals import Stretch, due, gaps
from tasks.load.clients import Clients, beside, conversation
from tasks.load.send import Planned, send


def request(name: str, *, max_tokens: int = 5) -> WireRequest:
    sampling = WireSampling(temperature=0.0, max_tokens=max_tokens)
    return WireRequest(request_id=name, prompt_token_ids=[1], sampling=sampling)


@contextmanager
def nulls(folder: Path, n: int, **script: Any) -> Iterator[Clients]:
    settings = ProcessSettings(cores=(), program="null")
    with EngineClient(log_path=folder / "engine.log", settings=settings) as first:
        first.build(model="null", options=script)
        with beside(first, n=n) as clients:
            yield clients


@pytest.mark.parametrize("n", [2, 4])
def test_the_load_is_dealt_out_and_adds_up(tmp_path: Path, n: int) -> None:
    with nulls(tmp_path, n, ttft_ms=40.0, tpot_ms=10.0) as clients:
        assert len(set(clients.pids)) == n
        times = list(due([Stretch(start=200, end=200, seconds=2)], gaps("poisson", random=Random(5))))
        plan = [Planned(request=request(str(number)), due_s=at) for number, at in enumerate(times)]
        sent = send(clients, plan, wait_for_s=30)
    assert not sent.left
    assert sorted(int(result.request_id) for _, result in sent.answered) == list(range(len(times)))
    assert all(len(result.token_ids) == 5 for _, result in sent.answered)
    sent_by = Counter(result.client for _, result in sent.answered)
    assert sorted(sent_by, key=str) == [f"{gethostname()}/{number}" for number in range(1, n + 1)]
    assert max(sent_by.values()) - min(sent_by.values()) <= 1
    handed = [result.handed_ms for _, result in sent.answered if result.handed_ms is not None]
    assert len(handed) == len(times) and min(handed) >= 0 and median(handed) < 20
    assert all(result.clock_error_ms is None for _, result in sent.answered)
    took = max(result.finished_at for _, result in sent.answered) - sent.began_at
    assert len(sent.answered) / took == pytest.approx(len(times) / (times[-1] + 0.08), rel=0.25)


def test_results_come_as_soon_as_one_has_them(tmp_path: Path) -> None:
    with nulls(tmp_path, 2, ttft_ms=0.0) as clients:
        began = time.monotonic()
        clients.submit([request("a", max_tokens=1), request("b", max_tokens=1)])
        found: list[WireResult] = []
        while len(found) < 2:
            found += clients.results(wait_s=5)
        assert time.monotonic() - began < 2
        assert {result.request_id for result in found} == {"a", "b"}
        began = time.monotonic()
        assert list(clients.results(wait_s=0.3)) == []
        assert time.monotonic() - began == pytest.approx(0.3, abs=0.15)


def test_the_turns_of_a_conversation_go_to_one_process(tmp_path: Path) -> None:
    went: dict[str, set[str]] = {}
    loads: Counter[str] = Counter()
    assert conversation(request("a.1")) == "a" and conversation(request("a")) is None
    with nulls(tmp_path, 3) as clients:
        for turn in range(4):
            for session in "abcdef":
                clients.submit([request(f"{session}.{turn}", max_tokens=1)])
                while not (found := list(clients.results(wait_s=5))):
                    pass
                [result] = found
                assert result.request_id == f"{session}.{turn}" and result.client is not None
                went.setdefault(session, set()).add(result.client)
                loads[result.client] += 1
    assert all(len(each) == 1 for each in went.values())
    assert set(loads.values()) == {8}


def test_one_that_dies_is_told_of_with_its_log(tmp_path: Path) -> None:
    with nulls(tmp_path, 3, ttft_ms=60_000.0) as clients:
        clients.submit([request(str(number)) for number in range(6)])
        (tmp_path / "engine.client-2.log").open("a").write("what it said last\n")
        [victim] = psutil.Process(clients.pids[1]).children()
        os.kill(victim.pid, signal.SIGKILL)
        with pytest.raises(EngineDied) as died:
            for _ in range(50):
                list(clients.results(wait_s=0.2))
    assert "engine.client-2.log" in str(died.value) and "what it said last" in str(died.value)
    assert str(died.value).endswith("it was client 2 of 3")
    assert died.value.status == 128 + signal.SIGKILL


def test_the_others_end_with_it_and_the_first_goes_on(tmp_path: Path) -> None:
    settings = ProcessSettings(cores=(), program="null")
    with EngineClient(log_path=tmp_path / "engine.log", settings=settings) as first:
        with pytest.raises(ValueError, match="not built"), beside(first, n=2):
            pass
        first.build(model="null", options={})
        with beside(first, n=3) as clients:
            others = clients.pids[1:]
        assert not any(psutil.pid_exists(pid) for pid in others)
        assert first.stats() == {}
        with beside(first, n=1) as alone:
            assert alone.pids == [first.pid]
            sent = send(alone, [Planned(request=request("x"), due_s=0.0)], wait_for_s=30)
            assert len(sent.answered) == 1


def test_one_that_says_nothing_counts_where_it_has_work(tmp_path: Path) -> None:
    with nulls(tmp_path, 2, ttft_ms=60_000.0) as clients:
        time.sleep(0.3)
        assert clients.silent_s == 0.0
        clients.submit([request("a")])
        time.sleep(0.2)
        assert clients.silent_s == pytest.approx(0.2, abs=0.15)
        assert "engine.log" in str(clients.hung("it says nothing"))
        clients.abort_all()
        assert clients.silent_s == 0.0


def test_another_clock_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with nulls(tmp_path, 2) as clients:
        clients.submit([request("a", max_tokens=1)])
        real = time.monotonic
        monkeypatch.setattr("tasks.load.clients.time.monotonic", lambda: real() - 100)
        with pytest.raises(EngineError, match=r"client 1 of 2 \(\S+/1\) has another clock"):
            for _ in range(50):
                list(clients.results(wait_s=0.2))


def test_no_client() -> None:
    with pytest.raises(ValueError, match="no client"):
        Clients([])
