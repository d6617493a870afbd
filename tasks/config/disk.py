"""Questions to the file system that have an answer even where it refuses to look."""

import os
from pathlib import Path


def is_file(path: Path) -> bool:
    """Whether a file lies there. False too for a name too long or not encodable, and where one may not look."""
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file() raises in these cases


def is_dir(path: Path) -> bool:
    """Whether a folder lies there; False as with `is_file`."""
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir() raises in these cases


def names_in(folder: Path) -> list[str]:
    """The names of what lies in a folder, sorted; none where it cannot be listed."""
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except (OSError, ValueError):
        return []


def is_pattern(path: str) -> bool:
    """Whether a path stands for all files that are named so."""
    return any(letter in path for letter in "*?[")
