"""Which ends of an engine are a lack of memory. The texts are real ones: of vLLM's source with numbers put in, of torch
and Python under a limit of memory."""

import os
from pathlib import Path

import pytest

from tasks.engine.failure import EngineDied, kernel_kills, shortage
from tasks.engine.process import SupervisedProcess
from tests.faults.processes import wait_for

CUDA = (
    "OutOfMemoryError: CUDA out of memory. Tried to allocate 3.91 GiB. GPU 0 has a total capacity of 79.11 GiB of "
    "which 1.55 GiB is free."
)
CPU = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
    "to allocate 8589934592 bytes. Error code 12 (Cannot allocate memory)"
)
NO_BLOCKS = (
    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing "
    "the engine (this flag also controls CPU memory reservation on the CPU backend, despite its name)."
)
TOO_LONG = (
    "ValueError: To serve at least one request with the model's max seq len (131072), 16.0 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (9.31 GiB). Based on the available memory, the estimated "
    "maximum model length is 76256."
)
KV_ON_CPU = (
    "ValueError: Available memory on node 0 (17.6/23.49 GiB) on kv cache allocation is less than requested memory for "
    "kv (40.0 GiB). Decrease --kv-cache-memory-bytes, VLLM_CPU_KVCACHE_SPACE, or reduce CPU memory used by other "
    "processes."
)
BUSY = (
    "ValueError: Free memory on device cuda:0 (31.02/79.11 GiB) on startup is less than desired GPU memory utilization "
    "(0.9, 71.2 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
)


def died(words: str, *, details: str = "", log: str = "", status: int | None = 1) -> EngineDied:
    return EngineDied("it died", how="reported", words=words, details=details, log=log, status=status)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (CUDA, "allocation"),
        (CPU, "allocation"),
        ("RuntimeError: CUDA error: out of memory", "allocation"),
        ("MemoryError", "allocation"),
        ("MemoryError: Unable to allocate 8.00 GiB for an array with shape (8589934592,)", "allocation"),
        ("OSError: [Errno 12] Cannot allocate memory", "allocation"),
        (
            "RuntimeError: unable to mmap 269060552 bytes from file <model.safetensors>: Cannot allocate memory (12)",
            "allocation",
        ),
        (NO_BLOCKS, "kv"),
        (TOO_LONG, "kv"),
        (KV_ON_CPU, "kv"),
        (BUSY, "busy"),
    ],
)
def test_real_words_of_a_lack_of_memory(words: str, kind: str) -> None:
    found = shortage(died(words), killed_by_kernel=False)
    assert found is not None and found.kind == kind
    assert found.words in words


@pytest.mark.parametrize(
    "words",
    [
        "exit status 137",
        "exit status 139",
        "EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "ValueError: max_num_batched_tokens (16) must be greater than or equal to max_num_seqs (32).",
        "RuntimeError: Expected a 'cpu' device type for generator but found 'cuda'",
    ],
)
def test_other_ends_are_none(words: str) -> None:
    assert shortage(died(words), killed_by_kernel=False) is None


def test_what_the_log_alone_tells_counts_too() -> None:
    aborted = died("exit status 134", log="terminate called after throwing an instance of 'std::bad_alloc'", status=134)
    found = shortage(aborted, killed_by_kernel=False)
    assert found is not None and found.words == "terminate called after throwing an instance of 'std::bad_alloc'"
    torn = died("RuntimeError: could not create a primitive", log="cannot allocate memory for thread-local data: ABORT")
    found = shortage(torn, killed_by_kernel=False)
    assert found is not None and found.words == "cannot allocate memory for thread-local data: ABORT"
    line = f"(EngineCore_DP0 pid=77) ERROR 11-28 11:42:15 [core.py:842] torch.{CUDA}"
    core = died("EngineDeadError: EngineCore encountered an issue.", log=line)
    found = shortage(core, killed_by_kernel=False)
    assert found is not None and found.words == f"torch.{CUDA}"


def test_sigkill_is_a_lack_of_memory_only_if_the_kernel_counted_one() -> None:
    assert shortage(died("exit status 137", status=137), killed_by_kernel=False) is None
    found = shortage(died("exit status 137", status=137), killed_by_kernel=True)
    assert found is not None and found.kind == "killed"
    core = died("EngineDeadError: EngineCore encountered an issue.", status=None)
    assert shortage(core, killed_by_kernel=True) is not None
    assert shortage(died("exit status 1", status=1), killed_by_kernel=True) is None


def test_where_memory_ran_out_and_what_was_free_are_read() -> None:
    frames = '  File "gpu_model_runner.py", line 5000, in capture_model\n'
    found = shortage(died(CUDA, details=frames), killed_by_kernel=False)
    assert found is not None and found.where == "graphs"
    found = shortage(died(CPU, details='File "x.py", line 1, in load_model\n'), killed_by_kernel=False)
    assert found is not None and found.where == "weights"
    found = shortage(died(BUSY), killed_by_kernel=False)
    assert found is not None and found.free_share == pytest.approx(31.02 / 79.11)


def _memory_group() -> Path:
    """A control group of this test's own, limited to 60 MB; skips where none can be made."""
    for root, limit in (
        (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
        (Path("/sys/fs/cgroup"), "memory.max"),
    ):
        group = root / f"assay-test-{os.getpid()}"
        try:
            group.mkdir()
            (group / limit).write_text(str(60 << 20))
        except OSError:
            if group.exists():
                group.rmdir()
            continue
        return group
    pytest.skip("no control group for memory can be made here")


def test_the_kernels_own_kill_is_told_from_anybody_elses(tmp_path: Path) -> None:
    before = kernel_kills()
    if before is None:
        pytest.skip("this kernel does not count what it kills")
    group = _memory_group()
    try:
        grow = "import time\nwhile True: held = globals().setdefault('all', []); held.append(bytearray(4 << 20))"
        command = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec python3 -c "{grow}"']
        process = SupervisedProcess(command, env=dict(os.environ), log_path=tmp_path / "log")
        wait_for(lambda: process.returncode is not None, timeout_s=30, what="the kernel has killed it")
        assert process.returncode == 137
        after = kernel_kills()
        assert after is not None and after > before
        killed = died("exit status 137", status=process.returncode)
        found = shortage(killed, killed_by_kernel=after > before)
        assert found is not None and found.kind == "killed"
    finally:
        group.rmdir()
