"""Durations as people write them."""

import re

from schemas.errors import ConfigError

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Seconds of `90`, `90s`, `15m` or `2h`. Raises ConfigError for anything else."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([smh]?)\s*", text)
    if match is None or float(match[1]) <= 0:
        raise ConfigError.one(f"--max-time {text} is no duration", suggestion="write 90s, 15m or 2h")
    return float(match[1]) * _UNITS[match[2]]
