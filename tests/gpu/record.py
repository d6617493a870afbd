"""What was measured, a line of JSON each, kept as it comes: a visit that is cut short goes on where it stopped."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of one file; a last line that was cut short is none."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines[:-1] if line]


class Record:
    """The rows of a file. Each has its case, arm, load and pass; a row that is there is not measured again."""

    def __init__(self, path: Path, *, card: str, earlier: Sequence[Path] = ()) -> None:
        """earlier: files of other visits, whose rows count as measured and are not written again."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._card = card
        self.rows = [row for each in (*earlier, path) if each.is_file() for row in read_rows(each)]

    @property
    def own(self) -> list[dict[str, Any]]:
        """The rows of this card."""
        return [row for row in self.rows if row["card"] == self._card]

    def has(self, **key: Any) -> bool:
        """Whether a row of this card has all of these values."""
        return any(all(row.get(name) == value for name, value in key.items()) for row in self.own)

    def add(self, **row: Any) -> None:
        """Keeps a row, and prints it."""
        row = {"card": self._card, "at": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())} | row
        self.rows.append(row)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        shown = "  ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in row.items()
            if name not in ("card", "at") and value is not None and not isinstance(value, dict | list)
        )
        print(shown, flush=True)
