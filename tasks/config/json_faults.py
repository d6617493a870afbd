"""Broken JSON as a message with file, line and column."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from schemas.errors import ConfigError


@contextlib.contextmanager
def json_faults(*, file: Path, line: int | None = None, suggestion: str | None = None) -> Iterator[None]:
    """JSON that is read in here and is none raises ConfigError. line: of the file, where the text is one line of it;
    None: the text is the whole file."""
    try:
        yield
    except json.JSONDecodeError as broken:
        raise ConfigError.one(
            f"broken JSON: {broken.msg} at column {broken.colno}",
            file=file,
            line=broken.lineno if line is None else line,
            suggestion=suggestion,
        ) from broken
    except RecursionError as deep:
        raise ConfigError.one("broken JSON: nested too deeply to be read", file=file, line=line) from deep
    except ValueError as broken:
        raise ConfigError.one(f"broken JSON: {broken}", file=file, line=line) from broken
