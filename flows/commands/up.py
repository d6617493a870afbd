"""`assay up` and `assay down`: the servers and workers of this machine, started together and stopped together."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from rich.console import Console

from flows.commands.output import print_json
from flows.pools import HERE
from flows.runtime import assay_home, prepare_environment
from flows.servers import (
    HOST,
    Up,
    answers,
    check_port,
    mlflow_environment,
    mlflow_server_command,
    post_json,
    prefect_server_command,
    running_up,
    server_environment,
    up_lock,
    wait_healthy,
    write_up,
)
from flows.signals import Terminated
from schemas.errors import RunError
from tasks.engine.process import SupervisedProcess

WORKERS_READY_S = 60.0
STOP_S = 45.0
"""What a run gets to stop its engine and to write how it ended."""
GRACE_S = 5.0
"""What a worker or a server gets to end by itself."""
DEPLOY_S = 120.0
MAX_LOG_BYTES = 32 << 20
"""A worker's log takes what every run prints, for months."""
_RESTARTS, _WITHIN_S = 5, 600.0


@dataclass
class _Part:
    """One program that is kept running."""

    name: str
    command: list[str]
    environment: dict[str, str]
    log_path: Path
    restarts: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        _keep_last_log(self.log_path)
        self.start()

    def start(self) -> None:
        self.process = SupervisedProcess(self.command, env=self.environment, log_path=self.log_path)

    def restart(self) -> None:
        """Raises RunError when it dies again and again."""
        now = time.monotonic()
        self.restarts = [each for each in self.restarts if now - each < _WITHIN_S] + [now]
        if len(self.restarts) > _RESTARTS:
            raise RunError(f"{self.name} ended again and again; {self.log_path} ends with:\n{self.process.log_tail(8)}")
        self.process.close()
        self.start()


def up(*, prefect_port: int, mlflow_port: int, detach: bool) -> int:
    """Starts everything, waits until it is healthy, and keeps it running until Ctrl-C, SIGTERM or `assay down`."""
    home = assay_home()
    if running_up(home, starting=True) is None:  # else the lock says better what is wrong
        check_port(prefect_port, option="--prefect-port")
        check_port(mlflow_port, option="--mlflow-port")
    if detach:
        return _detached(home, prefect_port=prefect_port, mlflow_port=mlflow_port)
    prepare_environment(home)
    with up_lock(home):
        return _up(home, prefect_port=prefect_port, mlflow_port=mlflow_port)


def _up(home: Path, *, prefect_port: int, mlflow_port: int) -> int:
    console = Console(stderr=True, highlight=False)
    prefect_url, mlflow_url = f"http://{HOST}:{prefect_port}", f"http://{HOST}:{mlflow_port}"
    started = time.monotonic()
    logs = home / "logs"
    found = Up(pid=os.getpid(), prefect_url=prefect_url, mlflow_url=mlflow_url)
    write_up(home, found)
    parts: list[_Part] = []
    try:
        prefect = _Part(
            "Prefect", prefect_server_command(prefect_port), server_environment(prefect_url), logs / "prefect.log"
        )
        parts.append(prefect)
        mlflow = _Part(
            "MLflow", mlflow_server_command(mlflow_port, home=home), mlflow_environment(), logs / "mlflow.log"
        )
        parts.append(mlflow)
        environment = {**os.environ, **found.environment()}
        with console.status("starting Prefect …"):
            wait_healthy(f"{prefect_url}/api/health", prefect.process)
        with console.status("registering the deployments …"):
            for pool in _deploy(environment):
                if pool not in HERE:
                    continue
                command = [sys.executable, "-P", "-m", "flows.cli", "worker", pool]
                parts.append(_Part(f"worker {pool}", command, environment, logs / f"worker-{pool}.log"))
        with console.status("starting MLflow and the workers …"):
            wait_healthy(f"{mlflow_url}/health", mlflow.process)
            _wait_for_workers(found.prefect_api_url, parts)
        _write_state(home, found, parts)
        _tidy_up(found.prefect_api_url, console)
        console.print(f"Prefect   {prefect_url}   launch: {prefect_url}/deployments")
        console.print(f"MLflow    {mlflow_url}")
        console.print(f"workers   {', '.join(HERE)}; logs in {logs}")
        console.print(f"up in {time.monotonic() - started:.1f} s; Ctrl-C or `assay down` stops all")
        while True:
            time.sleep(0.5)
            _start_again(home, found, parts, console)
            _bound_logs(parts)
    except (KeyboardInterrupt, Terminated):
        return 0
    finally:
        _stop(parts, console, api=found.prefect_api_url)
    return 0


def _start_again(home: Path, found: Up, parts: list[_Part], console: Console) -> None:
    """Starts again what ended by itself."""
    for part in parts:
        if part.process.returncode is not None:
            console.print(f"[yellow]![/yellow] {part.name} ended ({part.process.returncode}): it starts again")
            part.restart()
            _write_state(home, found, parts)


def _write_state(home: Path, found: Up, parts: list[_Part]) -> None:
    processes = {part.name: part.process.pid for part in parts}
    write_up(home, found.model_copy(update={"processes": processes, "ready": True}))


def _tidy_up(api: str, console: Console) -> None:
    """Launches the maintenance that closes what a crash before this start left open; each hour it runs anyway."""
    try:
        _launch_maintenance(api)
    except OSError as error:
        console.print(f"[yellow]![/yellow] the maintenance after a start could not be launched: {error}")


def _launch_maintenance(api: str) -> None:
    deployments = post_json(f"{api}/deployments/filter", {"flows": {"name": {"any_": ["maintain"]}}})
    for deployment in deployments[:1]:
        post_json(f"{api}/deployments/{deployment['id']}/create_flow_run", {"parameters": {"only": "after a crash"}})


def _stop(parts: list[_Part], console: Console, *, api: str) -> None:
    """The runs first, then the workers, the servers last: whoever reports something still finds where to."""
    for wanted in (signal.SIGTERM, signal.SIGINT):
        signal.signal(wanted, signal.SIG_IGN)
    workers = [part for part in parts if part.name.startswith("worker")]
    servers = [part for part in parts if part not in workers]
    with console.status("stopping …"):
        if workers:
            _cancel_runs(api, console)
        for each in (workers, servers):
            for part in each:
                part.process.signal(signal.SIGTERM)
            # With its runs gone a worker has nothing to lose, and Prefect's often does not end by itself.
            end = time.monotonic() + GRACE_S
            for part in each:
                part.process.wait(timeout_s=max(0.0, end - time.monotonic()))
                part.process.close()
    console.print("all stopped")


def _cancel_runs(api: str, console: Console) -> None:
    """Cancels what the workers run, so that each engine stops and each run says that it can be resumed."""
    active = {
        "flow_runs": {"state": {"type": {"any_": ["RUNNING", "PENDING", "CANCELLING"]}}},
        "work_pools": {"name": {"any_": list(HERE)}},
    }
    end = time.monotonic() + STOP_S
    asked: set[str] = set()
    try:
        while (runs := post_json(f"{api}/flow_runs/filter", active)) and time.monotonic() < end:
            for run in runs:
                if run["id"] not in asked:
                    console.print(f"cancelling {run['name']}")
                    state = {"state": {"type": "CANCELLING", "name": "Cancelling", "message": "assay down"}}
                    post_json(f"{api}/flow_runs/{run['id']}/set_state", state)
                    asked.add(run["id"])
            time.sleep(0.3)
    except OSError as error:
        console.print(f"[yellow]![/yellow] the runs could not be cancelled ({error}); they end as crashed")


def down() -> int:
    """Stops what `assay up` runs, and waits for it."""
    home = assay_home()
    console = Console(stderr=True, highlight=False)
    found = running_up(home, starting=True)
    if found is None:
        console.print("nothing is up")
        return 0
    try:
        process = psutil.Process(found.pid)
        process.terminate()
        with console.status("stopping …"):
            process.wait(2 * STOP_S + 30)
    except psutil.NoSuchProcess:
        pass
    except psutil.TimeoutExpired as error:
        raise RunError(f"process {found.pid} does not stop; the logs are in {home / 'logs'}") from error
    console.print("all stopped")
    return 0


def status(*, as_json: bool) -> int:
    """Says what is up. Exit code 0 if it is, 1 if not."""
    found = running_up(assay_home())
    if as_json:
        print_json({"up": found is not None, **({} if found is None else found.model_dump())})
    elif found is None:
        Console(stderr=True).print("nothing is up; `assay up` starts it")
    else:
        healthy = {
            "Prefect": answers(f"{found.prefect_api_url}/health"),
            "MLflow": answers(f"{found.mlflow_url}/health"),
        }
        console = Console(highlight=False)
        for name, url in (("Prefect", found.prefect_url), ("MLflow", found.mlflow_url)):
            console.print(f"{name:<10}{url}  {'answers' if healthy[name] else 'does not answer'}")
        for name, pid in found.processes.items():
            console.print(f"{name:<12}process {pid}")
    return 0 if found is not None else 1


def _detached(home: Path, *, prefect_port: int, mlflow_port: int) -> int:
    """Starts `assay up` in a session of its own and returns when it is healthy."""
    log = home / "logs" / "up.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    _keep_last_log(log)
    command = [sys.executable, "-P", "-m", "flows.cli", "up"]
    command += ["--prefect-port", str(prefect_port), "--mlflow-port", str(mlflow_port)]
    with log.open("ab") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True)
    console = Console(stderr=True, highlight=False)
    with console.status("starting …"):
        while process.poll() is None:
            found = running_up(home)
            if found is not None and found.pid == process.pid:
                console.print(f"Prefect   {found.prefect_url}\nMLflow    {found.mlflow_url}")
                console.print(f"log       {log}\n`assay down` stops all")
                return 0
            time.sleep(0.2)
    raise RunError(f"it did not come up:\n{log.read_text(encoding='utf-8', errors='replace')[-2000:]}")


def _deploy(environment: dict[str, str]) -> Iterator[str]:
    """Gives each pool as soon as it is registered, and ends when all else is too. In a process of its own: Prefect's
    import would stay in this one."""
    command = [sys.executable, "-P", "-m", "flows.cli", "deploy"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    limit = threading.Timer(DEPLOY_S, process.kill)
    limit.start()
    said: list[str] = []
    try:
        for line in process.stdout or ():
            said.append(line)
            kind, _, name = line.strip().partition(" ")
            if kind == "pool":
                yield name.strip()
        code = process.wait()
    finally:
        limit.cancel()
        process.kill()
        process.wait()
    if code != 0:
        raise RunError(f"the deployments could not be registered:\n{''.join(said).strip()[-3000:]}")


def _wait_for_workers(api: str, parts: list[_Part]) -> None:
    end = time.monotonic() + WORKERS_READY_S
    waiting = set(HERE)
    while waiting:
        for part in parts:
            if part.process.returncode is not None:
                raise RunError(f"{part.name} ended; {part.log_path} ends with:\n{part.process.log_tail(8)}")
        if time.monotonic() > end:
            raise RunError(f"no worker for {', '.join(sorted(waiting))}; the logs are beside {parts[-1].log_path}")
        for pool in list(waiting):
            try:
                workers = post_json(f"{api}/work_pools/{pool}/workers/filter", {})  # the pools are registered by now
            except OSError as error:
                raise RunError(f"Prefect's server does not answer ({error}); its log is {parts[0].log_path}") from error
            if any(worker["status"] == "ONLINE" for worker in workers):
                waiting.discard(pool)
        time.sleep(0.2)


def _bound_logs(parts: list[_Part]) -> None:
    """Begins a long log anew and keeps the old one beside it. The program goes on writing to the same file."""
    for part in parts:
        if part.log_path.stat().st_size > MAX_LOG_BYTES:
            shutil.copyfile(part.log_path, part.log_path.with_suffix(".log.1"))
            os.truncate(part.log_path, 0)


def _keep_last_log(path: Path) -> None:
    if path.exists():
        path.replace(path.with_suffix(".log.1"))
