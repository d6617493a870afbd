"""What a model folder says of itself, read without loading it."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from schemas.errors import ConfigError
from schemas.plan import ModelFacts
from tasks.model.digest import file_digests
from tasks.model.dummy import weights_bytes
from tasks.model.folder import WEIGHTS, check_model_folder, is_dummy, read_json

# The names that older architectures (GPT-2, MPT, Falcon …) use for the same thing.
ALIASES = {
    "max_position_embeddings": ("n_positions", "max_seq_len", "max_sequence_length", "n_ctx", "seq_length"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("n_head", "n_heads"),
    "num_key_value_heads": ("num_kv_heads", "n_head_kv"),
    "hidden_size": ("n_embd", "d_model"),
    "vocab_size": (),
    "head_dim": (),
    "intermediate_size": ("n_inner", "ffn_dim", "ffn_hidden_size"),
}
DTYPES = ("bfloat16", "float16", "float32")
SAFETENSORS_DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
FINGERPRINTED = ("config.json", "generation_config.json", "tokenizer.json")


def _integer(config: Mapping[str, object], name: str) -> int | None:
    for key in (name, *ALIASES[name]):
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _required(config: Mapping[str, object], name: str, *, file: Path) -> int:
    value = _integer(config, name)
    if value is None or value < 1:
        raise ConfigError.one(f"the model's config has no usable {name}", file=file, key=name)
    return value


def _dtype_of_weights(weights: Path) -> str | None:
    """The format of the first tensor, from the safetensors header: 8 bytes of length, then JSON."""
    with weights.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > weights.stat().st_size:
            raise ConfigError.one("this is not a safetensors file: its header is longer than the file", file=weights)
        try:
            header = json.loads(file.read(length))
        except ValueError as error:  # not JSON, or not even text
            raise ConfigError.one("this is not a safetensors file: its header is not JSON", file=weights) from error
    for name, tensor in header.items():
        if name != "__metadata__":
            return SAFETENSORS_DTYPES.get(tensor["dtype"])
    return None


def _dtype(*, top: Mapping[str, object], text: Mapping[str, object], weights: Path | None, file: Path) -> str:
    for config in (text, top):
        for key in ("dtype", "torch_dtype"):
            name = str(config.get(key)).removeprefix("torch.")
            if name in DTYPES:
                return name
    stored = None if weights is None else _dtype_of_weights(weights)
    if stored is None:
        raise ConfigError.one(
            f"neither the config nor {'weights' if weights is None else weights.name} says a number format that is "
            "supported here",
            file=file,
            key="dtype",
            suggestion=f"one of {', '.join(DTYPES)}",
        )
    return stored


def _token_ids(*configs: Mapping[str, object], key: str) -> list[int]:
    """The first config that has the key decides: an id, or a list of ids."""
    for config in configs:
        value = config.get(key)
        if isinstance(value, int):
            return [value]
        if isinstance(value, list) and value:
            return [int(item) for item in value]
    return []


def read_model_facts(folder: Path, *, cache: Path) -> ModelFacts:
    """The facts of the model in `folder`.

    Sizes in a nested `text_config` (multimodal models) are used where there is one; head_dim falls back to
    hidden_size / heads, the key-value heads to the attention heads. The end-of-sequence ids are those of
    generation_config.json, else of config.json, the engine's own order. weights_bytes is the size of the safetensors
    files. fingerprint is sha256 over the names and contents of the weights, config.json, generation_config.json and
    tokenizer.json; content digests are kept in `cache/digests.json`, so that weights are read once (1 s for 270 MB).

    Raises ConfigError for a folder that is incomplete or a config without the sizes.
    """
    check_model_folder(folder)
    config_path = folder / "config.json"
    top = read_json(config_path)
    nested = top.get("text_config")
    text: dict[str, object] = nested if isinstance(nested, dict) else top
    generation_path = folder / "generation_config.json"
    generation = read_json(generation_path) if generation_path.is_file() else {}

    weights = sorted(folder.glob(WEIGHTS))
    dummy = is_dummy(folder)
    hidden_size = _required(text, "hidden_size", file=config_path)
    heads = _required(text, "num_attention_heads", file=config_path)
    kv_heads = 1 if text.get("multi_query") is True else _integer(text, "num_key_value_heads")
    architectures = top.get("architectures")
    begin = _token_ids(generation, text, top, key="bos_token_id")
    dtype = _dtype(top=top, text=text, weights=weights[0] if weights else None, file=config_path)
    return ModelFacts(
        path=str(folder),
        architecture=str(architectures[0])
        if isinstance(architectures, list) and architectures
        else str(top.get("model_type", "unknown")),
        max_position_embeddings=_required(text, "max_position_embeddings", file=config_path),
        layers=_required(text, "num_hidden_layers", file=config_path),
        kv_heads=heads if kv_heads is None else kv_heads,
        head_dim=_integer(text, "head_dim") or hidden_size // heads,
        hidden_size=hidden_size,
        intermediate_size=_integer(text, "intermediate_size"),
        vocab_size=_required(text, "vocab_size", file=config_path),
        dtype=dtype,
        weights_bytes=weights_bytes(top, dtype=dtype) if dummy else sum(path.stat().st_size for path in weights),
        fingerprint=_fingerprint(folder=folder, weights=weights, cache=cache),
        eos_token_ids=_token_ids(generation, text, top, key="eos_token_id"),
        bos_token_id=begin[0] if begin else None,
        dummy=dummy,
    )


def _fingerprint(*, folder: Path, weights: list[Path], cache: Path) -> str:
    others = [folder / name for name in FINGERPRINTED]
    paths = sorted([*weights, *(path for path in others if path.is_file())], key=lambda path: path.name)
    digests = file_digests(paths, cache=cache)
    lines = "".join(f"{path.name} {digests[path]}\n" for path in paths)
    return hashlib.sha256(lines.encode()).hexdigest()
