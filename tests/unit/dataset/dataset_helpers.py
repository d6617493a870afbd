"""Small real parts for the dataset tests: a tokenizer of their own, datasets written in a line."""

import json
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors

from schemas.dataset import Dataset, NamedDataset
from schemas.engine import Sampling


def small_model_folder(folder: Path, *, adds_bos: bool = True, **config: Any) -> Path:
    """A byte-level tokenizer, one token a byte but for `<s>` and `</s>`, with the files of a model folder round it."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {"<s>": 0, "</s>": 1, **{letter: number for number, letter in enumerate(alphabet, start=2)}}
    inner = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([AddedToken("<s>", special=True), AddedToken("</s>", special=True)])
    if adds_bos:
        inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    folder.mkdir(parents=True, exist_ok=True)
    inner.save(str(folder / "tokenizer.json"))
    settings = {"bos_token": "<s>", "eos_token": "</s>", **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    return folder


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def named(path: Path | dict[str, Any], *, max_tokens: int = 4, name: str = "toy", **config: Any) -> NamedDataset:
    """A dataset over a JSONL file (or the given source), `{{ q }}` as its text prompt unless told."""
    source = path if isinstance(path, dict) else {"kind": "jsonl", "path": str(path)}
    whole = {"source": source, "prompt": {"text": "{{ q }}"}, "metrics": ["exact_match"], **config}
    return NamedDataset(
        name=name,
        config=Dataset.model_validate(whole),
        sampling=Sampling(max_tokens=max_tokens),
        path="configs/toy.yaml",
    )
