"""The ways to close a process in, each as the command that starts it and what the process then does to itself."""

import os
import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tasks.score.sandbox.outcome import Limits
from tasks.score.sandbox.seccomp import seccomp_filter

BackEndName = Literal["bubblewrap", "namespaces", "none"]

_SYSTEM = ("/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/share", "/bin", "/lib", "/lib32", "/lib64")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_INODES = 4096
WORK = "/sandbox"
"""The work folder, inside."""
_SYS_ADMIN, _SETGID, _SETUID, _SETPCAP = 21, 6, 7, 8

BOOT = """
import marshal, sys, types
def start(sent, ticket, results, info):
    with open(sent, "rb") as file:
        parts = marshal.load(file)
    jail, runner = types.ModuleType("jail"), types.ModuleType("runner")
    exec(parts["jail"], vars(jail))
    exec(parts["runner"], vars(runner))
    settings = parts["settings"]
    if settings["own"]:
        jail.enter(settings, info=info)
    elif settings["jailed"]:
        jail.first_process(settings)
    jail.harden(settings)
    runner.run(parts["job"], ticket=ticket, results=results)
start(*map(int, sys.argv[1:]))
"""
"""What the fresh interpreter runs: it takes the jail's and the runner's code from a file descriptor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackEnd:
    """One way. `closed`: it keeps the program from the machine; `none` is a child with limits only."""

    name: BackEndName
    path: str | None = None

    @property
    def closed(self) -> bool:
        return self.name != "none"

    def prefix(self, limits: Limits, *, info: int) -> list[str]:
        """The command before the interpreter's own."""
        return _bubblewrap(str(self.path), limits, info=info) if self.name == "bubblewrap" else []

    def settings(self, limits: Limits) -> dict[str, Any]:
        """What the process in the jail does to itself: see jail.enter and jail.harden."""
        root = self.closed and is_privileged()
        bounds = {
            "RLIMIT_AS": limits.memory_bytes,
            "RLIMIT_FSIZE": limits.disk_bytes,
            "RLIMIT_NOFILE": limits.open_files,
            "RLIMIT_CORE": 0,
            "RLIMIT_MEMLOCK": 0,
            "RLIMIT_MSGQUEUE": 0,
        }
        if self.closed:  # elsewhere it counts all processes of the user
            bounds["RLIMIT_NPROC"] = limits.processes
        return {
            "own": self.name == "namespaces",
            "jailed": self.name == "bubblewrap",
            "users": not root,
            "become_nobody": root,
            "shown": shown_paths(),
            "devices": list(_DEVICES),
            "work": WORK,
            "tmp": _tmp_is_free(),
            "disk_bytes": limits.disk_bytes,
            "inodes": _INODES,
            "filter": seccomp_filter(),
            "limits": {name: (bound, bound) for name, bound in bounds.items()}
            | {"RLIMIT_CPU": (limits.cpu_s, limits.cpu_s + 1)},
        }


def is_privileged() -> bool:
    """Whether this process may mount and become another user, so that it needs no namespace of users for that."""
    if os.geteuid() != 0:
        return False
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    held = int(line.split()[1], 16)
    return all(held >> number & 1 for number in (_SYS_ADMIN, _SETGID, _SETUID, _SETPCAP))


def interpreter() -> str:
    """The interpreter itself, behind the links of a virtual environment: programs get its standard library only."""
    return str(Path(sys.executable).resolve())


def shown_paths() -> list[str]:
    """What of the machine's files a program can read: the system's libraries and programs, and Python's."""
    base = Path(sys.base_prefix).resolve()
    wanted = [*_SYSTEM, "/etc/ld.so.cache", str(base / "bin"), str(base / "lib"), interpreter()]
    found: list[str] = []
    for path in wanted:
        inside = any(path == other or path.startswith(f"{other}/") for other in found)
        if os.path.lexists(path) and not inside:
            found.append(path)
    return found


def _tmp_is_free() -> bool:
    """Whether /tmp can lead to the work folder: the interpreter may lie below it."""
    return not any(path.startswith("/tmp/") for path in shown_paths())  # noqa: S108 - as it is named everywhere


def _bubblewrap(path: str, limits: Limits, *, info: int) -> list[str]:
    command = [path, "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if is_privileged():
        command += ["--cap-drop", "ALL"]
        for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):  # to become nobody, and gone with that
            command += ["--cap-add", capability]
    else:
        command += ["--unshare-user", "--uid", "65534", "--gid", "65534"]
    command += ["--hostname", "sandbox", "--die-with-parent", "--new-session"]
    command += ["--as-pid-1"]  # with a first process of its own, bubblewrap ends without collecting it
    for shown in shown_paths():
        for parent in reversed(Path(shown).parents[:-1]):  # else it makes them as closed as the machine's own are
            command += ["--perms", "0755", "--dir", str(parent)]
        if Path(shown).is_symlink():
            command += ["--symlink", str(Path(shown).readlink()), shown]
        else:
            command += ["--ro-bind", shown, shown]
    for device in _DEVICES:
        command += ["--dev-bind", device, device]
    command += ["--perms", "1777", "--size", str(limits.disk_bytes), "--tmpfs", WORK]
    if _tmp_is_free():
        command += ["--symlink", WORK, "/tmp"]  # noqa: S108 - inside
    command += ["--remount-ro", "/", "--chdir", WORK]
    return [*command, "--info-fd", str(info), "--"]


def candidates() -> list[BackEnd]:
    """The back ends worth trying here, best first."""
    found: list[BackEnd] = []
    path = shutil.which("bwrap")
    if path is not None:
        found.append(BackEnd(name="bubblewrap", path=path))
    if sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64"):
        found.append(BackEnd(name="namespaces"))
    return found
