"""The first steps of an engine through torch's profiler, as a trace that a browser can show."""

from typing import Any


class Trace:
    """Records steps until it has enough."""

    def __init__(self) -> None:
        self._left = 0

    def start(self, engine: Any, *, steps: int) -> None:
        """Begins with the next step; 0 steps: never."""
        self._left = steps
        if steps:
            engine.start_profile()

    def step_done(self, engine: Any) -> None:
        """Counts a step; after the last one the trace is written, which takes seconds."""
        if self._left:
            self._left -= 1
            if not self._left:
                engine.stop_profile()

    def end(self, engine: Any) -> None:
        """Writes what there is, if the engine ends before it had enough steps."""
        if self._left:
            self._left = 0
            engine.stop_profile()
