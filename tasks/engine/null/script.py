"""What the null engine does, and when."""

from dataclasses import dataclass, field
from random import Random


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One request's fate: seconds from its arrival to its first token, seconds between tokens, and how many there are.
    error: it fails where its first token would have come."""

    first_s: float
    each_s: float
    tokens: int
    error: bool


@dataclass(frozen=True, kw_only=True)
class Script:
    """ttft_ms and tpot_ms: of every answer, on average. jitter: the standard deviation of both from one answer to the
    next, as a share of them. stalls: (from, for) in seconds since the first request, in which nothing comes; what was
    due then comes at its end. error_share: of the requests that fail. tokens: the least and the most of an answer;
    None: as many as the request may have. All is drawn from the seed and the request's name: asked again, it is the
    same."""

    ttft_ms: float = 0.0
    tpot_ms: float = 0.0
    jitter: float = 0.0
    stalls: list[tuple[float, float]] = field(default_factory=list)
    error_share: float = 0.0
    tokens: tuple[int, int] | None = None
    seed: int = 0

    def answer(self, request_id: str, *, max_tokens: int) -> Answer:
        draw = Random(f"{self.seed} {request_id}")  # noqa: S311 - a load, not a secret
        return Answer(
            error=draw.random() < self.error_share,
            tokens=max_tokens if self.tokens is None else draw.randint(*self.tokens),
            first_s=self._about(self.ttft_ms, draw),
            each_s=self._about(self.tpot_ms, draw),
        )

    def not_before(self, due_s: float) -> float:
        """When something comes that is due so many seconds after the first request."""
        for start, length in sorted(self.stalls):
            if start <= due_s < start + length:
                due_s = start + length
        return due_s

    def _about(self, ms: float, draw: Random) -> float:
        return max(0.0, ms * (1 + draw.gauss(0.0, self.jitter))) / 1000
