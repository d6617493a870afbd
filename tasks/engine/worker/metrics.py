"""vLLM's own metrics: what of them is kept while the engine works."""

from typing import Any


class _Unread:
    """A histogram that nobody reads."""

    def observe(self, value: float) -> None:
        pass


def leave_out_gaps(engine: Any) -> None:
    """Has vLLM's metrics do without their histogram of the time between two tokens: it takes a number for every token,
    while the engine waits, and each answer here has its own."""
    for logger in getattr(getattr(engine, "logger_manager", None), "stat_loggers", None) or ():
        histograms = getattr(logger, "histogram_inter_token_latency", None)
        if isinstance(histograms, dict):
            logger.histogram_inter_token_latency = dict.fromkeys(histograms, _Unread())
