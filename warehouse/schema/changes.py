"""The numbered changes of the schema, and what may be read.

A new column or table is a new change. Older Parquet is never rewritten: the columns it lacks read as NULL.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.errors import AssayError

METADATA_KEY = b"assay_schema_version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One step of the schema. added: `table.column` of what came with it."""

    version: int
    what: str
    added: tuple[str, ...] = ()


CHANGES: tuple[Change, ...] = (Change(version=1, what="The first tables."),)
CURRENT = CHANGES[-1].version


def check_version(*, metadata: Mapping[bytes, bytes] | None, source: str) -> int:
    """The schema version that a Parquet file was written with.

    Raises AssayError where the file has none (assay did not write it), or one newer than this assay knows: guessing
    at columns that it cannot know would give wrong answers.
    """
    written = (metadata or {}).get(METADATA_KEY)
    if written is None or not written.isdigit():
        raise AssayError(f"{source}: no assay schema version in it, so assay did not write it (move it elsewhere)")
    version = int(written)
    if version > CURRENT:
        raise AssayError(
            f"{source}: written with schema version {version}, and this assay knows versions up to {CURRENT}"
            " (use the newer assay to read this warehouse)"
        )
    return version
