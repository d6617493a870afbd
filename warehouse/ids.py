"""Names of runs."""

import secrets
from datetime import UTC, datetime


def new_run_id() -> str:
    """A name for a new run, as in 20261127T220355-3f9a2c: UTC to the second, then random; sorts by time, safe as a
    folder's name."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
