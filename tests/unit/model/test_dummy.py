"""A model of some shape without weights."""

import json
import struct
from pathlib import Path

import pytest

from schemas.errors import ConfigError
from schemas.experiment import NamedModel
from schemas.model import DummySource, Model, PathSource
from tasks.model.dummy import weights_bytes
from tasks.model.facts import read_model_facts
from tasks.model.resolve import model_folder, model_ready

SHAPE = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 49152,
    "max_position_embeddings": 4096,
    "torch_dtype": "float16",
}


def named(tokenizer: Path, **changes: object) -> NamedModel:
    source = DummySource(kind="dummy", config=SHAPE | changes, tokenizer=PathSource(kind="path", path=str(tokenizer)))
    return NamedModel(name="shape", config=Model(source=source))


def test_the_size_is_that_of_a_real_model_of_that_shape(model_dir):
    config = json.loads((model_dir / "config.json").read_text())
    weights = model_dir / "model.safetensors"
    with weights.open("rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    stored = sum(
        tensor["data_offsets"][1] - tensor["data_offsets"][0]
        for name, tensor in header.items()
        if name != "__metadata__"
    )
    assert weights_bytes(config, dtype=read_model_facts(model_dir, cache=weights.parent.parent).dtype) == stored


def test_llama_3_8b_has_8_030_million_parameters():
    shape = {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
    }
    assert weights_bytes(shape, dtype="bfloat16") == 2 * 8_030_261_248  # as its model card says: 8.03 billion


def test_the_folder_is_made_once_with_the_others_tokenizer(tmp_path, model_dir):
    model = named(model_dir)
    assert model_ready(model, tmp_path) is None
    folder = model_folder(model, cache=tmp_path)
    assert model_folder(model, cache=tmp_path) == model_ready(model, tmp_path) == folder
    assert (folder / "tokenizer.json").read_bytes() == (model_dir / "tokenizer.json").read_bytes()
    assert not list(folder.glob("*.safetensors"))
    facts = read_model_facts(folder, cache=tmp_path)
    assert (facts.dummy, facts.layers, facts.dtype) == (True, 3, "float16")
    assert not read_model_facts(model_dir, cache=tmp_path).dummy


def test_another_shape_is_another_model(tmp_path, model_dir):
    one, other = (model_folder(named(model_dir, num_hidden_layers=n), cache=tmp_path) for n in (3, 4))
    prints = {read_model_facts(folder, cache=tmp_path).fingerprint for folder in (one, other)}
    assert one != other
    assert len(prints) == 2


@pytest.mark.parametrize("key", ["hidden_size", "architectures", "vocab_size"])
def test_a_shape_that_lacks_a_size_is_refused(tmp_path, model_dir, key):
    with pytest.raises(ConfigError, match=f"the shape has no {key}"):
        model_folder(named(model_dir, **{key: None}), cache=tmp_path)


def test_a_shape_that_would_run_code_is_refused(tmp_path, model_dir):
    with pytest.raises(ConfigError, match="auto_map"):
        model_folder(named(model_dir, auto_map={"AutoModel": "x.py"}), cache=tmp_path)
