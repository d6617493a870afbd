"""What was measured, a line of JSON each, kept as it comes: a visit that is cut short goes on where it stopped."""

import json
import time
from pathlib import Path
from typing import Any


class Record:
    """The rows of a file. Each has its case, arm, load and pass; a row that is there is not measured again."""

    def __init__(self, path: Path, *, card: str, versions: dict[str, str] | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._card = card
        self.rows: list[dict[str, Any]] = []
        if path.is_file():
            self.rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def has(self, **key: Any) -> bool:
        """Whether a row of this card has all of these values."""
        return any(
            row["card"] == self._card and all(row.get(name) == value for name, value in key.items())
            for row in self.rows
        )

    def add(self, **row: Any) -> None:
        """Keeps a row, and prints it."""
        row = {"card": self._card, "at": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())} | row
        self.rows.append(row)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        shown = "  ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in row.items()
            if name not in ("card", "at", "resolved", "phases", "sizes", "plan", "evidence") and value is not None
        )
        print(shown, flush=True)
