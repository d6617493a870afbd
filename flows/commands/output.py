"""What commands print, for programs and for people."""

import json
import sys
from typing import Any

from rich.console import Console

WIDTH_OF_A_FILE = 200
"""Columns of a table that goes to a file or a pipe, where there is no terminal to ask."""


def stdout_console() -> Console:
    """Prints to stdout, wide where it is no terminal."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH_OF_A_FILE
    return console


def print_json(value: Any) -> None:
    """One JSON object on one line, on stdout, and nothing after it. NaN does not occur: it would be no JSON."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, allow_nan=False, default=str) + "\n")
    sys.stdout.flush()
