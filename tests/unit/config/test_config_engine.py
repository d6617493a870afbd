"""The engine's block: paths, words that the installed vLLM knows, and what runs code."""

import sys
from pathlib import Path

import pytest
from safetensors.numpy import save_file

from schemas.arm import NamedArm
from schemas.errors import ConfigError
from schemas.experiment import Experiment
from tasks.config.resolve import load_experiment
from tests.e2e.adapters import write_adapter

PARTS = Path(__file__).parents[2] / "configs" / "valid" / "parts"
ROWS = (
    "name: own\nmodel: smollm2-135m-instruct\n"
    f"datasets: [{{use: {PARTS / 'sums.yaml'}}}, {{use: {PARTS / 'facts.yaml'}, adapter: none}}]\n"
)


def load(folder: Path, engine: str, *overrides: str) -> Experiment:
    (folder / "own.yaml").write_text(f"{ROWS}engine: {{extends: vllm, {engine}}}\n")
    return load_experiment(folder / "own.yaml", overrides=overrides)


def refused(folder: Path, engine: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(folder, engine, *overrides)
    return str(caught.value)


def test_paths_start_from_the_file(tmp_path: Path) -> None:
    write_adapter(tmp_path / "tuned", seed=1)
    found = load(tmp_path, "adapters: [{name: tuned, path: tuned}], compile_cache: compiled").engine
    assert found.adapters[0].path == str(tmp_path / "tuned")
    assert found.compile_cache == str(tmp_path / "compiled")


def test_a_dataset_chooses_an_adapter_and_its_use_another(tmp_path: Path) -> None:
    write_adapter(tmp_path / "tuned", seed=1)
    engine = "adapters: [{name: tuned, path: tuned}]"
    first, second = load(tmp_path, engine).datasets
    assert (first.config.adapter, second.config.adapter) == (None, None)
    path = tmp_path / "own.yaml"
    path.write_text(path.read_text().replace("sums.yaml}", "sums.yaml, adapter: tuned}"))
    assert load_experiment(path).datasets[0].config.adapter == "tuned"
    path.write_text(path.read_text().replace("adapter: tuned}", "adapter: tunned}"))
    with pytest.raises(ConfigError, match=r"asks for the adapter `tunned`.*did you mean `tuned`"):
        load_experiment(path)


def test_an_arm_has_an_adapter_of_its_own_and_a_misspelt_one_gets_the_nearest(tmp_path: Path) -> None:
    write_adapter(tmp_path / "tuned", seed=1)
    engine = "adapters: [{name: tuned, path: tuned}]"
    load(tmp_path, engine)
    path = tmp_path / "own.yaml"
    text = path.read_text()
    path.write_text(text + "arms: [free, {name: legal, adapter: tuned}]\n")
    arms = load_experiment(path).arms
    assert arms == ["free", NamedArm(name="legal", like="free", adapter="tuned")]
    path.write_text(text + "arms: [free, {name: legal, adapter: tunned}]\n")
    with pytest.raises(ConfigError, match=r"arms\[1\].adapter: the engine has no adapter `tunned`.*mean `tuned`"):
        load_experiment(path)


def test_an_adapter_that_is_pickled_is_refused(tmp_path: Path) -> None:
    folder = write_adapter(tmp_path / "tuned", seed=1)
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    assert "pickled (adapter_model.bin)" in refused(tmp_path, "adapters: [{name: tuned, path: tuned}]")


def test_the_speculating_model_is_written_out(tmp_path: Path) -> None:
    model = load(tmp_path, "speculative: {method: draft, model: smollm2-135m-instruct}").engine.speculative.model
    assert isinstance(model, dict) and model["name"] == "smollm2-135m-instruct"
    missing = "speculative: {method: draft, model: smollm2-135m-instrukt}"
    assert "did you mean `smollm2-135m-instruct`" in refused(tmp_path, missing)


@pytest.mark.parametrize(
    "override",
    [
        "engine.allow_code=true",
        f"engine.python={sys.executable}",
        "engine.extra.worker_cls=my.Worker",
        "engine.extra={trust_remote_code: true}",
    ],
)
def test_what_runs_code_is_not_taken_from_an_override(tmp_path: Path, override: str) -> None:
    for engine in ("max_num_seqs: 4", "allow_code: true"):
        assert "only from a file" in refused(tmp_path, engine, override)


def test_what_runs_code_needs_the_files_word_for_it(tmp_path: Path) -> None:
    assert "allow_code" in refused(tmp_path, "extra: {worker_cls: my.Worker}")
    assert load(tmp_path, "allow_code: true, extra: {worker_cls: my.Worker}").engine.extra == {
        "worker_cls": "my.Worker"
    }
    assert load(tmp_path, f"allow_code: true, python: {sys.executable}").engine.python == sys.executable
    assert "is none" in refused(tmp_path, f"allow_code: true, python: {tmp_path}")
    assert "allow_code" in refused(tmp_path, "hf_overrides: {auto_map: {AutoModel: my.Model}}")
    inductor = "extra: {compilation_config: {backend: my.backend}}"
    assert "allow_code" in refused(tmp_path, inductor)


def test_an_override_may_change_what_runs_no_code(tmp_path: Path) -> None:
    assert load(tmp_path, "max_num_seqs: 4", "engine.extra.max_logprobs=3").engine.extra == {"max_logprobs": 3}
    assert load(tmp_path, "quantization: fp8", "engine.quantization=auto").engine.quantization == "auto"


def test_an_environment_that_lacks_what_the_engine_needs_is_refused(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    said = refused(tmp_path, f"allow_code: true, python: {bare}")
    assert "has no vllm, msgspec, pyzmq" in said


def test_an_adapter_without_layers_is_no_reason_to_load_it(tmp_path: Path, model_dir: Path) -> None:
    from tasks.model.adapter import read_adapter

    folder = write_adapter(tmp_path / "tuned", seed=1)
    facts = read_adapter("tuned", folder, model=model_dir, cache=tmp_path)
    assert (facts.rank, facts.modules) == (4, ["down_proj", "q_proj", "v_proj"])
    again = read_adapter("tuned", write_adapter(tmp_path / "again", seed=1), model=model_dir, cache=tmp_path)
    other = read_adapter("tuned", write_adapter(tmp_path / "other", seed=2), model=model_dir, cache=tmp_path)
    assert again.fingerprint == facts.fingerprint != other.fingerprint

    import numpy as np

    def written(name: str, shape: tuple[int, int]) -> None:
        save_file({name: np.zeros(shape, "float32")}, folder / "adapter_model.safetensors")

    written("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", (4, 64))
    with pytest.raises(ConfigError, match=r"has 64 where .* has 576"):
        read_adapter("tuned", folder, model=model_dir, cache=tmp_path)
    written("base_model.model.h.0.attn.c_attn.lora_A.weight", (4, 576))
    with pytest.raises(ConfigError, match=r"has no layer h\.0\.attn\.c_attn"):
        read_adapter("tuned", folder, model=model_dir, cache=tmp_path)
    written("something", (1, 1))
    with pytest.raises(ConfigError, match="no LoRA layers"):
        read_adapter("tuned", folder, model=model_dir, cache=tmp_path)
    (folder / "adapter_config.json").write_text('{"r": 4, "use_dora": true}')
    with pytest.raises(ConfigError, match="DoRA"):
        read_adapter("tuned", folder, model=model_dir, cache=tmp_path)
    (folder / "adapter_config.json").write_text('{"r": "four"}')
    with pytest.raises(ConfigError, match="whole number above 0"):
        read_adapter("tuned", folder, model=model_dir, cache=tmp_path)
