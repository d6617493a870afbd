"""What speculative decoding proposed and what of it was accepted, by vLLM's own count, and by request."""

from typing import Any

from tasks.engine.protocol import WireTotals


class Speculation:
    """Sums since they were last taken, and what each request that runs has had so far."""

    def __init__(self) -> None:
        self.expected = False
        """Whether the engine speculates at all; without, no request has a number."""
        self._drafts = 0
        self._drafted = 0
        self._accepted = 0
        self._accepted_at: list[int] = []
        self._drafted_at: list[int] = []
        self._by_request: dict[str, list[int]] = {}

    def add(self, stats: Any) -> None:
        """Adds one step. stats: vLLM's SpecDecodingStats."""
        self._drafts += stats.num_drafts
        self._drafted += stats.num_draft_tokens
        self._accepted += stats.num_accepted_tokens
        _add_to(self._accepted_at, stats.num_accepted_tokens_per_pos)
        _add_to(self._drafted_at, getattr(stats, "num_draft_tokens_per_pos", ()))

    def step(self, scheduled: Any, computed: Any) -> int:
        """Counts for each request what this step verified; gives the number of drafted tokens that it computed."""
        invalid = getattr(scheduled, "num_invalid_spec_tokens", None) or {}
        sampled, places, n_drafts = computed.sampled_token_ids, computed.req_id_to_index, 0
        for request_id, drafts in scheduled.scheduled_spec_decode_tokens.items():
            n_drafts += len(drafts)
            place = places.get(request_id)
            if place is None or not sampled or not len(sampled[place]):
                continue
            had = self._by_request.setdefault(request_id, [0, 0])
            had[0] += len(drafts) - invalid.get(request_id, 0)
            had[1] += len(sampled[place]) - 1  # the last one is the model's own
        return n_drafts

    def finished(self, request_id: str) -> tuple[int | None, int | None]:
        """Drafted and accepted tokens of a request that is over; None where the engine does not speculate."""
        if not self.expected:
            return None, None
        drafted, accepted = self._by_request.pop(request_id, (0, 0))
        return drafted, accepted

    def move_into(self, totals: WireTotals) -> None:
        """Gives the sums away and begins anew."""
        totals.drafts, totals.draft_tokens, totals.accepted_tokens = self._drafts, self._drafted, self._accepted
        totals.accepted_by_position, totals.drafted_by_position = self._accepted_at, self._drafted_at
        self._drafts = self._drafted = self._accepted = 0
        self._accepted_at, self._drafted_at = [], []


def _add_to(sums: list[int], more: Any) -> None:
    sums.extend([0] * (len(more) - len(sums)))
    for place, value in enumerate(more):
        sums[place] += value
