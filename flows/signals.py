"""SIGTERM as an exception, so that it unwinds a run in the same way as Ctrl-C does."""

import signal
from types import FrameType

_ours = False


class Terminated(BaseException):
    """SIGTERM came. Not an Exception: nothing that handles errors may take it for one."""


def raise_on_sigterm() -> None:
    """From now on SIGTERM raises Terminated in the main thread. For the `assay` command, which owns its process."""
    global _ours  # noqa: PLW0603 - a process has one set of signal handlers
    _ours = True
    signal.signal(signal.SIGTERM, _handle)


def keep_sigterm() -> None:
    """Inside a flow: Prefect has put its own handler in place; where the command had one, that is put back."""
    if _ours:
        signal.signal(signal.SIGTERM, _handle)


def _handle(number: int, frame: FrameType | None) -> None:
    raise Terminated
