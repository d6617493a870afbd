"""docs/deploy: the units, the compose file and the automation hold what the real programs know."""

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from ruamel.yaml import YAML

from flows.cli import app

DEPLOY = Path(__file__).resolve().parents[2] / "docs" / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
PAGES = [DEPLOY / "README.md", *sorted((DEPLOY.parent / "how-to").glob("*.md"))]
COMPOSE: dict[str, Any] = YAML(typ="safe").load((DEPLOY / "compose" / "compose.yaml").read_text("utf-8"))
QUIET = {"DO_NOT_TRACK": "1", "MLFLOW_DISABLE_TELEMETRY": "true", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
HARDENED = {
    "User": "assay",
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "CapabilityBoundingSet": "",
    "Restart": "on-failure",
    "KillMode": "mixed",
}
SERVICE_KEYS = {
    *(
        "command",
        "depends_on",
        "deploy",
        "environment",
        "healthcheck",
        "hostname",
        "image",
        "init",
        "ports",
        "profiles",
    ),
    *("restart", "secrets", "shm_size", "stop_grace_period", "volumes"),
}


def unit(path: Path) -> configparser.ConfigParser:
    """A unit's sections. Of a key that stands several times the last counts, but for what `values` gives."""
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(path.read_text("utf-8"))
    return parser


def values(path: Path, key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", path.read_text("utf-8"), re.MULTILINE)


@cache
def help_of(*words: str) -> str:
    """What a real program says of itself."""
    command = [sys.executable, "-P", "-m", *words, "--help"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | QUIET | {"COLUMNS": "200"}, timeout=120
    )
    return done.stdout


def check_command(words: list[str]) -> None:
    """Raises if the program does not have one of the subcommands or options."""
    program, *rest = words
    program = Path(program).name
    if program == "assay":
        command: Any = typer.main.get_command(app)
        while hasattr(command, "commands"):
            command = command.commands[rest.pop(0)]
        command.make_context("assay", rest)
    elif program in ("prefect", "mlflow"):
        rest = [word for word in rest if word != "--no-prompt"]
        depth = next((number for number, word in enumerate(rest) if word.startswith("-")), len(rest))
        subcommands = [word for word in rest[:depth] if re.fullmatch(r"[a-z-]+", word)][
            : 3 if program == "prefect" else 2
        ]
        said = _deepest(program, subcommands)
        for word in rest:
            if word.startswith("-"):
                assert re.search(rf"(?<![\w-]){re.escape(word.partition('=')[0])}(?![\w-])", said), f"{words}: {word}"


def _deepest(program: str, subcommands: list[str]) -> str:
    """The help of the longest row of words that are subcommands: what follows may be an argument."""
    for length in range(len(subcommands), 0, -1):
        try:
            return help_of(program, *subcommands[:length])
        except subprocess.CalledProcessError:
            continue
    raise AssertionError(f"{program} has no command {subcommands}")


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_is_hardened_and_stops_cleanly(path: Path) -> None:
    found = unit(path)
    assert found.sections() == ["Unit", "Service", "Install"]
    service = dict(found["Service"])
    assert {key: service.get(key) for key in HARDENED} == HARDENED
    assert service["EnvironmentFile"].startswith("/etc/assay/")
    assert (DEPLOY / "systemd" / Path(service["EnvironmentFile"]).name).is_file()
    if "worker" in path.stem:
        from flows.commands.up import STOP_S

        assert int(service["TimeoutStopSec"]) > STOP_S


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_starts_what_there_is(path: Path) -> None:
    for line in [*values(path, "ExecStart"), *values(path, "ExecStartPre")]:
        check_command(shlex.split(line))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed here")
def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    for path in UNITS:
        text = path.read_text("utf-8").replace("User=assay", "User=root").replace("Group=assay", "Group=root")
        text = re.sub(r"/opt/assay/\.venv/bin/\w+", sys.executable, text)
        (tmp_path / path.name).write_text(text, "utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", *map(str, sorted(tmp_path.iterdir()))],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    told = [line for line in done.stderr.splitlines() if "assay-" in line]
    assert told == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_commands_of_other_programs_exist(page: Path) -> None:
    for line in re.findall(r"^ *\$ (.*)$", page.read_text("utf-8"), re.MULTILINE):
        for command in line.split(" && "):
            words = shlex.split(command)
            if words and words[0] in ("prefect", "mlflow"):
                check_command(words)


def variables() -> set[str]:
    """Every variable that the servers and workers are given."""
    found: set[str] = set()
    for path in (DEPLOY / "systemd").iterdir():
        found |= set(re.findall(r"^(?:Environment=)?([A-Z][A-Z0-9_]+)=", path.read_text("utf-8"), re.MULTILINE))
    for service in COMPOSE["services"].values():
        found |= set(service.get("environment", {}))
    return found


def test_the_variables_are_known_to_the_programs() -> None:
    code = (
        "import json, mlflow.environment_variables as m, prefect.settings as p\n"
        "from prefect.settings.legacy import _get_settings_fields\n"
        "from mlflow.cli import server\n"
        "envs = [e for o in server.params for e in ([o.envvar] if isinstance(o.envvar, str) else o.envvar or [])]\n"
        "print(json.dumps([sorted(_get_settings_fields(p.Settings)), [*dir(m), *envs]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | QUIET, timeout=120
    )
    prefect, mlflow = map(set, json.loads(done.stdout.splitlines()[-1]))
    given = variables()
    assert {name for name in given if name.startswith("PREFECT_S")} <= prefect
    assert "PREFECT_API_AUTH_STRING" in prefect & given
    of_mlflow = {name for name in given if re.match(r"MLFLOW_(?!HOST|USER|PASSWORD|DB)", name)}
    assert of_mlflow - mlflow == set()
    assert {"MLFLOW_TRACKING_USERNAME", "MLFLOW_BACKEND_STORE_URI", "MLFLOW_SERVER_ALLOWED_HOSTS"} <= of_mlflow


def test_the_compose_file_is_whole() -> None:
    folder = DEPLOY / "compose"
    assert set(COMPOSE) <= {"name", "services", "volumes", "secrets", "x-restart", "x-worker"}
    for name, service in COMPOSE["services"].items():
        assert set(service) <= SERVICE_KEYS, name
        assert service["profiles"] in (["servers"], ["gpu"]), name
        assert ":" in service["image"] and not service["image"].endswith(":latest"), name
        assert set(service.get("depends_on", ())) <= set(COMPOSE["services"]), name
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            if source.startswith("./"):
                assert (folder / source).is_file(), source
            elif not source.startswith("$"):
                assert source in COMPOSE["volumes"], source
    assert (folder / COMPOSE["secrets"]["s3"]["file"]).is_file()


def test_the_compose_file_asks_for_what_the_example_has() -> None:
    text = (DEPLOY / "compose" / "compose.yaml").read_text("utf-8")
    asked = set(re.findall(r"\$\{([A-Z0-9_]+)(?:\}|:\?)", text))
    example = set(re.findall(r"^([A-Z0-9_]+)=", (DEPLOY / "compose" / ".env.example").read_text("utf-8"), re.MULTILINE))
    assert asked == example
    caddy = set(re.findall(r"\{\$(\w+)\}", (DEPLOY / "compose" / "Caddyfile").read_text("utf-8")))
    assert caddy == set(COMPOSE["services"]["proxy"]["environment"])


def test_the_containers_run_what_there_is() -> None:
    for service in COMPOSE["services"].values():
        command = service.get("command")
        if not service["image"].startswith("assay:"):
            continue
        if command[0] == "sh":
            for line in command[2].split(" && "):
                check_command(shlex.split(line.removeprefix("exec ")))
        elif command[0] == "python":
            name = Path(command[1]).name
            compile((DEPLOY / "compose" / name).read_text("utf-8"), name, "exec")
        else:
            check_command(command)


def test_the_shell_script_is_one() -> None:
    subprocess.run(["sh", "-n", str(DEPLOY / "compose" / "databases.sh")], check=True, timeout=10)


def test_no_password_is_real() -> None:
    for path in [
        DEPLOY / "systemd" / "servers.env",
        DEPLOY / "systemd" / "worker.env",
        DEPLOY / "compose" / ".env.example",
    ]:
        for name, value in re.findall(
            r"^(\w*(?:PASSWORD|SECRET|AUTH)\w*)=(.*)$", path.read_text("utf-8"), re.MULTILINE
        ):
            assert "CHANGE_ME" in value, name


@pytest.mark.parametrize(
    ("name", "event", "sent", "text"),
    [
        (
            "notify-webhook",
            "assay.run.failed",
            {"status": "failed", "error": "a\nb", "resume": "assay run --resume r1"},
            'assay: quick "start" failed: a\nb',
        ),
        (
            "notify-gate",
            "assay.gate.failed",
            {"error": "1 of 1 gate check failed: d.acc (free)", "gates": [{"metric": "d.acc", "effect": -0.1}]},
            'assay: quick "start": 1 of 1 gate check failed: d.acc (free)',
        ),
    ],
)
def test_the_automation_is_one_and_its_payload_is_json(
    name: str, event: str, sent: dict[str, Any], text: str, tmp_path: Path
) -> None:
    code = (
        "import asyncio, json, sys\nfrom types import SimpleNamespace as Event\n"
        "from ruamel.yaml import YAML\n"
        "from prefect.events.schemas.automations import AutomationCore\n"
        "from prefect.server.utilities.user_templates import render_user_template, validate_user_template\n"
        "[one] = YAML(typ='safe').load(open(sys.argv[1]).read())['automations']\n"
        "AutomationCore.model_validate(one)\n"
        "payload = one['actions'][0]['payload']\nvalidate_user_template(payload)\n"
        "told = json.loads(sys.argv[2])\n"
        "text = asyncio.run(render_user_template(payload, {'event': Event(payload=told)}))\n"
        "print(json.dumps(json.loads(text)))\n"
        "print(json.dumps(one['trigger']))\n"
    )
    whole = {"run_id": "r1", "name": 'quick "start"'} | sent
    done = subprocess.run(
        [sys.executable, "-c", code, str(DEPLOY / f"{name}.yaml"), json.dumps(whole)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | QUIET | {"PREFECT_HOME": str(tmp_path)},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    told, trigger = map(json.loads, done.stdout.splitlines()[-2:])
    assert told == {"text": text, "run_id": "r1"} | {key: sent[key] for key in ("resume", "gates") if key in sent}
    assert trigger["expect"] == [event]
