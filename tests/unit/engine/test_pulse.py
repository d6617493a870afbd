"""A process that says nothing: one that works is left in peace, one that is stopped is not."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tasks.engine.pulse import Pulse, hang_seconds


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[bytes]]:
    """A tree whose leaf works without end."""
    with subprocess.Popen(
        ["sh", "-c", f"{sys.executable} -c 'while True: pass' & wait"], start_new_session=True
    ) as process:
        yield process
        os.killpg(process.pid, signal.SIGKILL)


def watch(pulse: Pulse, *, seconds: float) -> tuple[str | None, float]:
    began = time.monotonic()
    while (silent := time.monotonic() - began) < seconds:
        why = pulse.stopped(silent + 2)
        if why is not None:
            return why, silent
        time.sleep(0.1)
    return None, seconds


def test_one_that_works_is_waited_for_and_one_that_is_stopped_is_hung(busy: subprocess.Popen[bytes]) -> None:
    pulse = Pulse(pid=busy.pid, hang_s=600, idle_s=1)
    assert watch(pulse, seconds=5) == (None, 5)
    os.killpg(busy.pid, signal.SIGSTOP)
    why, after = watch(pulse, seconds=20)
    assert why is not None and "no processor time" in why
    assert 2 < after < 12


def test_silence_alone_is_believed_after_its_own_time() -> None:
    pulse = Pulse(pid=os.getpid(), hang_s=5)
    assert pulse.stopped(4.9) is None
    assert pulse.stopped(5.1) == "it has said nothing for 5 s"


def test_auto_waits_longer_on_a_cpu() -> None:
    assert (hang_seconds("auto", device="cpu"), hang_seconds("auto", device="cuda")) == (900, 300)
    assert hang_seconds(12, device="cpu") == 12
