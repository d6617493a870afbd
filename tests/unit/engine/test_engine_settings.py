"""What the engine's process is told before it starts, how its options become vLLM's, and what it made of them."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from schemas.engine import VllmEngine
from schemas.plan import DeviceFacts
from tasks.engine.settings import downgrades, identifying, process_settings
from tasks.engine.worker import vllm_options

ROOT = Path(__file__).parents[3]
CPU = DeviceFacts(
    kind="cpu",
    name="a processor",
    count=1,
    memory_bytes=1 << 34,
    cores=[0, 1],
    cpu_quota=None,
    cpu_flags=[],
    driver=None,
    compute_capability=None,
)
OPTIONS: dict[str, Any] = {
    "core": "inprocess",
    "dtype": "float32",
    "load_format": "safetensors",
    "max_model_len": 64,
    "max_num_batched_tokens": 64,
    "max_num_seqs": 2,
    "long_prefill_token_threshold": 0,
    "enable_prefix_caching": True,
    "grammar_backend": "xgrammar",
    "grammar_whitespace": False,
    "block_size": 32,
    "compile": "full",
    "cudagraph_mode": "piecewise",
    "cudagraph_capture_sizes": [1, 2],
    "gpu_memory_utilization": 0.9,
}
KNOWN = (
    "model",
    "dtype",
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_seqs",
    "long_prefill_token_threshold",
    "block_size",
    "enable_prefix_caching",
    "structured_outputs_config",
    "disable_log_stats",
    "trust_remote_code",
    "load_format",
    "seed",
    "compilation_config",
    "enforce_eager",
    "kv_cache_memory_bytes",
    "gpu_memory_utilization",
    "enable_lora",
    "max_loras",
    "max_cpu_loras",
    "max_lora_rank",
    "lora_target_modules",
    "speculative_config",
    "tensor_parallel_size",
    "hf_overrides",
    "quantization",
    "distributed_executor_backend",
    "enable_sleep_mode",
    "profiler_config",
    "max_logprobs",
    "attention_config",
)
"""A release that takes the attention backend elsewhere and has no pipelines."""


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vLLM with the arguments KNOWN, in place of the installed one, which costs seconds to import."""
    module = type(sys)("vllm.engine.arg_utils")
    module.EngineArgs = dataclasses.make_dataclass("EngineArgs", [(name, Any, None) for name in KNOWN])  # type: ignore[attr-defined]
    for name in ("vllm", "vllm.engine"):
        monkeypatch.setitem(sys.modules, name, type(sys)(name))
    monkeypatch.setitem(sys.modules, "vllm.engine.arg_utils", module)


def arguments(**options: Any) -> Any:
    return vllm_options.checked_arguments("/m", OPTIONS | options, device="cuda", trace_dir="/t")


@pytest.mark.usefixtures("release")
def test_options_become_the_arguments_of_the_release() -> None:
    made = arguments(
        quantization="fp8",
        adapters=[
            {"name": "a", "path": "/a", "modules": ["q_proj", "v_proj"]},
            {"name": "b", "path": "/b", "modules": ["down_proj", "q_proj"]},
        ],
        max_loras=2,
        max_lora_rank=8,
        speculative={"method": "ngram", "tokens": 3, "lookup": [2, 4]},
        tensor_parallel_size=2,
        executor="mp",
        hf_overrides={"max_position_embeddings": 5},
        attention_backend="FLASH_ATTN",
        sleep_mode=True,
        trace_steps=3,
        extra={"max_logprobs": 9, "compilation_config": {"custom_ops": ["all"]}},
    )
    assert made.quantization == "fp8"
    assert (made.enable_lora, made.max_loras, made.max_cpu_loras, made.max_lora_rank) == (True, 2, 2, 8)
    assert made.lora_target_modules == ["down_proj", "q_proj", "v_proj"]
    assert made.speculative_config == {
        "method": "ngram",
        "num_speculative_tokens": 3,
        "prompt_lookup_min": 2,
        "prompt_lookup_max": 4,
    }
    assert (made.tensor_parallel_size, made.distributed_executor_backend) == (2, "mp")
    assert made.attention_config == {"backend": "FLASH_ATTN"}
    assert made.profiler_config == {"profiler": "torch", "torch_profiler_dir": "/t"}
    assert made.max_logprobs == 9
    assert made.compilation_config == {
        "mode": 3,
        "cudagraph_mode": "PIECEWISE",
        "cudagraph_capture_sizes": [1, 2],
        "custom_ops": ["all"],
    }


@pytest.mark.usefixtures("release")
def test_what_is_not_asked_for_is_left_to_vllm() -> None:
    made = arguments(
        quantization="none", kv_cache_dtype="auto", adapters=[], speculative=None, attention_backend="auto", extra={}
    )
    for name in ("quantization", "enable_lora", "speculative_config", "attention_config", "profiler_config"):
        assert getattr(made, name) is None, name


@pytest.mark.usefixtures("release")
@pytest.mark.parametrize(
    ("option", "value", "argument"),
    [("kv_cache_dtype", "fp8", "memory.kv_dtype"), ("pipeline_parallel_size", 2, "parallel")],
)
def test_an_option_that_the_release_lacks_is_named_with_it(option: str, value: Any, argument: str) -> None:
    with pytest.raises(ValueError, match=f"vLLM .* has no argument `{option}`, which the option {argument} needs"):
        arguments(**{option: value})


def test_vllms_own_checks_are_said_in_one_line() -> None:
    from pydantic import BaseModel, ValidationError, field_validator

    class Checked(BaseModel):
        x: int

        @field_validator("x")
        @classmethod
        def _no(cls, value: int) -> int:
            raise ValueError(f"{value} cannot be\nfor many reasons")

    with pytest.raises(ValidationError) as caught:
        Checked(x=1)
    assert vllm_options.in_words(caught.value) == "ValidationError: 1 cannot be"
    assert vllm_options.in_words(RuntimeError("one\ntwo")) == "RuntimeError: one"
    assert vllm_options.in_words(RuntimeError()) == "RuntimeError: "


def test_a_silent_change_is_said_and_what_is_unknown_is_not() -> None:
    requested = {
        "quantization": "none",
        "attention_backend": "FLASH_ATTN",
        "kv_cache_dtype": "fp8",
        "speculative": {"method": "ngram", "tokens": 4, "fingerprint": "x"},
        "hf_overrides": {"a": 1},
        "extra": {},
        "sleep_mode": True,
        "prefill_policy": "rule",
    }
    same = {
        "quantization": None,
        "attention_backend": None,
        "kv_cache_dtype": "fp8",
        "speculative": {"method": "ngram", "tokens": 4},
        "hf_overrides": {"a": 1},
        "extra": {},
        "sleep_mode": True,
    }
    assert downgrades(requested, same) == []
    changed = same | {"hf_overrides": {"a": 2}, "attention_backend": "TRITON_ATTN", "speculative": None}
    assert downgrades(requested, changed) == [
        "attention_backend: asked for FLASH_ATTN, the engine runs with TRITON_ATTN",
        f"speculative: asked for {requested['speculative']}, the engine runs with None",
        "hf_overrides.a: asked for 1, the engine runs with 2",
    ]


def test_a_folder_of_this_machine_makes_no_other_engine() -> None:
    here = {
        "compile_cache": "/here",
        "python": "/here/python",
        "trace_steps": 3,
        "adapters": [{"name": "a", "path": "/here/a", "fingerprint": "1"}],
        "speculative": {"method": "draft_model", "model": "/here/m", "fingerprint": "2"},
        "max_num_seqs": 4,
    }
    there = here | {
        "compile_cache": "/there",
        "adapters": [{"name": "a", "path": "/there/a", "fingerprint": "1"}],
        "speculative": {"method": "draft_model", "model": "/there/m", "fingerprint": "2"},
    }
    assert identifying(here) == identifying(there)
    assert identifying(here) != identifying(here | {"adapters": [{"name": "a", "fingerprint": "9"}]})


def test_what_vllm_reads_while_it_is_imported_is_set_before() -> None:
    cache = Path("/assay/cache")
    plain = process_settings(VllmEngine(), device=CPU, cache=cache)
    assert (plain.cores, plain.compiles, plain.python) == ((0, 1), False, None)
    assert dict(plain.variables) == {"VLLM_CACHE_ROOT": "/assay/cache/vllm"}
    other = process_settings(
        VllmEngine(batch_invariant=True, compile_cache="/c", python="/p", compile="full"), device=CPU, cache=cache
    )
    assert dict(other.variables) == {"VLLM_CACHE_ROOT": "/c", "VLLM_BATCH_INVARIANT": "1"}
    assert (other.compiles, other.python) == (True, "/p")
    assert plain != other


def test_the_worker_needs_nothing_that_another_environment_may_lack(tmp_path: Path) -> None:
    (tmp_path / "tasks").symlink_to(ROOT / "tasks")
    code = (
        "import sys; before = set(sys.modules); import tasks.engine.worker.__main__; "
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    needed = set(done.stdout.split()) - set(sys.stdlib_module_names)
    assert needed - {"tasks", "msgspec", "zmq", "cython_runtime", "typing_extensions"} == {
        name for name in needed if name.startswith("_")
    }
