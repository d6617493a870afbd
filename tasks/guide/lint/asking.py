"""One backend asked about one schema and its rewrites, within a limit of time."""

import time
from dataclasses import dataclass, field
from typing import Any

from tasks.guide.backends import Backends, Compiled, Match
from tasks.guide.backends.instances import Taken, compact, take
from tasks.guide.backends.parts import Parts

COMPILE_S = 20.0
_AGAIN_S = 8.0
_MATCH_S = 5.0


class OutOfTime(Exception):
    """The lint of this backend has used its time."""


@dataclass
class Asking:
    """A backend and a schema. until: when its time ends, on the monotonic clock."""

    backends: Backends
    backend: str
    whitespace: bool | None
    until: float
    _compiled: dict[str, Compiled] = field(default_factory=dict)

    def compile(self, schema: dict[str, Any], *, timeout_s: float = _AGAIN_S) -> Compiled:
        """What the backend makes of a schema; asked once each. Raises OutOfTime."""
        content = compact(schema)
        if content not in self._compiled:
            self._in_time()
            self._compiled[content] = self.backends.compile(
                backend=self.backend, content=content, whitespace=self.whitespace, timeout_s=timeout_s
            )
        return self._compiled[content]

    def takes(self, schema: dict[str, Any], value: Any, *, parts: Parts, masks: bool = False) -> Taken | None:
        """Whether the backend takes a value under a schema; None where it does not take the schema. Raises OutOfTime.

        parts: of that schema or of one that speaks of the same keys."""
        compiled = self.compile(schema)
        if compiled.status != "accepted":
            return None
        self._in_time()
        return take(self.backends, compiled, value=value, parts=parts, masks=masks, timeout_s=_MATCH_S)

    def match(self, schema: dict[str, Any], text: str, *, apart: bool) -> Match | None:
        """The answer to one text; None where the backend does not take the schema. Raises OutOfTime."""
        compiled = self.compile(schema)
        self._in_time()
        if compiled.status != "accepted":
            return None
        return self.backends.match(compiled, text=text, apart=apart, timeout_s=_MATCH_S)

    def _in_time(self) -> None:
        if time.monotonic() > self.until:
            raise OutOfTime
