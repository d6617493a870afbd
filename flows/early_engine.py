"""The engine's process, started by `assay run` beside Prefect's temporary server: both take seconds, on a core each.

The flow takes it over when its run has a folder. It is handed over here, as a flow's parameters are recorded.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from flows.shelf import current
from schemas.experiment import Experiment
from schemas.plan import DeviceFacts
from tasks.engine.client import EngineClient
from tasks.engine.keeper import EngineKeeper
from tasks.engine.stage import keep_engine, start_engine
from tasks.plan.device import read_device_facts
from tasks.session import Session

_waiting: list[EngineClient] = []


@contextlib.contextmanager
def started(home: Path, experiment: Experiment | None) -> Iterator[None]:
    """Starts the process for this experiment, and ends it at last if no flow took it over. None: starts nothing."""
    log = home / "tmp" / f"engine-{os.getpid()}.log"
    for left in log.parent.glob("engine-*.log"):  # by one that was killed
        if not psutil.pid_exists(int(left.stem.removeprefix("engine-"))):
            left.unlink(missing_ok=True)
    if experiment is not None:
        device = read_device_facts(python=experiment.vllm.python)
        _waiting.append(start_engine(experiment, device=device, log_path=log, home=home))
    try:
        yield
    finally:
        for engine in _waiting:
            engine.close()
        _waiting.clear()
        log.unlink(missing_ok=True)


def take(
    session: Session, *, device: DeviceFacts, warn: Callable[[str], None], note: Callable[[str], None]
) -> EngineKeeper:
    """Who keeps the run's engine going, with the process that is waiting, an engine that a sweep has standing, or a new
    one. warn: says what went wrong with an engine; note: that it goes on."""
    shelf = current()
    stood = None if shelf is None else shelf.take()
    early = stood or (_waiting.pop() if _waiting else None)
    return keep_engine(
        session, device=device, warn=warn, note=note, early=early, hand_on=None if shelf is None else shelf.keep
    )
