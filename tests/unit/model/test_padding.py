"""A tokenizer with as many tokens as a shape has."""

import json
from pathlib import Path

from tokenizers import Tokenizer

from tasks.model.padding import padded_tokenizer

TEXTS = ["Hello world, what is this? naïve 12", "def f(x):\n\treturn x  # ünïcode ☃", "FGIJ rainfallgins"]


def test_every_id_has_a_token_and_no_text_is_split_otherwise(model_dir: Path):
    file = model_dir / "tokenizer.json"
    padded = padded_tokenizer(file, vocabulary=128_256)
    old, new = Tokenizer.from_file(str(file)), Tokenizer.from_str(padded)
    assert (old.get_vocab_size(), new.get_vocab_size()) == (49_152, 128_256)
    assert all(new.decode([number]) for number in range(49_152, 128_256))
    for text in TEXTS:
        assert old.encode(text).ids == new.encode(text).ids
    assert padded_tokenizer(file, vocabulary=128_256) == padded


def test_what_has_enough_or_is_of_another_kind_stays_as_it_is(model_dir: Path, tmp_path: Path):
    file = model_dir / "tokenizer.json"
    assert padded_tokenizer(file, vocabulary=49_152) == file.read_text(encoding="utf-8")
    other = tmp_path / "tokenizer.json"
    other.write_text(json.dumps({"model": {"type": "WordPiece", "vocab": {"a": 0}}}))
    assert padded_tokenizer(other, vocabulary=9) == other.read_text()
