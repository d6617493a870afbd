"""What a model folder says of itself."""

import json
import os
import struct
import time
from pathlib import Path

import pytest

from schemas.errors import ConfigError
from tasks.model.facts import read_model_facts

SIZES = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 128,
    "vocab_size": 99,
}


def folder_with(root: Path, config: dict, *, generation: dict | None = None, dtype: str = "F16") -> Path:
    folder = root / "m"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    header = json.dumps(
        {"__metadata__": {"format": "pt"}, "w": {"dtype": dtype, "shape": [2], "data_offsets": [0, 4]}}
    ).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\1\2\3\4")
    return folder


def facts_of(tmp_path: Path, config: dict, **arguments):
    return read_model_facts(folder_with(tmp_path, config, **arguments), cache=tmp_path / "cache")


def test_the_small_models_facts(model_dir, tmp_path):
    facts = read_model_facts(model_dir, cache=tmp_path)
    assert facts.architecture == "LlamaForCausalLM"
    assert (facts.layers, facts.kv_heads, facts.head_dim, facts.hidden_size) == (30, 3, 64, 576)
    assert (facts.vocab_size, facts.max_position_embeddings) == (49_152, 8_192)
    assert facts.dtype == "bfloat16"
    assert 260e6 < facts.weights_bytes < 280e6
    assert (facts.bos_token_id, facts.eos_token_ids) == (1, [2])

    # Read again it is fast. The best of five: other programs share this machine's cores.
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        again = read_model_facts(model_dir, cache=tmp_path)
        seconds.append(time.perf_counter() - start)
        assert again == facts
    assert min(seconds) < 0.05


def test_sizes_fall_back_where_the_config_leaves_them_out(tmp_path):
    facts = facts_of(tmp_path, SIZES | {"model_type": "tiny"})
    assert (facts.kv_heads, facts.head_dim) == (4, 16)
    assert facts.architecture == "tiny"
    assert facts.dtype == "float16"  # from the weights' header
    assert facts.eos_token_ids == []
    assert facts.bos_token_id is None


def test_a_nested_text_config_is_used(tmp_path):
    config = {
        "architectures": ["SomeForConditionalGeneration"],
        "torch_dtype": "bfloat16",
        "eos_token_id": 7,
        "text_config": SIZES | {"num_key_value_heads": 2, "head_dim": 32},
    }
    facts = facts_of(tmp_path, config)
    assert (facts.kv_heads, facts.head_dim, facts.layers) == (2, 32, 2)
    assert (facts.architecture, facts.dtype) == ("SomeForConditionalGeneration", "bfloat16")
    assert facts.eos_token_ids == [7]


def test_the_generation_configs_end_tokens_come_first(tmp_path):
    facts = facts_of(tmp_path, SIZES | {"eos_token_id": 1, "bos_token_id": 0}, generation={"eos_token_id": [3, 4]})
    assert (facts.eos_token_ids, facts.bos_token_id) == ([3, 4], 0)


def test_the_names_of_older_architectures_are_understood(tmp_path):
    config = {"n_embd": 64, "n_head": 4, "n_layer": 3, "n_positions": 256, "vocab_size": 9, "multi_query": True}
    facts = facts_of(tmp_path, config | {"dtype": "torch.float32"})
    assert (facts.hidden_size, facts.layers, facts.kv_heads, facts.max_position_embeddings) == (64, 3, 1, 256)
    assert facts.dtype == "float32"


def test_a_missing_size_is_refused_with_file_and_key(tmp_path):
    with pytest.raises(ConfigError, match=r"config\.json: max_position_embeddings: "):
        facts_of(tmp_path, {key: value for key, value in SIZES.items() if key != "max_position_embeddings"})


def test_a_number_format_that_is_not_supported_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="number format"):
        facts_of(tmp_path, SIZES, dtype="F8_E4M3")


def test_broken_json_is_refused_with_its_line(tmp_path):
    folder = folder_with(tmp_path, SIZES)
    (folder / "config.json").write_text('{\n "hidden_size": ,\n}')
    with pytest.raises(ConfigError, match=r"config\.json:2: "):
        read_model_facts(folder, cache=tmp_path)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "generation_config.json"])
def test_the_fingerprint_moves_with_every_file_that_decides_an_answer(tmp_path, name):
    folder = folder_with(tmp_path, SIZES, generation={"eos_token_id": 1})
    before = read_model_facts(folder, cache=tmp_path).fingerprint
    path = folder / name
    content = path.read_bytes()
    changed = content[:-1] + b"\5" if name == "model.safetensors" else content + b"\n"
    path.write_bytes(changed)
    os.utime(path, ns=(0, 1))
    after = read_model_facts(folder, cache=tmp_path).fingerprint
    assert after != before
    path.write_bytes(content)
    assert read_model_facts(folder, cache=tmp_path).fingerprint == before


def test_the_fingerprint_does_not_depend_on_where_the_folder_lies_or_on_the_cache(tmp_path):
    folder = folder_with(tmp_path, SIZES)
    here = read_model_facts(folder, cache=tmp_path / "a").fingerprint
    moved = folder.rename(tmp_path / "elsewhere")
    assert read_model_facts(moved, cache=tmp_path / "b").fingerprint == here
    (tmp_path / "b" / "digests.json").write_text("not json")
    assert read_model_facts(moved, cache=tmp_path / "b").fingerprint == here
