"""sha256 of large files, remembered between runs."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

STORE = "digests.json"


def _read_store(store: Path) -> dict[str, dict[str, object]]:
    try:
        content = json.loads(store.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return {}  # it only saves time: without it every file is read again
    return content if isinstance(content, dict) else {}


def _write_store(store: Path, content: dict[str, dict[str, object]]) -> None:
    store.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f"{store.name}.", dir=store.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file)
        Path(name).replace(store)
    finally:
        Path(name).unlink(missing_ok=True)


def file_digests(paths: Iterable[Path], *, cache: Path) -> dict[Path, str]:
    """The sha256 of each file's content, in hex.

    A file that still has the path (links followed), size and modification time (ns) under which `cache/digests.json`
    knows it is not read again. Two processes may write the store at once: the later one wins, the other's entries
    are computed again. Raises OSError for a file that cannot be read.
    """
    store = cache / STORE
    known = _read_store(store)
    digests: dict[Path, str] = {}
    changed = False
    for path in paths:
        real = path.resolve(strict=True)
        stat = real.stat()
        stamp = {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
        entry = known.get(str(real))
        if entry is None or {key: entry.get(key) for key in stamp} != stamp:
            with real.open("rb") as file:
                entry = {**stamp, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
            known[str(real)] = entry
            changed = True
        digests[path] = str(entry["sha256"])
    if changed:
        _write_store(store, known)
    return digests
