"""Clients whose clock is another one: in a time namespace of their own, as another machine's would be.

The server is one of this machine and writes down when each call came, so that what is said of a time can be checked."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pytest

from schemas.errors import ConfigError, EngineError
from tasks.engine.client import EngineClient
from tasks.engine.failure import EngineDied
from tasks.engine.protocol import WireRequest, WireSampling
from tasks.engine.settings import ProcessSettings
from tasks.engine.ticket import VARIABLE, BadTicket, Ticket
from tasks.load.arrivals import Stretch, due, gaps
from tasks.load.clients import Clients, beside
from tasks.load.elsewhere import ClientElsewhere, Meeting, address_towards
from tasks.load.lend import lent, wait_for_the_end
from tasks.load.send import Planned, Sent, send
from tests.bench.endpoint import FIRST_NUMBER, served
from tests.conftest import ROOT
from tests.machines import HAS_NAMESPACES, elsewhere

AHEAD_S = 5000.0
TTFT_S, TPOT_S, TOKENS = 0.03, 0.005, 8


another_clock = pytest.mark.skipif(not HAS_NAMESPACES, reason="no time namespaces here (unshare -T)")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with served(tokens=TOKENS, ttft_s=TTFT_S, tpot_s=TPOT_S) as url:
        yield url


@contextmanager
def machines(
    meeting: Meeting, *hosts: str, ahead_s: float = AHEAD_S, variables: Mapping[str, str] | None = None
) -> Iterator[list[subprocess.Popen[str]]]:
    """For each name a client on a machine of that name, with a clock of its own."""
    environment = os.environ | {VARIABLE: meeting.ticket.text(), "PYTHONPATH": str(ROOT)} | dict(variables or {})
    command = [sys.executable, "-m", "tasks.engine.endpoint", meeting.address, "0.0"]
    started: list[subprocess.Popen[str]] = []
    try:
        for name in hosts:
            started.append(
                subprocess.Popen(
                    elsewhere(name, *command, ahead_s=ahead_s),
                    env=environment,
                    text=True,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    cwd=ROOT,
                )
            )
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


@contextmanager
def together(folder: Path, url: str, *hosts: str, here: int = 1, **options: Any) -> Iterator[Clients]:
    """Clients of this machine and of others, built."""
    settings = ProcessSettings(cores=(), program="endpoint")
    with ExitStack() as stack:
        first = stack.enter_context(EngineClient(log_path=folder / "engine.log", settings=settings))
        first.build(model="tiny", options={"url": url, **options})
        meeting = stack.enter_context(Meeting(address="127.0.0.1"))
        stack.enter_context(machines(meeting, *hosts))
        came = meeting.gather(len(hosts), within_s=60, say=lambda *_: None, look=lambda: None)
        yield stack.enter_context(beside(first, n=here, elsewhere=came))


def requests(rate: float, seconds: float, *, begin: int) -> list[Planned]:
    """An open load; the number of each request, which the server knows it by, is its prompt's first token."""
    times = due([Stretch(start=rate, end=rate, seconds=seconds)], gaps("poisson", random=Random(begin)))
    sampling = WireSampling(temperature=0.0, max_tokens=TOKENS)
    return [
        Planned(
            request=WireRequest(
                request_id=str(begin + number), prompt_token_ids=[begin + number, 1, 2], sampling=sampling
            ),
            due_s=at,
        )
        for number, at in enumerate(times)
    ]


def times_at(server: str) -> dict[int, list[float]]:
    """By number: when its call came, and when its first token left, by this machine's clock."""
    with urllib.request.urlopen(f"{server}/times") as said:
        return {int(number): times for number, times in json.load(said).items()}


@pytest.fixture(scope="module")
def load(server: str, tmp_path_factory: pytest.TempPathFactory) -> Sent:
    with together(tmp_path_factory.mktemp("load"), server, "elsewhere-a", "elsewhere-b") as clients:
        return send(clients, requests(60, 3, begin=1000), wait_for_s=30)


@another_clock
def test_the_load_is_dealt_out_over_the_machines(load: Sent) -> None:
    assert not load.left and not [result.error for _, result in load.answered if result.error]
    clients = [result.client or "" for _, result in load.answered]
    names = sorted(set(clients))
    assert [name for name in names if name.startswith("elsewhere")] == ["elsewhere-a/1", "elsewhere-b/1"]
    assert len(names) == 3 and max(map(clients.count, names)) - min(map(clients.count, names)) <= 1


@another_clock
def test_times_of_another_clock_are_right_within_what_is_said(load: Sent, server: str) -> None:
    times, far = times_at(server), 0
    for asked, result in load.answered:
        came_at, left_at = times[int(result.request_id)]
        off_s = 0.0 if result.clock_error_ms is None else result.clock_error_ms / 1000
        assert result.first_token_at is not None and result.handed_ms is not None
        assert asked.submitted_at - off_s <= result.sent_at <= came_at + off_s
        assert left_at - off_s <= result.first_token_at <= result.finished_at
        assert result.first_token_at - result.sent_at >= TTFT_S - 0.001
        if (result.client or "").startswith("elsewhere"):
            far += 1
            assert result.clock_error_ms is not None and 0 < result.clock_error_ms < 5
        else:
            assert result.clock_error_ms is None
    assert far >= 2 * len(load.answered) // 3 - 1


@another_clock
def test_one_that_goes_is_told_of(server: str, tmp_path: Path) -> None:
    settings = ProcessSettings(cores=(), program="endpoint")
    with ExitStack() as stack:
        first = stack.enter_context(EngineClient(log_path=tmp_path / "engine.log", settings=settings))
        first.build(model="tiny", options={"url": server})
        meeting = stack.enter_context(Meeting(address="127.0.0.1"))
        [process] = stack.enter_context(machines(meeting, "goes"))
        [came] = meeting.gather(1, within_s=60, say=lambda *_: None, look=lambda: None)
        clients = stack.enter_context(beside(first, n=1, elsewhere=[came]))
        for child in psutil.Process(process.pid).children(recursive=True):
            child.send_signal(signal.SIGKILL)
        with pytest.raises(EngineDied, match=r"the client goes/1 failed .*\n?it was client 2 of 2"):
            send(clients, requests(20, 15, begin=5000), wait_for_s=30)


@another_clock
def test_a_run_that_is_gone_is_noticed_there(server: str) -> None:
    with Meeting(address="127.0.0.1") as meeting, machines(meeting, "stays") as [process]:
        meeting.gather(1, within_s=60, say=lambda *_: None, look=lambda: None)
        meeting.socket.close()
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 3
    assert f"the run at {meeting.address} is gone" in said


@another_clock
def test_clients_without_the_key_say_which_is_missing(server: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("THE_KEY", "sk-0123456789abcdef")
    settings = ProcessSettings(cores=(), program="endpoint")
    with ExitStack() as stack:
        first = stack.enter_context(EngineClient(log_path=tmp_path / "engine.log", settings=settings))
        first.build(model="tiny", options={"url": server, "api_key_env": "THE_KEY"})
        meeting = stack.enter_context(Meeting(address="127.0.0.1"))
        stack.enter_context(machines(meeting, "keyless", variables={"THE_KEY": ""}))
        came = meeting.gather(1, within_s=60, say=lambda *_: None, look=lambda: None)
        with pytest.raises(EngineDied, match=r"keyless/1 .*THE_KEY, which is not set"):
            stack.enter_context(beside(first, n=1, elsewhere=came))


def test_without_the_ticket_nobody_gets_in() -> None:
    with Meeting(address="127.0.0.1") as meeting, Meeting(address="127.0.0.1") as other:
        stranger = Ticket(server=meeting.ticket.server, public=other.ticket.public, secret=other.ticket.secret)
        environment = os.environ | {VARIABLE: stranger.text(), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "tasks.engine.endpoint", meeting.address, "0.0"]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, cwd=ROOT)
        try:
            with pytest.raises(EngineError, match=r"0 of 1 clients .* within 4 s \(none\)"):
                meeting.gather(1, within_s=4, say=lambda *_: None, look=lambda: None)
        finally:
            process.kill()
            process.wait()


def test_this_machine_lends_itself(server: str, tmp_path: Path) -> None:
    """What the flow `client` does, on the machine of the run itself."""
    settings = ProcessSettings(cores=(), program="endpoint")
    with ExitStack() as stack:
        first = stack.enter_context(EngineClient(log_path=tmp_path / "engine.log", settings=settings))
        first.build(model="tiny", options={"url": server})
        meeting = Meeting(address="127.0.0.1")
        with lent(address=meeting.address, ticket=meeting.ticket.text(), processes=2, logs=tmp_path) as processes:
            came = meeting.gather(2, within_s=60, say=lambda *_: None, look=lambda: None)
            with beside(first, n=1, elsewhere=came) as clients:
                sent = send(clients, requests(30, 1, begin=FIRST_NUMBER), wait_for_s=30)
            assert {(result.client or "").rpartition("/")[2] for _, result in sent.answered} == {"1", "2"}
            assert all(process.returncode is None for process in processes)
            meeting.close()
            began = time.monotonic()
            wait_for_the_end(processes)
            assert time.monotonic() - began < 5


def test_what_is_no_address_and_no_ticket(tmp_path: Path) -> None:
    ticket = Ticket.new()[0]
    assert Ticket.read(ticket.text()) == ticket
    assert ticket.secret.decode() not in repr(ticket)
    for text in ("", "short", "x" * 86 + "!", ticket.text()[:-2]):
        with pytest.raises(BadTicket):
            Ticket.read(text)
        with (
            pytest.raises(ConfigError, match="the ticket is none"),
            lent(address="tcp://h:1", ticket=text, processes=1, logs=tmp_path),
        ):
            pass
    with (
        pytest.raises(ConfigError, match="is no address of a run"),
        lent(address="http://h", ticket=ticket.text(), processes=1, logs=tmp_path),
    ):
        pass


def test_a_port_that_is_taken() -> None:
    with Meeting(address="127.0.0.1") as meeting:
        with pytest.raises(EngineError, match=f"the port {meeting.port} .* cannot be used"):
            Meeting(address="127.0.0.1", port=meeting.port)
        assert address_towards(f"http://127.0.0.1:{meeting.port}/api") == "127.0.0.1"
        assert isinstance(ClientElsewhere(meeting, b"x", name="x/1").silent_s, float)
