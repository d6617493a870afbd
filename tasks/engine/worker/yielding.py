"""Long prompts that yield: the long-prompt threshold holds only in steps in which a short prompt waits to be read.

vLLM's threshold holds in every step. Small pieces let the short prompts in at once, but then the long ones are read in
small pieces to their end, long after the last short one has its first token; large pieces lose less and let in less.
Here the scheduler itself is untouched: its one number is set to 0 for the steps in which nobody waits.
"""

from collections.abc import Iterable
from itertools import chain, islice
from typing import Any

from tasks.engine.worker.within import core_of

SHORT_PART = 4
"""A prompt waits behind a long one if it has at most this part (a quarter) of the longest prompt's tokens: as the plan
counts short ones."""


class Yielding:
    """Wraps one engine's scheduler. on: whether its threshold yields; else it holds in every step, as vLLM has it."""

    def __init__(self) -> None:
        self.on = False
        self._scheduler: Any = None

    def watch(self, engine: Any, *, on: bool) -> bool:
        """Wraps the scheduler of vLLM's LLMEngine, and says whether it yields now: not where vLLM's core, and the
        scheduler with it, is in another process."""
        core = core_of(engine)
        if core is None:
            return False
        self._scheduler, self.on = core.scheduler, on
        config, schedule = core.scheduler.scheduler_config, core.scheduler.schedule

        def yielding(*given: Any, **named: Any) -> Any:
            threshold = config.long_prefill_token_threshold
            if not self.on or threshold == 0 or self._short_waits(threshold):
                return schedule(*given, **named)
            config.long_prefill_token_threshold = 0
            try:
                return schedule(*given, **named)
            finally:
                config.long_prefill_token_threshold = threshold

        core.scheduler.schedule = yielding
        return on

    def _short_waits(self, threshold: int) -> bool:
        """Whether, of the prompts that are not read to their end and that this step may take, one is short beside the
        longest, which the threshold would split."""
        shortest = longest = None
        for tokens in _in_reach(self._scheduler):
            shortest = tokens if shortest is None or tokens < shortest else shortest
            longest = tokens if longest is None or tokens > longest else longest
        if shortest is None or longest is None:
            return False
        return longest > threshold and shortest * SHORT_PART <= longest


def _in_reach(scheduler: Any) -> Iterable[int]:
    """The tokens of each prompt that runs and is not read to its end, and of those that may begin to run."""
    running = scheduler.running
    unread = (request for request in running if request.num_computed_tokens < request.num_prompt_tokens)
    waiting = islice(iter(scheduler.waiting), max(0, scheduler.max_num_running_reqs - len(running)))
    return (request.num_prompt_tokens for request in chain(unread, waiting))
