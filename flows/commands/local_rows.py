"""What `--path` and `--shots` say: local rows in place of a dataset's own."""

from pathlib import Path
from typing import Any

from schemas.errors import ConfigError


def given_rows(*, path: Path | None, shots: Path | None) -> dict[str, Any]:
    """What `--path` and `--shots` say of a dataset, as an entry of an experiment's `datasets` would. Raises ConfigError
    for what is no data file."""
    rows: dict[str, Any] = {}
    if path is not None and path.is_dir():
        rows["folder"] = str(path)
    elif path is not None:
        rows["source"] = _source_of(path, option="--path")
    if shots is not None:
        rows["few_shot_source"] = _source_of(shots, option="--shots")
    return rows


def _source_of(path: Path, *, option: str) -> dict[str, str]:
    kinds = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".csv": "csv", ".parquet": "parquet"}
    suffixes = [suffix for suffix in path.suffixes if suffix not in (".gz", ".zst")]
    kind = (kinds | {".arrow": "arrow", ".feather": "arrow"}).get(suffixes[-1] if suffixes else "")
    if kind is None:
        hint = "give .jsonl, .json, .csv, .parquet or .arrow; an experiment's `source` takes other kinds"
        raise ConfigError.one(f"{path} is no data file", key=option, suggestion=hint)
    return {"kind": kind, "path": str(path)}
