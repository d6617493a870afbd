"""The filter of system calls under which programs run: a BPF text for the kernel, as bytes.

It is a list of what is denied, not of what is allowed, so that every Python library works; the namespaces and the
missing capabilities are the wall, and this narrows what of the kernel can be reached from behind it. Numbers are from
the kernel's tables for the two machines that assay is used on.
"""

import errno
import platform
import struct

_SAME = {
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "memfd_secret": 447,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "mount_setattr": 442,
}
_DENIED = {
    "x86_64": {
        # other processes
        "ptrace": 101,
        "process_vm_readv": 310,
        "process_vm_writev": 311,
        "kcmp": 312,
        # the network
        "socket": 41,
        # mounts and namespaces
        "mount": 165,
        "umount2": 166,
        "pivot_root": 155,
        "chroot": 161,
        "unshare": 272,
        "setns": 308,
        "name_to_handle_at": 303,
        "open_by_handle_at": 304,
        # memory that no limit of a process counts
        "memfd_create": 319,
        "shmget": 29,
        "semget": 64,
        "msgget": 68,
        # the kernel's own matters
        "add_key": 248,
        "request_key": 249,
        "keyctl": 250,
        "bpf": 321,
        "perf_event_open": 298,
        "userfaultfd": 323,
        "kexec_load": 246,
        "kexec_file_load": 320,
        "init_module": 175,
        "finit_module": 313,
        "delete_module": 176,
        "reboot": 169,
        "swapon": 167,
        "swapoff": 168,
        "acct": 163,
        "syslog": 103,
        "quotactl": 179,
        "settimeofday": 164,
        "clock_settime": 227,
        "adjtimex": 159,
        "clock_adjtime": 305,
        "sethostname": 170,
        "setdomainname": 171,
        "personality": 135,
        "iopl": 172,
        "ioperm": 173,
        "modify_ldt": 154,
        **_SAME,
    },
    "aarch64": {
        "ptrace": 117,
        "process_vm_readv": 270,
        "process_vm_writev": 271,
        "kcmp": 272,
        "socket": 198,
        "mount": 40,
        "umount2": 39,
        "pivot_root": 41,
        "chroot": 51,
        "unshare": 97,
        "setns": 268,
        "name_to_handle_at": 264,
        "open_by_handle_at": 265,
        "memfd_create": 279,
        "shmget": 194,
        "semget": 190,
        "msgget": 186,
        "add_key": 217,
        "request_key": 218,
        "keyctl": 219,
        "bpf": 280,
        "perf_event_open": 241,
        "userfaultfd": 282,
        "kexec_load": 104,
        "kexec_file_load": 294,
        "init_module": 105,
        "finit_module": 273,
        "delete_module": 106,
        "reboot": 142,
        "swapon": 224,
        "swapoff": 225,
        "acct": 89,
        "syslog": 116,
        "quotactl": 60,
        "settimeofday": 170,
        "clock_settime": 112,
        "adjtimex": 171,
        "clock_adjtime": 266,
        "sethostname": 161,
        "setdomainname": 162,
        "personality": 92,
        **_SAME,
    },
}
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE = {"x86_64": 56, "aarch64": 220}
_IOCTL = {"x86_64": 16, "aarch64": 29}
_CLONE3 = 435
_X32 = 0x40000000
_NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
_TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: typing into a terminal."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _MACHINE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
_KILL, _ALLOW = 0x80000000, 0x7FFF0000


def _error(code: int) -> int:
    return 0x00050000 | code


def seccomp_filter(machine: str | None = None) -> bytes | None:
    """The filter for this machine (or the named one); None for one that it is not written for."""
    machine = machine or platform.machine()
    if machine not in _DENIED:
        return None
    steps: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 1, 0, _ARCHITECTURE[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        steps += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _error(errno.ENOSYS))]
    for number in _DENIED[machine].values():
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _error(errno.EPERM))]
    # the C library goes back to clone, whose flags can be seen here
    steps += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _error(errno.ENOSYS))]
    steps += [
        (_EQUAL, 0, 4, _CLONE[machine]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_ANY_BIT, 0, 1, _NEW_NAMESPACES),
        (_RETURN, 0, 0, _error(errno.EPERM)),
        (_RETURN, 0, 0, _ALLOW),
    ]
    steps += [(_EQUAL, 0, 4, _IOCTL[machine]), (_LOAD, 0, 0, _SECOND_ARGUMENT)]
    steps += [(_EQUAL, 1, 0, _TERMINAL_INPUT[0]), (_EQUAL, 0, 1, _TERMINAL_INPUT[1])]
    steps += [(_RETURN, 0, 0, _error(errno.EPERM)), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("HBBI", *step) for step in steps)
