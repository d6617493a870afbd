"""One request of a measured load, in the times that every speed metric is made of."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Times are seconds of one clock. planned_at: when an open load had it due; None under a load without a plan.

    sent_at: None where it was never sent. free_at: when there was a place for it. first_token_at and last_token_at:
    when the first and the last new tokens came; first_text_at: the first text, which an engine may hold back. gaps_ms:
    between arrivals, each with the tokens that it brought in gap_tokens; the first arrival is no gap. answered: whether
    it came to an answer; one that failed has no times that count, whatever came before. output_tokens: the engine's
    count. clock_error_ms: by how much the times can be wrong, where another machine stamped them."""

    answered: bool
    sent_at: float | None = None
    planned_at: float | None = None
    free_at: float | None = None
    first_token_at: float | None = None
    first_text_at: float | None = None
    last_token_at: float | None = None
    gaps_ms: Sequence[float] = ()
    gap_tokens: Sequence[int] = ()
    prompt_tokens: int = 0
    output_tokens: int | None = None
    clock_error_ms: float | None = None

    @property
    def asked_at(self) -> float | None:
        """What its latencies count from: the time that was planned, else that of sending. A user who is due waits from
        then on, whatever kept the request from being sent (coordinated omission)."""
        return self.sent_at if self.planned_at is None else self.planned_at

    def since_asked_ms(self, moment: float | None) -> list[float]:
        """Milliseconds from asked_at to a moment; none where it has no answer or no such moment."""
        if not self.answered or moment is None or self.asked_at is None:
            return []
        return [(moment - self.asked_at) * 1000]


def seconds_of(requests: Sequence[Measured]) -> float | None:
    """From the first request that was asked to the last token of an answer: what totals are divided by. None where
    nothing was answered, and where no time went by."""
    begun = [request.asked_at for request in requests if request.asked_at is not None]
    ended = [request.last_token_at for request in requests if request.answered and request.last_token_at is not None]
    if not begun or not ended or max(ended) <= min(begun):
        return None
    return max(ended) - min(begun)
