"""What earlier runs found out about grammars: one small JSON file a grammar, named by all that the verdict rests on."""

import functools
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks import guide

FOLDER = "grammars"
"""Under the session's cache. Deleting it costs time only."""
_HEX = 32


class Known:
    """The files of one backend with one tokenizer. facts: what all of its verdicts rest on."""

    def __init__(self, cache: Path, *, facts: Mapping[str, Any]) -> None:
        self._folder = cache / FOLDER
        self._facts = dict(facts)

    def get(self, *, what: str, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        """What is known; None where it is not, or the file is broken. what: `compile` or `lint`."""
        try:
            found = json.loads(self._file(what, asked).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def put(self, found: Mapping[str, Any], *, what: str, asked: Mapping[str, Any]) -> None:
        """Keeps it, whole or not at all, whoever else writes or reads it. Raises OSError."""
        file = self._file(what, asked)
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=file.parent, suffix=".part")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as lines:
                json.dump(found, lines)
            Path(part).replace(file)
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise

    def _file(self, what: str, asked: Mapping[str, Any]) -> Path:
        rests_on = [what, self._facts, dict(asked), own_version(what)]
        text = json.dumps(rests_on, sort_keys=True)
        key = hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()[:_HEX]
        return self._folder / key[:2] / f"{key}.json"


@functools.cache
def own_version(what: str) -> str:
    """Of assay's own code that compiles, or lints: a digest of its source, so that a verdict of other code is none."""
    here = Path(str(guide.__file__)).parent
    files = [*(here / "backends").glob("*.py"), here.parent / "engine" / "grammar_form.py"]
    if what == "lint":
        files += [*(here / "lint").glob("*.py"), *here.glob("*.py")]
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:_HEX]
