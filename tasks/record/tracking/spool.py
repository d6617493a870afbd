"""What MLflow has not got yet: one document a run under ASSAY_HOME/spool/mlflow, gone once it is all there.

Everything here is written and removed under one lock, so that a temporary file that whoever holds it finds is one that
a killed process left.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from pydantic import ValidationError

from tasks.record.tracking.errors import TrackingError
from tasks.record.tracking.publication import VERSION, Publication
from warehouse.parts import sync_folder

_DOCUMENT = "publication.json"
_TEMPORARY = ".tmp"


@dataclass(frozen=True, kw_only=True)
class Spooled:
    """A document as it was read; seal tells whether it has been replaced since."""

    publication: Publication
    seal: str


def keep(home: Path, publication: Publication) -> None:
    """Puts a run's document into the spool, in place of an earlier one; durable when this returns. Raises OSError."""
    spool = _folder(home)
    spool.mkdir(parents=True, exist_ok=True)
    folder = spool / publication.run_id
    temporary = spool / f"{publication.run_id}{_TEMPORARY}"
    with _lock(home):
        for stale in spool.glob(f"*{_TEMPORARY}"):
            stale.unlink(missing_ok=True)
        try:
            with temporary.open("w", encoding="utf-8") as file:
                file.write(publication.model_dump_json(indent=1))
                file.flush()
                os.fsync(file.fileno())
            folder.mkdir(exist_ok=True)
            temporary.replace(folder / _DOCUMENT)
        finally:
            temporary.unlink(missing_ok=True)
        for each in (folder, spool):
            sync_folder(each)


def read(home: Path, run_id: str) -> Spooled | None:
    """A run's document; None where nothing waits. Raises TrackingError for one that this assay cannot read."""
    path = _folder(home) / run_id / _DOCUMENT
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        publication = Publication.model_validate_json(content)
    except ValidationError as error:
        raise TrackingError(f"{path} is no document of this assay ({error.error_count()} faults)") from error
    if publication.version > VERSION:
        raise TrackingError(f"{path} was written by a newer assay (form {publication.version}); use that one")
    return Spooled(publication=publication, seal=hashlib.sha256(content).hexdigest())


def done(home: Path, run_id: str, spooled: Spooled) -> None:
    """Removes a document that MLflow has; one that has been replaced meanwhile stays."""
    folder = _folder(home) / run_id
    with _lock(home):
        try:
            content = (folder / _DOCUMENT).read_bytes()
        except FileNotFoundError:
            return
        if hashlib.sha256(content).hexdigest() == spooled.seal:
            (folder / _DOCUMENT).unlink()
            _remove_empty(folder)


def waiting(home: Path) -> list[str]:
    """The runs whose documents wait, oldest first."""
    return sorted(path.parent.name for path in _folder(home).glob(f"*/{_DOCUMENT}"))


def _folder(home: Path) -> Path:
    return home / "spool" / "mlflow"


def _lock(home: Path) -> FileLock:
    return FileLock(_folder(home) / "lock", timeout=10)


def _remove_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:  # something lies in it that is not ours
        return
