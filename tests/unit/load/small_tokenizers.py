"""Tokenizers of a few thousand tokens, trained on words that mean nothing."""

import json
from pathlib import Path
from random import Random

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers


def words(n: int, *, seed: int = 7) -> list[str]:
    draw = Random(seed)
    return sorted({"".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(3, 7))) for _ in range(n)})


def byte_level(n_words: int = 1500, *, size: int = 6000) -> tokenizers.Tokenizer:
    """As GPT-2's and its many followers': bytes, and merges of them."""
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<s>", "</s>"],
        show_progress=False,
    )
    inner.train_from_iterator([" ".join(words(n_words))] * 3, trainer)
    return inner


def metaspace(n_words: int = 1500, *, size: int = 6000) -> tokenizers.Tokenizer:
    """As SentencePiece's: a mark for each space, and a token for each byte that is no letter of its own."""
    inner = tokenizers.Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    inner.decoder = decoders.Metaspace()
    special = ["<unk>", "<s>", "</s>", *[f"<0x{byte:02X}>" for byte in range(256)]]
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False)
    inner.train_from_iterator([" ".join(words(n_words))] * 3, trainer)
    return inner


def model_folder(folder: Path) -> Path:
    """A model folder's tokenizer, which puts `<s>` before plain text."""
    inner = byte_level(200, size=1000)
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    folder.mkdir(parents=True, exist_ok=True)
    inner.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}), "utf-8")
    return folder
