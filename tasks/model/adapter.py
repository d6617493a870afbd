"""A LoRA adapter's folder: what it must hold, and whether it fits the model, read without loading it."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schemas.adapter import AdapterFacts
from schemas.errors import ConfigError
from tasks.model.digest import file_digests
from tasks.model.folder import PICKLED, WEIGHTS, read_json

CONFIG = "adapter_config.json"
TENSORS = "adapter_model.safetensors"
_PREFIX = "base_model.model."
_LORA = (".lora_A.weight", ".lora_B.weight")
_FLOATS = ("F64", "F32", "F16", "BF16")
_UNSUPPORTED = {
    "use_dora": "DoRA",
    "lora_bias": "a bias of the adapter",
    "layer_replication": "replicated layers",
    "alora_invocation_tokens": "activated LoRA",
    "use_qalora": "QALoRA",
}
"""What vLLM does not do, by PEFT's key."""


def check_adapter_folder(folder: Path, *, key: str | None = None) -> Path:
    """The folder itself, once it holds a config and weights as safetensors. key: the config key that named it.

    Raises ConfigError with what is missing. Pickled weights are refused: loading them runs whatever code they carry."""
    if not folder.is_dir():
        raise ConfigError.one(f"there is no adapter folder {folder}", key=key)
    if not (folder / CONFIG).is_file():
        raise ConfigError.one(f"{folder} has no {CONFIG}: this is not a LoRA adapter", key=key)
    if not (folder / TENSORS).is_file():
        pickled = sorted(path.name for pattern in PICKLED for path in folder.glob(pattern))
        if pickled:
            message = f"the weights in {folder} are pickled ({pickled[0]}): loading them can run any code"
            raise ConfigError.one(message, key=key, suggestion="save the adapter again as safetensors")
        raise ConfigError.one(f"{folder} has no {TENSORS}", key=key, suggestion="was the download cut short?")
    return folder


def read_adapter(name: str, folder: Path, *, model: Path, cache: Path, key: str | None = None) -> AdapterFacts:
    """The facts of an adapter, once it fits the model in the folder `model`.

    cache: where the digests of large files are kept. Raises ConfigError for an adapter of another model (layers that
    the model does not have, or with other sizes), a kind that vLLM does not do, and files that are no adapter's."""
    check_adapter_folder(folder, key=key)
    config = read_json(folder / CONFIG)
    rank = _rank(config, file=folder / CONFIG)
    for option, words in _UNSUPPORTED.items():
        if config.get(option):
            raise ConfigError.one(f"vLLM does not do {words}", file=folder / CONFIG, key=option)
    if config.get("bias", "none") != "none":
        raise ConfigError.one("vLLM does not do a bias of the adapter", file=folder / CONFIG, key="bias")
    own = _shapes(folder / TENSORS)
    modules = _fits(own, _base_shapes(model), folder=folder, model=model)
    digests = file_digests([folder / CONFIG, folder / TENSORS], cache=cache)
    lines = "".join(f"{path.name} {digests[path]}\n" for path in (folder / CONFIG, folder / TENSORS))
    return AdapterFacts(
        name=name,
        path=str(folder),
        rank=rank,
        fingerprint=hashlib.sha256(lines.encode()).hexdigest(),
        modules=modules,
    )


def _rank(config: Mapping[str, object], *, file: Path) -> int:
    pattern = config.get("rank_pattern")
    ranks = [config.get("r"), *(pattern.values() if isinstance(pattern, dict) else ())]
    whole = [rank for rank in ranks if isinstance(rank, int) and not isinstance(rank, bool) and rank > 0]
    if len(whole) < len(ranks):
        raise ConfigError.one("the adapter's rank must be a whole number above 0", file=file, key="r")
    return max(whole)


def _shapes(file: Path) -> dict[str, tuple[str, list[int]]]:
    """The format and the shape of each tensor, by name, from the safetensors header."""
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if length > file.stat().st_size:
            raise ConfigError.one("this is not a safetensors file: its header is longer than the file", file=file)
        try:
            header: dict[str, Any] = json.loads(stream.read(length))
            return {
                name: (str(tensor["dtype"]), [int(size) for size in tensor["shape"]])
                for name, tensor in header.items()
                if name != "__metadata__"
            }
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigError.one("this is not a safetensors file: its header is not in order", file=file) from error


def _base_shapes(model: Path) -> dict[str, list[int]]:
    """The shapes of the model's own weights; those that are packed, as quantized ones are, are left out."""
    return {
        name: shape
        for file in sorted(model.glob(WEIGHTS))
        for name, (dtype, shape) in _shapes(file).items()
        if dtype in _FLOATS and len(shape) == 2
    }


def _fits(
    own: Mapping[str, tuple[str, list[int]]], base: Mapping[str, list[int]], *, folder: Path, model: Path
) -> list[str]:
    """The last names of the layers that the adapter changes. Raises ConfigError for the first that does not fit."""
    file = folder / TENSORS
    modules: set[str] = set()
    for name, (_, shape) in own.items():
        suffix = next((each for each in _LORA if name.endswith(each)), None)
        if suffix is None:
            continue
        layer = name.removesuffix(suffix).removeprefix(_PREFIX)
        modules.add(layer.rsplit(".", 1)[-1])
        known = base.get(f"{layer}.weight")
        if known is None:
            continue
        size, wanted = (shape[-1], known[1]) if suffix == _LORA[0] else (shape[0], known[0])
        if size != wanted:
            raise ConfigError.one(
                f"the adapter is for another model: its layer {layer} has {size} where {model.name} has {wanted}",
                file=file,
            )
    if not modules:
        raise ConfigError.one("there are no LoRA layers in this file", file=file)
    layers = {name.removesuffix(each).removeprefix(_PREFIX) for name in own for each in _LORA if name.endswith(each)}
    if base and not any(f"{layer}.weight" in base for layer in layers):
        some = min(layers)
        raise ConfigError.one(f"the adapter is for another model: {model.name} has no layer {some}", file=file)
    return sorted(modules)
