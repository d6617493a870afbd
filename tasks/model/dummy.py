"""A model of some shape without weights: its folder, and how large its weights would be."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError
from schemas.model import DummySource
from tasks.model.padding import padded_tokenizer

MARK = "assay_dummy"
"""The key of such a folder's config.json that says so."""
_MADE = "padded"
"""How such a folder is made: part of its name, so that one made otherwise is not taken for it."""
BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
_FILES_BESIDE = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "generation_config.json",
)
_SHAPE = (
    "architectures",
    "model_type",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "vocab_size",
    "max_position_embeddings",
)


def dummy_folder(source: DummySource, *, name: str, tokenizer: Path, cache: Path) -> Path:
    """The folder with the shape's config.json and the files of the other model's tokenizer, with as many tokens as the
    shape has, made if it is not there.

    Raises ConfigError for a shape that lacks a size."""
    folder = _place(source, name=name, tokenizer=tokenizer, cache=cache)
    if folder.is_dir():
        return folder
    check_shape(source.config)
    folder.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
    making.chmod(0o755)
    for file in _FILES_BESIDE:
        if (tokenizer / file).is_file():
            shutil.copyfile(tokenizer / file, making / file)
    padded = padded_tokenizer(tokenizer / "tokenizer.json", vocabulary=source.config["vocab_size"])
    (making / "tokenizer.json").write_text(padded, encoding="utf-8")
    (making / "config.json").write_text(json.dumps(source.config | {MARK: True}, indent=2), encoding="utf-8")
    try:
        making.rename(folder)
    except OSError:  # another run made it meanwhile
        shutil.rmtree(making)
        if not folder.is_dir():
            raise
    return folder


def prepared_dummy(source: DummySource, *, name: str, tokenizer: Path, cache: Path) -> Path | None:
    """The folder if it is there already. Raises ConfigError for a shape that lacks a size."""
    check_shape(source.config)
    folder = _place(source, name=name, tokenizer=tokenizer, cache=cache)
    return folder if folder.is_dir() else None


def _place(source: DummySource, *, name: str, tokenizer: Path, cache: Path) -> Path:
    content = _MADE + json.dumps(source.config, sort_keys=True) + (tokenizer / "tokenizer.json").read_text("utf-8")
    return cache / "models" / f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def check_shape(config: Mapping[str, Any]) -> None:
    """Raises ConfigError for a shape that lacks something its size rests on, or that would run code."""
    missing = [key for key in _SHAPE if not config.get(key)]
    if missing:
        raise ConfigError.one(f"the shape has no {', '.join(missing)}", key="model.source.config")
    if "auto_map" in config:
        raise ConfigError.one("`auto_map` would run code", key="model.source.config.auto_map")


def weights_bytes(config: Mapping[str, Any], *, dtype: str) -> int:
    """Bytes of the weights of a model that is built like Llama: embeddings (twice, unless they are tied), and for each
    layer four attention matrices, three of the feed-forward part and two norms."""
    hidden, layers, vocabulary = config["hidden_size"], config["num_hidden_layers"], config["vocab_size"]
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or hidden // heads
    kv_heads = config.get("num_key_value_heads") or heads
    attention = 2 * hidden * heads * head_dim + 2 * hidden * kv_heads * head_dim
    layer = attention + 3 * hidden * config["intermediate_size"] + 2 * hidden
    embeddings = vocabulary * hidden * (1 if config.get("tie_word_embeddings") else 2)
    return int(embeddings + layers * layer + hidden) * BYTES[dtype]
