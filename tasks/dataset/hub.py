"""A dataset on the Hugging Face hub: which of its files hold a split, and fetching them into the hub's own cache."""

import re
from pathlib import Path, PurePosixPath

from schemas.errors import ConfigError
from schemas.source import HubDatasetSource
from tasks.config.disk import names_in
from tasks.config.locate import relative_to_here
from tasks.config.nearest import did_you_mean

_SUFFIXES = (".parquet", ".jsonl")
_SPLITS = ("train", "test", "validation", "valid", "dev", "val")


def choose_files(names: list[str], *, split: str, subset: str | None) -> list[str]:
    """The data files of one split, sorted; Parquet before JSONL. Empty where there are none.

    A file belongs to a split when the split is a word of its name or one of its folders, to a subset likewise.
    A file that is the only data file and names no split is the split `train`, as on the hub.
    Raises ValueError, with the folders, when several subsets have the split and none was asked for.
    """
    for suffix in _SUFFIXES:
        found = [PurePosixPath(name) for name in names if name.endswith(suffix)]
        found = [path for path in found if _has_word(path, split) and (subset is None or _has_word(path, subset))]
        # A folder of the subset's own name wins over a file whose name merely has the word in it.
        if subset is not None:
            exact = [path for path in found if subset in path.parts[:-1]]
            found = exact or found
        folders = sorted({str(path.parent) for path in found})
        if len(folders) > 1:
            raise ValueError(", ".join(folders))
        if found:
            return sorted(str(path) for path in found)
    data = [name for name in names if name.endswith(_SUFFIXES)]
    unnamed = len(data) == 1 and not any(_has_word(PurePosixPath(data[0]), word) for word in _SPLITS)
    return data if unnamed and split == "train" and subset is None else []


def missing_parts(names: list[str]) -> int:
    """How many files are not there of a split whose names say how many it has (`…-00000-of-00002.parquet`)."""
    counts = [int(found.group(1)) for name in names if (found := re.search(r"-of-(\d{5})\.", name))]
    return max(counts) - len(counts) if counts else 0


def _has_word(path: PurePosixPath, word: str) -> bool:
    if word in path.parts[:-1]:
        return True
    return re.search(rf"(?:^|[-_.]){re.escape(word)}(?:$|[-_.])", path.stem) is not None


def hub_files(source: HubDatasetSource, *, file: Path | None, key: str) -> list[Path]:
    """The split's files on this machine, fetched if need be; without network, from the hub's cache.

    Raises ConfigError: no network and nothing cached, no such dataset or revision, no file of the split.
    """
    try:
        names, folder = _list_files(source) if source.folder is None else _list_folder(source.folder, file, key)
    except Unreachable as reason:
        raise ConfigError.one(
            f"the dataset {source.id} (revision {source.revision}) could not be read from the hub: {reason}",
            file=file,
            key=f"{key}.id",
            suggestion="check the name and the network, or give a local copy of its files as `folder`",
        ) from reason
    try:
        chosen = choose_files(names, split=source.split, subset=source.subset)
    except ValueError as folders:
        raise ConfigError.one(
            f"the split {source.split!r} of {source.id} lies in several folders",
            file=file,
            key=f"{key}.subset",
            suggestion=f"name one of {folders}",
        ) from folders
    if not chosen:
        where = source.id if source.folder is None else f"the folder {relative_to_here(Path(source.folder))}"
        data = [name for name in names if name.endswith(_SUFFIXES)]
        raise ConfigError.one(
            f"{where} has no Parquet or JSONL file of split {source.split!r}"
            + (f" and subset {source.subset!r}" if source.subset else ""),
            file=file,
            key=f"{key}.split",
            suggestion=f"its data files are {', '.join(sorted(data)[:10]) or 'of other kinds'}",
        )
    if missing := missing_parts(chosen):
        if source.folder is not None:
            raise ConfigError.one(
                f"{relative_to_here(Path(source.folder))} lacks {missing} of the files of split {source.split!r}",
                file=file,
                key=f"{key}.folder",
                suggestion="copy all of them",
            )
        raise ConfigError.one(
            f"the hub's cache holds only a part of split {source.split!r} of {source.id}",
            file=file,
            key=f"{key}.split",
            suggestion=f"run once with network to fetch {missing} more files",
        )
    if folder is not None:
        return [folder / name for name in chosen]
    return [_download(source, name, file=file, key=key) for name in chosen]


def _list_folder(folder: str, file: Path | None, key: str) -> tuple[list[str], Path]:
    """The names of all files in a local copy. Raises ConfigError where there is no such folder."""
    path = Path(folder)
    if not path.is_dir():
        raise ConfigError.one(
            f"there is no folder {relative_to_here(path)}",
            file=file,
            key=f"{key}.folder",
            suggestion=did_you_mean(path.name, names_in(path.parent)),
        )
    return [each.relative_to(path).as_posix() for each in path.rglob("*") if each.is_file()], path


class Unreachable(Exception):
    """The hub did not give what was asked; the message says why."""


def _list_files(source: HubDatasetSource) -> tuple[list[str], Path | None]:
    """The dataset's file names, and the folder of the cached snapshot when the hub itself cannot be reached."""
    import httpx  # noqa: PLC0415  a second of imports that only hub datasets pay for
    from huggingface_hub import HfApi, snapshot_download  # noqa: PLC0415
    from huggingface_hub.errors import (  # noqa: PLC0415
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
    )

    try:
        return HfApi().list_repo_files(source.id, repo_type="dataset", revision=source.revision), None
    except HFValidationError as reason:
        raise Unreachable(str(reason)) from reason
    except (OfflineModeIsEnabled, httpx.HTTPError, HfHubHTTPError, OSError) as reason:
        try:
            snapshot = Path(
                snapshot_download(source.id, repo_type="dataset", revision=source.revision, local_files_only=True)
            )
        except (LocalEntryNotFoundError, OSError):
            raise Unreachable(str(reason).strip().splitlines()[0] if str(reason) else "no network") from reason
    return [str(path.relative_to(snapshot)) for path in snapshot.rglob("*") if path.is_file()], snapshot


def _download(source: HubDatasetSource, name: str, *, file: Path | None, key: str) -> Path:
    import httpx  # noqa: PLC0415
    from huggingface_hub import hf_hub_download  # noqa: PLC0415
    from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415

    try:
        return Path(hf_hub_download(source.id, name, repo_type="dataset", revision=source.revision))
    except (httpx.HTTPError, HfHubHTTPError, OSError) as reason:
        raise ConfigError.one(
            f"{name} of {source.id} could not be fetched: {reason}",
            file=file,
            key=f"{key}.id",
            suggestion="run again when the network is there; what was fetched is kept",
        ) from reason
