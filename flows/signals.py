"""SIGTERM as an exception, so that it unwinds a run in the same way as Ctrl-C does."""

import signal
from types import FrameType


class Terminated(BaseException):
    """SIGTERM came. Not an Exception: nothing that handles errors may take it for one."""


def raise_on_sigterm() -> None:
    """From now on SIGTERM raises Terminated in the main thread."""

    def handle(number: int, frame: FrameType | None) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, handle)
