"""The inside of the sandbox: what a fresh process does to itself before it runs a program that nobody trusts.

This text is sent to that process and runs there alone, with the standard library: it imports nothing of assay.
`enter` makes namespaces and a file system of their own; where bubblewrap has done so, `first_process` is called alone.
`harden` gives up every right and sets the limits. Calls that fail are errors: a jail that is half closed is none.
"""
# ruff: noqa: PTH102, PTH103, PTH106, PTH112, PTH114, PTH115, PTH120, PTH211
# The paths are plain texts: pathlib would lengthen every start of a program

import ctypes
import os
import resource
import signal
import struct
import sys
from typing import Any, NoReturn

NOBODY = 65534
_LIBC = ctypes.CDLL(None, use_errno=True)

_NEW_MOUNTS, _NEW_CGROUP, _NEW_UTS, _NEW_IPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
_NEW_USERS, _NEW_PIDS, _NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000
_READ_ONLY, _NO_SETUID, _NO_DEVICES, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
_DETACH = 2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_MOUNT_SETATTR = 442
_HERE, _WHOLE_TREE, _EMPTY_PATH = -100, 0x8000, 0x1000
_SET_DEATH_SIGNAL, _SET_DUMPABLE, _SET_SECCOMP, _DROP_BOUND, _NO_NEW_RIGHTS, _AMBIENT = 1, 4, 22, 24, 38, 47
_CLEAR_AMBIENT = 4
_CAPABILITIES_VERSION = 0x20080522
_OLD = "/old"


def _check(result: int, what: str) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def _prctl(option: int, first: int = 0, second: Any = 0) -> int:
    return int(_LIBC.prctl(option, ctypes.c_ulong(first), second, ctypes.c_ulong(0), ctypes.c_ulong(0)))


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [None if text is None else text.encode() for text in (source, target, kind, data)]
    result = _LIBC.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])
    _check(result, f"mount {target}")


def _seal(target: str, *, devices: bool) -> None:
    """Makes a bind mount, and all mounts below it, read-only."""
    flags = _READ_ONLY | _NO_SETUID | (0 if devices else _NO_DEVICES)
    attributes = struct.pack("QQQQ", flags, 0, 0, 0)
    result = _LIBC.syscall(
        _MOUNT_SETATTR, _HERE, target.encode(), ctypes.c_uint(_WHOLE_TREE), attributes, ctypes.c_size_t(len(attributes))
    )
    _check(result, f"mount_setattr {target}")


def _show(path: str, *, devices: bool = False) -> None:
    """Makes a folder or file of the old root visible at the same place, read-only. Links stay links."""
    old = _OLD + path
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    if os.path.islink(old):
        os.symlink(os.readlink(old), path)
        return
    if os.path.isdir(old):
        os.makedirs(path, mode=0o755, exist_ok=True)
    else:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    _mount(old, path, None, _BIND | _RECURSIVE)
    _seal(path, devices=devices)


def _write(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    os.write(handle, text.encode())
    os.close(handle)


def _own_namespaces(*, users: bool) -> None:
    flags = _NEW_MOUNTS | _NEW_PIDS | _NEW_NETWORK | _NEW_IPC | _NEW_UTS | _NEW_CGROUP
    uid, gid = os.geteuid(), os.getegid()
    _check(_LIBC.unshare(flags | (_NEW_USERS if users else 0)), "unshare")
    if users:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{NOBODY} {uid} 1")
        _write("/proc/self/gid_map", f"{NOBODY} {gid} 1")


def _own_root(settings: dict[str, Any]) -> None:
    _mount(None, "/", None, _RECURSIVE | _PRIVATE)
    base = next(path for path in ("/tmp", "/mnt", "/var", "/usr") if os.path.isdir(path))  # noqa: S108 - a mount point
    _mount("tmpfs", base, "tmpfs", _NO_SETUID | _NO_DEVICES, "size=1m,mode=755")
    os.mkdir(base + _OLD, 0o700)
    number = _PIVOT_ROOT[os.uname().machine]
    _check(_LIBC.syscall(number, base.encode(), (base + _OLD).encode()), "pivot_root")
    os.chdir("/")
    for path in settings["shown"]:
        _show(path)
    for path in settings["devices"]:
        _show(path, devices=True)
    work = settings["work"]
    os.mkdir(work)
    room = f"size={settings['disk_bytes']},nr_inodes={settings['inodes']},mode=1777"
    _mount("tmpfs", work, "tmpfs", _NO_SETUID | _NO_DEVICES, room)
    if settings["tmp"]:
        os.symlink(work, "/tmp")  # noqa: S108 - inside, there is only the work folder
    _check(_LIBC.umount2(_OLD.encode(), _DETACH), "umount2")
    os.rmdir(_OLD)
    _mount(None, "/", None, _REMOUNT | _BIND | _READ_ONLY | _NO_SETUID | _NO_DEVICES)
    os.chdir(work)


def _end_as(status: int) -> NoReturn:
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def first_process(settings: dict[str, Any]) -> None:
    """Process 1 of the jail: it collects what ends; when it ends, the kernel ends all others. Returns in its child."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        return
    # bubblewrap, without its rights, can take only a process of its own user along when it is killed
    _give_up_rights({**settings, "become_nobody": settings["become_nobody"] and settings["own"]})
    while True:
        pid, status = os.wait()
        if pid == child:
            _end_as(status)


def enter(settings: dict[str, Any], *, info: int) -> None:
    """Goes into namespaces and a root of its own; returns in the process that is to run the program.

    settings: `users` (make a namespace of users, for one who is not root), `shown`, `devices` (paths), `work` (its
    folder), `tmp` (make /tmp lead there), `disk_bytes`, `inodes`. The number of the jail's first process is written
    to `info`, as bubblewrap does.
    """
    os.umask(0o022)
    _check(_prctl(_SET_DEATH_SIGNAL, signal.SIGKILL), "prctl")
    _own_namespaces(users=settings["users"])
    _own_root(settings)
    _check(_LIBC.sethostname(b"sandbox", 7), "sethostname")
    ready, go = os.pipe()
    first = os.fork()
    if first == 0:
        os.close(go)
        os.close(info)
        if os.read(ready, 1) != b"1":  # the parent died before it could be followed into death
            os._exit(1)
        os.close(ready)
        first_process(settings)
        return
    os.close(ready)
    os.write(info, b'{"child-pid": %d}\n' % first)
    os.close(info)
    os.write(go, b"1")
    os.close(go)
    _, status = os.waitpid(first, 0)
    _end_as(status)


def _give_up_rights(settings: dict[str, Any]) -> None:
    if settings["become_nobody"]:
        _drop_bounding()
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        # a namespace of users of its own counts its processes apart from those of other sandboxes; some kernels
        # forbid it, and then the limit counts all processes of nobody
        if _LIBC.unshare(_NEW_USERS) == 0:
            _drop_bounding()
    header = struct.pack("Ii", _CAPABILITIES_VERSION, 0)
    _check(_LIBC.capset(header, bytes(24)), "capset")
    _prctl(_AMBIENT, _CLEAR_AMBIENT)
    _check(_prctl(_NO_NEW_RIGHTS, 1), "prctl")
    _check(_prctl(_SET_DUMPABLE, 0), "prctl")
    _check(_prctl(_SET_DEATH_SIGNAL, signal.SIGKILL), "prctl")


def _drop_bounding() -> None:
    number = 0
    while _prctl(_DROP_BOUND, number) == 0:
        number += 1


def _filter_calls(text: bytes) -> None:
    buffer = ctypes.create_string_buffer(text, len(text))
    address = ctypes.addressof(buffer)
    program = ctypes.create_string_buffer(struct.pack("HL", len(text) // 8, address))
    _check(_prctl(_SET_SECCOMP, 2, program), "seccomp")


def harden(settings: dict[str, Any]) -> None:
    """Gives up users, capabilities and system calls, for good, and sets the limits.

    settings: `become_nobody` (for root), `filter` (bytes, or None where there is none), `limits` (of the module
    resource, by name, each soft and hard).
    """
    _give_up_rights(settings)
    for name, (soft, hard) in settings["limits"].items():
        resource.setrlimit(getattr(resource, name), (soft, hard))
    os.umask(0o077)
    if settings["filter"] is not None:
        _filter_calls(settings["filter"])
    sys.stdout.flush()
