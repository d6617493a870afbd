"""What commands print for programs."""

import json
import sys
from typing import Any


def print_json(value: Any) -> None:
    """One JSON object on one line, on stdout, and nothing after it. NaN does not occur: it would be no JSON."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, allow_nan=False, default=str) + "\n")
    sys.stdout.flush()
