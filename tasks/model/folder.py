"""What a Hugging Face model folder must hold before anything tries to load it."""

import json
from pathlib import Path

from schemas.errors import ConfigError, Problem
from tasks.model.dummy import MARK

PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
WEIGHTS = "*.safetensors"
SHARD_INDEX = "model.safetensors.index.json"


def read_json(path: Path) -> dict[str, object]:
    """A JSON object from a file. Raises ConfigError with the line where it is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ConfigError.one(f"this is not JSON: {error.msg}", file=path, line=error.lineno) from error
    except UnicodeDecodeError as error:
        raise ConfigError.one(f"this is not UTF-8 text: {error.reason}", file=path) from error
    if not isinstance(content, dict):
        raise ConfigError.one("a JSON object was expected here", file=path, line=1)
    return content


def _weight_problems(folder: Path, *, key: str | None) -> list[Problem]:
    if not any(folder.glob(WEIGHTS)):
        pickled = sorted(path.name for pattern in PICKLED for path in folder.glob(pattern))
        if pickled:
            message = f"the weights in {folder} are pickled ({', '.join(pickled[:3])}): loading them can run any code"
            return [Problem(message=message, key=key, suggestion="save the model again as safetensors")]
        message = f"{folder} has no weights: no {WEIGHTS} file lies in it"
        return [Problem(message=message, key=key, suggestion="was the download cut short?")]
    index = folder / SHARD_INDEX
    if not index.is_file():
        return []
    weight_map = read_json(index).get("weight_map")
    shards = {str(name) for name in weight_map.values()} if isinstance(weight_map, dict) else set()
    missing = sorted(name for name in shards if not (folder / name).is_file())
    if not missing:
        return []
    message = (
        f"{len(missing)} of {len(shards)} weight files named in {SHARD_INDEX} are missing: {', '.join(missing[:3])}"
    )
    return [Problem(message=message, file=index, key=key, suggestion="was the download cut short?")]


def is_dummy(folder: Path) -> bool:
    """Whether assay made the folder for a model without weights."""
    return read_json(folder / "config.json").get(MARK) is True


def check_model_folder(folder: Path, *, key: str | None = None) -> Path:
    """The folder itself, once it holds config.json, tokenizer.json and safetensors weights (every shard of them).

    key is the config key that named the folder, for the message. Raises ConfigError with everything that is missing.
    Pickled weights alone are refused: unpickling runs whatever code the file carries.
    """
    if not folder.is_dir():
        raise ConfigError.one(f"there is no model folder {folder}", key=key)
    needed = {
        "config.json": "this is not a Hugging Face model folder",
        "tokenizer.json": "save the tokenizer in its fast form, as tokenizer.json",
    }
    problems = [
        Problem(message=f"{folder} has no {name}", key=key, suggestion=suggestion)
        for name, suggestion in needed.items()
        if not (folder / name).is_file()
    ]
    if not problems and is_dummy(folder):
        return folder
    problems += _weight_problems(folder, key=key)
    if problems:
        raise ConfigError(problems)
    return folder
