"""`assay worker` and `assay deploy`: what a real host runs as services, and what registers the deployments."""

import os
import sys
from pathlib import Path

from rich.console import Console

from flows.launched import FOLDER
from flows.pools import POOLS
from flows.runtime import assay_home, prepare_environment
from flows.servers import FLOW_SETTINGS, WORKER_SETTINGS, named_here, running_up
from schemas.errors import ConfigError


def named_prefect_api(home: Path) -> str:
    """The server to talk to: ASSAY_PREFECT_API_URL, else the one of a running `assay up`. Raises ConfigError."""
    named = os.environ.get("ASSAY_PREFECT_API_URL")
    if named:
        return named
    up = running_up(home)
    if up is None:
        raise ConfigError.one(
            "there is no Prefect server to talk to",
            key="ASSAY_PREFECT_API_URL",
            suggestion="set it, as in http://prefect.example:4200/api, or start `assay up`",
        )
    return up.prefect_api_url


def work(*, pool: str) -> None:
    """Becomes Prefect's worker for the pool; returns only by an error.

    The process is replaced, so that a service manager's signals reach the worker itself."""
    if pool not in POOLS:
        raise ConfigError.one(f"there is no pool {pool!r}", key="POOL", suggestion=" or ".join(POOLS))
    home = assay_home()
    api = named_prefect_api(home)
    prepare_environment(home)
    os.environ |= FLOW_SETTINGS | WORKER_SETTINGS
    os.environ[FOLDER] = str(Path.cwd())
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    os.environ["PREFECT_API_URL"] = api
    os.environ["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] = "INFO"
    command = [sys.executable, "-P", "-m", "prefect", "worker", "start", "--pool", pool, "--type", "process"]
    command += ["--name", named_here(pool), "--limit", str(POOLS[pool].each_worker)]
    command += ["--no-create-pool-if-not-found"]  # it would make the pool without its limit
    os.execv(sys.executable, command)  # noqa: S606 - the command is a list of ours


def deploy(*, file: Path | None) -> int:
    """Registers pools, limits, deployments and automations; again and again with the same result."""
    home = assay_home()
    api = named_prefect_api(home)
    prepare_environment(home)
    os.environ["PREFECT_API_URL"] = api
    from flows.deployments import register  # noqa: PLC0415 - imports Prefect, whose settings must stand before

    for line in register(file=_prefect_yaml(file)):
        Console(stderr=True, highlight=False).print(line)
    return 0


def _prefect_yaml(named: Path | None) -> Path:
    found = (
        [named] if named is not None else [Path("prefect.yaml"), Path(__file__).resolve().parents[2] / "prefect.yaml"]
    )
    for path in found:
        if path.is_file():
            return path.resolve()
    raise ConfigError.one(
        f"there is no {found[0]}", key="FILE", suggestion="it names the deployments; the project's own is an example"
    )
