"""Servers of others on this machine, as tests ask them: vLLM's own, and llama.cpp's where its environment is there."""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from schemas.model import GgufSource
from tasks.engine.client import EngineClient
from tasks.engine.process import SupervisedProcess
from tasks.engine.protocol import Built
from tasks.engine.settings import ProcessSettings
from tasks.model.resolve import gguf_file
from tasks.plan.device import read_device_facts
from tests.conftest import ROOT, SMALL_MODEL
from tests.up import free_port

NAME = "tiny"
READY_S = 240.0
LLAMA = ROOT / ".cache" / "llama-cpp-python" / "bin" / "python"
VARIABLE = "ASSAY_TEST_LLAMA_PYTHON"


@contextmanager
def vllm_server(*, model: Path, log_path: Path, key: str) -> Iterator[str]:
    """`vllm serve` by its module, in the numbers of engine_client's OPTIONS; its address. It lets its prefix cache be
    reset."""
    port = free_port()
    options = {
        "model": model,
        "served-model-name": NAME,
        "host": "127.0.0.1",
        "port": port,
        "dtype": "float32",
        "max-model-len": 512,
        "max-num-batched-tokens": 512,
        "max-num-seqs": 16,
        "long-prefill-token-threshold": 64,
        "block-size": 32,
        "kv-cache-memory-bytes": 64 << 20,
        "structured-outputs-config": json.dumps({"backend": "xgrammar", "disable_any_whitespace": True}),
        "api-key": key,
    }
    variables = {
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(str(core) for core in read_device_facts().cores),
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "TORCH_COMPILE_DISABLE": "1",
    }
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--enforce-eager", *_flags(options, "-")]
    with _served(command, variables=variables, log_path=log_path, url=f"http://127.0.0.1:{port}/health") as ready:
        yield ready.removesuffix("/health")


@contextmanager
def llama_server(*, log_path: Path) -> Iterator[str]:
    """llama.cpp's server from llama-cpp-python, of the small model's own GGUF file; its address."""
    port = free_port()
    source = SMALL_MODEL.config.source
    assert isinstance(source, GgufSource)
    options = {
        "model": gguf_file(source),
        "model_alias": NAME,
        "host": "127.0.0.1",
        "port": port,
        "n_ctx": 512,
        "interrupt_requests": "false",
    }
    command = [str(llama_python()), "-m", "llama_cpp.server", *_flags(options, "_")]
    url = f"http://127.0.0.1:{port}/v1/models"
    with _served(command, variables={}, log_path=log_path, url=url) as ready:
        yield ready.removesuffix("/v1/models")


def llama_python() -> Path:
    """Its interpreter; the test is skipped where there is none."""
    python = Path(os.environ.get(VARIABLE, LLAMA)).absolute()
    if not python.is_file():
        pytest.skip(f"{python} is not there (requirements/other_server.py makes such an environment)")
    return python


def _flags(options: Mapping[str, Any], between: str) -> Sequence[str]:
    return [part for name, value in options.items() for part in (f"--{name.replace('-', between)}", str(value))]


@contextmanager
def _served(command: Sequence[str], *, variables: Mapping[str, str], log_path: Path, url: str) -> Iterator[str]:
    """Started, ready, and ended with all below it. url: what answers once it is ready."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    process = SupervisedProcess(command, env=environment | dict(variables), log_path=log_path, cwd=log_path.parent)
    try:
        end = time.monotonic() + READY_S
        while not _answers(url):
            assert process.returncode is None, f"it ended: {process.log_tail()}"
            assert time.monotonic() < end, f"it is not ready after {READY_S:.0f} s: {process.log_tail()}"
            time.sleep(0.3)
        yield url
    finally:
        process.close()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@contextmanager
def endpoint(
    *, url: str, log_path: Path, variables: Mapping[str, str] | None = None, **options: Any
) -> Iterator[tuple[EngineClient, Built]]:
    """assay's engine process that asks this server."""
    settings = ProcessSettings(cores=(), program="endpoint", variables=tuple((variables or {}).items()))
    with EngineClient(log_path=log_path, settings=settings) as client:
        yield client, client.build(model=NAME, options={"url": url, **options})
