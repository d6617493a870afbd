"""MLflow down, silent, slow, full, killed, restarted: a run goes on within bounds, a replay leaves one of each."""

import contextlib
import json
import multiprocessing
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.record import mlflow_run, stage
from tasks.record.tracking import spool, store, sync
from tasks.record.tracking.errors import TrackingError
from tasks.session import Session
from tests.mlflow_parts import (
    MlflowServer,
    Proxy,
    Stored,
    always_answering,
    answered,
    assert_whole,
    begun,
    ended,
    free_port,
    silent,
    whole_run,
)
from warehouse.parquet import read_rows

MOST_LOST_S = 15.0
SHORT = 4
"""`in_short`: all times by this."""


@pytest.fixture
def stored(mlflow_server: MlflowServer) -> Stored:
    return Stored(mlflow_server.folder / "mlflow.db")


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    return lambda url: monkeypatch.setenv("MLFLOW_TRACKING_URI", url)


@pytest.fixture
def in_short(monkeypatch: pytest.MonkeyPatch) -> float:
    """Every bound a quarter of what it is, so that waiting for it is short; gives the most that a run may then lose."""
    assert sync.BEGIN_S + sync.END_S <= MOST_LOST_S
    for name in ("BEGIN_S", "END_S", "CLOSE_S", "OTHERS_S", "PROBE_S", "AGAIN_S"):
        monkeypatch.setattr(sync, name, getattr(sync, name) / SHORT)
    return MOST_LOST_S / SHORT


def run_without_tracking(home: Path) -> tuple[Session, float, list[str]]:
    """A whole run as the flow drives it while MLflow cannot take it; gives what that cost and the warnings."""
    store.warm_up()
    session, warnings = begun(home), []
    began = time.monotonic()
    with pytest.raises(TrackingError) as first:
        stage.start_tracking(session)
    cost = time.monotonic() - began
    answered(session)
    began = time.monotonic()
    with pytest.raises(TrackingError) as second:
        ended(session)
    cost += time.monotonic() - began
    warnings += [str(first.value), str(second.value)]
    assert spool.waiting(home) == [session.run.run_id]
    assert all("assay sync" in warning for warning in warnings)
    row = read_rows(home, "runs", session.run.run_id)[0]
    assert row["status"] == "finished" and row["mlflow_run_id"] is None
    return session, cost, warnings


def replayed(home: Path, session: Session, stored: Stored) -> None:
    """Brings it to MLflow, and looks whether all of it is there once, with the run's own times and status."""
    before = read_rows(home, "runs", session.run.run_id)[0]
    assert sync.sync(home) == sync.Synced(replayed=[session.run.run_id])
    parent, *_ = assert_whole(stored, session.run.run_id)
    after = read_rows(home, "runs", session.run.run_id)[0]
    assert parent["start"] == int(before["started_at"].timestamp() * 1000)
    assert parent["end"] == int(before["ended_at"].timestamp() * 1000)
    assert after == before | {"mlflow_run_id": parent["id"], "revision": before["revision"] + 1}
    assert spool.waiting(home) == [] and sync.sync(home) == sync.Synced()
    assert assert_files(parent) > 6


def assert_files(parent: dict) -> int:
    from mlflow import MlflowClient

    client = MlflowClient()
    top = [file.path for file in client.list_artifacts(parent["id"])]
    assert {"report.html", "experiment.yaml", "engine.log", "figures"} <= set(top) and len(top) == len(set(top))
    figures = client.list_artifacts(parent["id"], "figures")
    assert [figure.path for figure in figures] == ["figures/quality.png"]
    return len(top)


@pytest.mark.parametrize("retries", ["0", "1"])
def test_down(empty_home: Path, mlflow_server: MlflowServer, stored: Stored, use, monkeypatch, retries: str) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", retries)
    use(f"http://127.0.0.1:{free_port()}")
    session, cost, _ = run_without_tracking(empty_home)
    print(f"\ndown, {retries} retries: the run lost {cost:.1f} s")
    assert cost <= MOST_LOST_S
    use(mlflow_server.url)
    replayed(empty_home, session, stored)


def test_silent(
    empty_home: Path, mlflow_server: MlflowServer, stored: Stored, use, monkeypatch, in_short: float
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    with silent() as url:
        use(url)
        session, cost, warnings = run_without_tracking(empty_home)
    print(f"\nsilent: the run lost {cost:.1f} s")
    assert cost <= in_short and "no answer within" in warnings[0]
    use(mlflow_server.url)
    replayed(empty_home, session, stored)


@pytest.mark.usefixtures("in_short")
def test_a_run_that_is_broken_off_is_not_kept_waiting_again(empty_home: Path, use) -> None:
    store.warm_up()
    with silent() as url:
        use(url)
        session = begun(empty_home)
        with pytest.raises(TrackingError):
            stage.start_tracking(session)
        stage.end(session, status="cancelled", error="interrupted")
        began = time.monotonic()
        with pytest.raises(TrackingError):
            mlflow_run.close_run(session.run.home, session.run.run_id)
        assert time.monotonic() - began < 0.5
    waiting = spool.read(empty_home, session.run.run_id)
    assert waiting is not None and waiting.publication.status == "KILLED"


def test_slow(empty_home: Path, mlflow_server: MlflowServer, stored: Stored, use, in_short: float) -> None:
    def fate(number: int) -> str:
        time.sleep(1.2 / SHORT)
        return "pass"

    proxy = Proxy(mlflow_server.url, fate)
    use(proxy.url)
    session, cost, _ = run_without_tracking(empty_home)
    print(f"\nslow, {1.2 / SHORT:.1f} s an answer: the run lost {cost:.1f} s")
    assert cost <= in_short
    use(mlflow_server.url)
    replayed(empty_home, session, stored)
    proxy.close()


@pytest.mark.parametrize(("status", "body"), [(507, b"no room"), (500, b"disk full"), (200, b"<html>log in</html>")])
def test_full_or_answering_nonsense(
    empty_home: Path, mlflow_server: MlflowServer, stored: Stored, use, status: int, body: bytes
) -> None:
    with always_answering(status, body) as url:
        use(url)
        session, cost, warnings = run_without_tracking(empty_home)
        again = sync.sync(empty_home)
    assert cost <= MOST_LOST_S
    assert list(again.remaining) == [session.run.run_id] and again.replayed == []
    if status == 507:
        assert "507" in warnings[0]
    use(mlflow_server.url)
    replayed(empty_home, session, stored)


@contextlib.contextmanager
def blocked(folder: Path) -> Iterator[None]:
    """A file where the folder should be: nothing can be written below it."""
    aside = folder.with_name(f"{folder.name}-aside")
    folder.mkdir(exist_ok=True)
    folder.rename(aside)
    folder.write_text("no room")
    try:
        yield
    finally:
        folder.unlink()
        aside.rename(folder)


def test_the_artifact_store_is_full(empty_home: Path, mlflow_server: MlflowServer, stored: Stored, use) -> None:
    """Numbers and status are there at once; the files follow when there is room."""
    use(mlflow_server.url)
    with blocked(mlflow_server.artifacts):
        session = begun(empty_home)
        stage.start_tracking(session)
        answered(session)
        with pytest.raises(TrackingError):
            ended(session)
        assert_whole(stored, session.run.run_id)
        assert list(sync.sync(empty_home).remaining) == [session.run.run_id]
    assert sync.sync(empty_home) == sync.Synced(replayed=[session.run.run_id])
    parent, *_ = assert_whole(stored, session.run.run_id)
    assert_files(parent)


def test_restarted_in_the_middle_of_a_run_then_the_next_run_replays(
    empty_home: Path, mlflow_server: MlflowServer, stored: Stored, use
) -> None:
    use(mlflow_server.url)
    session = begun(empty_home)
    stage.start_tracking(session)
    mlflow_server.kill()
    try:
        answered(session)
        with pytest.raises(TrackingError):
            ended(session)
    finally:
        mlflow_server.start()
    assert [run["status"] for run in stored.runs(session.run.run_id)] == ["RUNNING"]
    following = begun(empty_home)
    stage.start_tracking(following)
    assert_whole(stored, session.run.run_id)
    assert [run["status"] for run in stored.runs(following.run.run_id)] == ["RUNNING"]
    assert spool.waiting(empty_home) == []


def test_what_others_left_never_fails_a_run(empty_home: Path, use) -> None:
    use(f"http://127.0.0.1:{free_port()}")
    left, _, _ = run_without_tracking(empty_home)
    folder = empty_home / "spool" / "mlflow" / left.run.run_id
    document = json.loads((folder / "publication.json").read_text())
    (folder / "publication.json").write_text(json.dumps(document | {"version": 99}))
    broken = empty_home / "spool" / "mlflow" / "20260101T000000-aaaaaa"
    broken.mkdir()
    (broken / "publication.json").write_text('{"version": 1')
    use(f"sqlite:///{empty_home / 'mlflow.db'}")
    whole_run(empty_home)
    remaining = sync.sync(empty_home).remaining
    assert set(remaining) == {left.run.run_id, broken.name}
    assert "newer assay" in remaining[left.run.run_id] and "no document of this assay" in remaining[broken.name]


def test_a_document_that_was_replaced_meanwhile_stays(empty_home: Path) -> None:
    session = begun(empty_home)
    mlflow_run.prepare(empty_home, session.run.run_id)
    first = spool.read(empty_home, session.run.run_id)
    stage.end(session, status="finished")
    assert first is not None
    spool.done(empty_home, session.run.run_id, first)
    second = spool.read(empty_home, session.run.run_id)
    assert second is not None and second.publication.status == "FINISHED"
    spool.done(empty_home, session.run.run_id, second)
    assert spool.waiting(empty_home) == []


def test_three_at_once_leave_one_of_each(empty_home: Path) -> None:
    session = begun(empty_home)
    answered(session)
    stage.end(session, status="finished")
    threads = [threading.Thread(target=sync.sync, args=(empty_home,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_whole(Stored(empty_home / "mlflow.db"), session.run.run_id)


class Cutting:
    """A run that waits in the spool, and a proxy that lets something happen at a request of one's choice."""

    def __init__(self, home: Path, server: MlflowServer, use: Callable[[str], None]) -> None:
        self.home, self.server, self.use = home, server, use
        self.at: int | None = None
        self.act: Callable[[], str] = lambda: "drop"
        self.proxy = Proxy(server.url, self._fate)

    def _fate(self, number: int) -> str:
        return self.act() if number == self.at else "pass"

    def waiting_run(self) -> Session:
        session = begun(self.home)
        answered(session)
        (session.run.folder / "figures").mkdir()
        (session.run.folder / "figures" / "quality.png").write_bytes(b"\x89PNG quality")
        stage.end(session, status="finished", warnings=["short"])
        return session

    def begin(self, at: int | None, act: Callable[[], str]) -> None:
        self.proxy.count, self.at, self.act = 0, at, act
        self.proxy.lines.clear()
        self.use(self.proxy.url)

    def requests_of_a_publication(self) -> list[str]:
        """The requests that one takes: the points at which it can be cut. The first publication of a store makes the
        experiment as well; all others take the same, so they are looked at once for each server."""
        if self.server.port not in _SEEN:
            for _ in range(2):
                self.waiting_run()
                self.begin(None, lambda: "pass")
                assert sync.sync(self.home).remaining == {}
            _SEEN[self.server.port] = list(self.proxy.lines)
            print("\n" + "\n".join(f"{n:3d} {line}" for n, line in enumerate(self.proxy.lines, 1)))
        return _SEEN[self.server.port]


_RUN = re.compile(r"[0-9a-f]{32}")
_SEEN: dict[int, list[str]] = {}
"""The requests of a publication, by the port of the server."""


@pytest.fixture
def cutting(empty_home: Path, mlflow_server: MlflowServer, use) -> Iterator[Cutting]:
    made = Cutting(empty_home, mlflow_server, use)
    yield made
    made.proxy.close()


@pytest.mark.parametrize("fate", ["drop", "lose"])
@pytest.mark.parametrize(
    "where", ["/create", "/log-batch", pytest.param("", marks=pytest.mark.slow, id="every request")]
)
def test_cut_off_and_replayed(cutting: Cutting, stored: Stored, where: str, fate: str) -> None:
    """The connection breaks before the n-th request arrives, or after it was served. Three are alike, for the run and
    its two children: of those the first and the last; every request there is has its turn in the slow suite."""
    points = cutting.requests_of_a_publication()
    assert len(points) > 20
    chosen = [n for n, line in enumerate(points, 1) if line.endswith(where)]
    assert len(chosen) >= 3
    if where:
        chosen = [chosen[0], chosen[-1]]
    for n in chosen:
        session = cutting.waiting_run()
        cutting.begin(n, lambda: fate)
        sync.sync(cutting.home)
        sent = [_RUN.sub("RUN", line) for line in (cutting.proxy.lines[n - 1], points[n - 1])]  # another run each time
        assert sent[0] == sent[1], "the n-th request is the one that was chosen"
        cutting.use(cutting.server.url)
        replayed_once_more(cutting, session, stored)
    print(f"{fate}: {len(chosen)} points, nothing twice, nothing missing")


def replayed_once_more(cutting: Cutting, session: Session, stored: Stored) -> None:
    cutting.use(cutting.server.url)
    assert sync.sync(cutting.home).remaining == {}
    runs = assert_whole(stored, session.run.run_id)
    row = read_rows(cutting.home, "runs", session.run.run_id)[0]
    assert row["mlflow_run_id"] == runs[0]["id"] and row["status"] == "finished"
    assert_files(runs[0])


def test_an_answer_that_is_lost_and_asked_for_again_by_mlflow_itself(
    cutting: Cutting, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow's client repeats a POST whose answer did not come: the run is made twice, and one of them goes."""
    points = cutting.requests_of_a_publication()
    creating = [n for n, line in enumerate(points, 1) if line.endswith("runs/create")]
    assert len(creating) == 3
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    for n in (creating[0], creating[-1]):
        session = cutting.waiting_run()
        cutting.begin(n, lambda: "lose")
        assert sync.sync(cutting.home).remaining == {}
        assert_whole(stored, session.run.run_id)


@pytest.mark.slow
def test_the_publisher_is_killed_at_every_request(cutting: Cutting, stored: Stored) -> None:
    """kill -9 of the process that publishes, at its n-th request, for every n; another process then replays."""
    fork = multiprocessing.get_context("fork")
    points = len(cutting.requests_of_a_publication())
    publisher: list[int] = []

    def kill() -> str:
        os.kill(publisher[-1], signal.SIGKILL)
        return "lose"

    for n in range(1, points + 1):
        session = cutting.waiting_run()
        cutting.begin(n, kill)
        child = fork.Process(target=_publish_when_told, args=(cutting.home, session.run.run_id))
        child.start()
        publisher.append(child.pid or 0)
        (cutting.home / "go").touch()
        child.join(60)
        assert child.exitcode == -signal.SIGKILL, n
        (cutting.home / "go").unlink()
        replayed_once_more(cutting, session, stored)
    print(f"kill -9 of the publisher: {points} points, nothing twice, nothing missing")


def _publish_when_told(home: Path, run_id: str) -> None:
    while not (home / "go").exists():
        time.sleep(0.01)
    sync.publish_waiting(home, run_id, deadline=store.Deadline(None))


@pytest.mark.slow
@pytest.mark.parametrize("n", [5, 9, 14, 20])
def test_the_server_is_killed_and_restarted(cutting: Cutting, stored: Stored, n: int) -> None:
    """kill -9 of the server while it has the n-th request."""
    session = cutting.waiting_run()

    def kill() -> str:
        cutting.server.kill()
        return "drop"

    cutting.begin(n, kill)
    assert list(sync.sync(cutting.home).remaining) == [session.run.run_id]
    cutting.server.start()
    replayed_once_more(cutting, session, stored)
