"""Escapes from the sandbox, each tried for real in every back end that works here, and what must be left: nothing."""

import ctypes
import dataclasses
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from schemas.errors import AssayError
from tasks.score.sandbox import sandbox as module
from tasks.score.sandbox.back_ends import BackEnd, candidates, is_privileged, shown_paths
from tasks.score.sandbox.outcome import Limits, Outcome, Program, SandboxMissing
from tasks.score.sandbox.sandbox import Sandbox, find_sandbox, probe, sandbox_state
from tasks.score.sandbox.seccomp import seccomp_filter

LIMITS = Limits(cpu_s=3, wall_s=6.0, memory_bytes=256 << 20, processes=8, disk_bytes=8 << 20, output_bytes=100_000)
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module", params=["bubblewrap", "namespaces"])
def back_end(request: pytest.FixtureRequest) -> BackEnd:
    found = [one for one in candidates() if one.name == request.param]
    if not found:
        pytest.skip(f"{request.param} is not installed")
    fault = probe(found[0])
    if fault is not None:
        pytest.skip(f"{request.param} does not work here: {fault}")
    return found[0]


@pytest.fixture
def sandbox(back_end: BackEnd) -> Iterator[Sandbox]:
    """A sandbox that must leave nothing: no process, no open file, nothing in the temporary folder."""
    libc = ctypes.CDLL(None)
    assert libc.prctl(36, 1, 0, 0, 0) == 0  # orphans become children of this process, so that they are seen
    before = _traces()
    yield Sandbox(back_end=back_end, limits=LIMITS)
    assert _traces() == before
    assert libc.prctl(36, 0, 0, 0, 0) == 0


def _traces() -> tuple[set[str], int, set[str]]:
    children = set()
    for path in Path("/proc/self/task").glob("*/children"):
        children |= set(path.read_text().split())
    temporary = {path.name for path in Path("/tmp").glob("assay-code-*")}
    return children, len(list(Path("/proc/self/fd").iterdir())), temporary


def run(sandbox: Sandbox, text: str, tests: str = "", **limits: float) -> Outcome:
    """The outcome of an attempt, which prints what it could do."""
    changed = dataclasses.replace(sandbox, limits=dataclasses.replace(sandbox.limits, **limits))
    outcome = changed.run(Program(text=textwrap.dedent(text), tests=tests))
    assert len(outcome.output) <= 2000
    assert len(outcome.error or "") <= 400
    return outcome


def at_once(sandbox: Sandbox, *programs: tuple[str, dict[str, float]]) -> list[Outcome]:
    """The outcomes of programs that mostly wait for a limit of theirs."""
    with ThreadPoolExecutor(len(programs)) as pool:
        return list(pool.map(lambda one: run(sandbox, one[0], **one[1]), programs))


def attempts(*lines: str) -> str:
    """A program that tries each line and prints `did: line` or the error's name."""
    return f"""
import ctypes, os, signal, socket, sys
for line in {list(lines)!r}:
    try:
        exec(line)
        print("DID", line)
    except BaseException as error:
        print(type(error).__name__, line)
"""


def nothing_done(outcome: Outcome, count: int) -> None:
    assert outcome.status == "passed", outcome
    assert "DID" not in outcome.output, outcome.output
    assert len(outcome.output.splitlines()) == count


def _running(mark: str) -> list[int]:
    """The processes of this machine that are `sleep mark`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().split(b"\0")[1:] == [mark.encode(), b""]:
                found.append(int(path.parent.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


# ---- what it may do


def test_a_right_and_a_wrong_program(sandbox: Sandbox) -> None:
    right = run(sandbox, "def f():\n    print('hello')\n    return 1", "assert f() == 1")
    assert (right.status, right.error, right.output) == ("passed", None, "hello\n")
    assert right.back_end == sandbox.back_end.name
    wrong = run(sandbox, "def f(): return 2", "assert f() == 2\nassert f() == 1, 'not one'")
    assert wrong.status == "failed"
    assert wrong.error == "AssertionError: not one at `assert f() == 1, 'not one'`"
    assert run(sandbox, "def f(:").error.startswith("SyntaxError")
    assert run(sandbox, "", "assert (").status == "broken_tests"


def test_the_standard_library_works(sandbox: Sandbox) -> None:
    text = """
    import asyncio, collections, dataclasses, decimal, hashlib, json, math, random, re, sqlite3, subprocess, tempfile
    import threading, zlib
    async def two(): return 2
    def f():
        found = []
        thread = threading.Thread(target=lambda: found.append(asyncio.run(two())))
        thread.start(); thread.join()
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"x" * 1000)
        open("kept.txt", "w").write("here")
        return found[0] + len(open("/sandbox/kept.txt").read()) + len(open("/tmp/kept.txt").read())
    """
    assert run(sandbox, text, "assert f() == 10").status == "passed"
    assert run(sandbox, "import os", "assert os.listdir('/sandbox') == []").status == "passed"


def test_standard_input_is_empty(sandbox: Sandbox) -> None:
    assert run(sandbox, "input()").error.startswith("EOFError")


# ---- limits


def test_fork_bomb(sandbox: Sandbox) -> None:
    started = time.monotonic()
    outcome = run(sandbox, "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", cpu_s=1, wall_s=1.0)
    assert outcome.status == "timeout"
    assert time.monotonic() - started < 20
    count = "import os\nn = 0\nwhile True:\n    if os.fork() == 0:\n        import time; time.sleep(60)\n    n += 1\n"
    assert "BlockingIOError" in (run(sandbox, count + "    assert n < 8").error or "")


def test_threads_count_too(sandbox: Sandbox) -> None:
    text = """
    import threading, time
    for _ in range(100):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    """
    assert run(sandbox, text).error.startswith("RuntimeError: can't start new thread")


def test_ten_gigabytes(sandbox: Sandbox) -> None:
    assert run(sandbox, "x = bytearray(10 << 30)").status == "memory"
    assert run(sandbox, "x = []\nwhile True: x.append(bytearray(1 << 20))").status == "memory"
    # Small things take long to become many: less memory is as much of a limit.
    assert run(sandbox, "x = []\nwhile True: x.append([x] * 100)", memory_bytes=96 << 20).status == "memory"


def test_memory_of_several_processes(sandbox: Sandbox) -> None:
    text = """
    import os, time
    for _ in range(5):
        if os.fork() == 0:
            x = bytearray(b"x") * (100 << 20)
            time.sleep(60)
    time.sleep(60)
    """
    outcome = run(sandbox, text)
    assert (outcome.status, outcome.error) == ("memory", "its processes hold more than 256 MiB")


def test_infinite_loop(sandbox: Sandbox) -> None:
    stubborn = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    programs = [("while True: pass", {"cpu_s": 1}), (stubborn, {"cpu_s": 1})]
    plain, stubborn_one, sleeper = at_once(sandbox, *programs, ("import time\ntime.sleep(60)", {"wall_s": 0.5}))
    assert (plain.status, plain.error) == ("timeout", "more than 1 s of CPU")
    assert stubborn_one.status == "timeout"
    assert (sleeper.status, sleeper.error) == ("timeout", "more than 0.5 s")
    assert sleeper.seconds < 5


def test_limits_cannot_be_raised(sandbox: Sandbox) -> None:
    lines = [
        f"import resource; resource.setrlimit(resource.RLIMIT_{name}, (resource.RLIM_INFINITY,) * 2)"
        for name in ("AS", "NPROC", "FSIZE", "NOFILE", "CPU")
    ]
    nothing_done(run(sandbox, attempts(*lines)), len(lines))


def test_a_full_disk(sandbox: Sandbox) -> None:
    one = run(sandbox, "open('/sandbox/big', 'wb').write(bytes(100 << 20))")
    assert one.status == "failed"
    assert "OSError" in one.error
    many = "n = 0\nwhile True:\n    open(f'/sandbox/{n}', 'wb').write(bytes(1 << 20))\n    n += 1\n"
    assert "No space left on device" in run(sandbox, many).error
    nothing_done(run(sandbox, attempts("os.memfd_create('x')", "open('/dev/shm/x', 'wb')")), 2)


def test_endless_output(sandbox: Sandbox) -> None:
    outcome = run(sandbox, "while True: print('x' * 1000)")
    assert (outcome.status, outcome.error) == ("failed", "it wrote more than 100000 bytes of output")


def test_death_by_a_signal(sandbox: Sandbox) -> None:
    outcome = run(sandbox, "import ctypes\nctypes.string_at(0)")
    assert (outcome.status, outcome.error) == ("killed", "it died of SIGSEGV")


# ---- files


def test_the_machine_s_files_are_not_there(sandbox: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("top secret")
    secret.chmod(0o644)
    paths = ["/etc/passwd", "/etc/shadow", "/etc/hostname", "/proc/self/environ", "/proc/1/cmdline", "/proc/mounts"]
    paths += ["/sys/kernel", "/dev/mem", "/dev/kmsg", "/run/docker.sock", "/var/log", str(secret), str(ROOT)]
    paths += [str(ROOT / "README.md"), str(Path.home() / ".ssh"), str(Path.home() / ".cache"), "/old/etc/passwd"]
    lines = [f"os.stat({path!r})" for path in paths]
    nothing_done(run(sandbox, attempts(*lines)), len(lines))


def test_the_home_is_empty(sandbox: Sandbox) -> None:
    text = "import os\nprint(os.path.expanduser('~'), os.listdir(os.path.expanduser('~')), os.getcwd())"
    assert run(sandbox, text).output == "/sandbox [] /sandbox\n"
    seen = run(sandbox, f"import os\nprint(os.listdir({str(Path.home())!r}))").output
    if seen:  # only the way to the interpreter may be there
        assert all(path.startswith(str(Path.home())) for path in shown_paths() if str(Path.home()) in path)
        (only,) = re.findall(r"'([^']+)'", seen)
        assert any(path.startswith(str(Path.home() / only)) for path in shown_paths())


def test_environment_variables_are_not_there(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("HF_TOKEN", "hf-very-secret")
    text = """
    import ctypes, os
    print(sorted(os.environ))
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_char_p
    print(libc.getenv(b"OPENAI_API_KEY"), libc.getenv(b"HF_TOKEN"))
    """
    outcome = run(sandbox, text)
    assert set(re.findall(r"'(\w+)'", outcome.output)) - {"PWD"} == {
        "HOME",
        "LANG",
        "PATH",
        "PYTHONHASHSEED",
        "TMPDIR",
    }
    assert outcome.output.endswith("None None\n")


def test_writing_outside_the_work_folder(sandbox: Sandbox) -> None:
    lib = next(path for path in shown_paths() if path.endswith("/lib"))
    targets = ["/x", "/usr/bin/x", "/etc/x", "/dev/x", f"{lib}/x", os.__file__, sys.executable, "/etc/ld.so.cache"]
    lines = [f"open({target!r}, 'ab')" for target in targets]
    lines += ["os.mkdir('/x')", "os.chmod('/usr/bin', 0o777)", "os.unlink('/dev/null')", "os.rename('/sandbox', '/w')"]
    lines += [f"os.utime({os.__file__!r})", "os.mknod('/sandbox/sda', 0o60666, os.makedev(8, 0))"]
    nothing_done(run(sandbox, attempts(*lines)), len(lines))


def test_symbolic_links_lead_nowhere(sandbox: Sandbox, tmp_path: Path) -> None:
    victim = tmp_path / "victim.txt"
    victim.write_text("as it was")
    victim.chmod(0o666)
    text = f"""
    import os
    os.symlink({str(victim)!r}, "/sandbox/link")
    os.symlink("/../../../../etc/passwd", "/sandbox/up")
    os.symlink("/", "/sandbox/root")
    for path, mode in (("link", "w"), ("up", "r"), ("root/etc/shadow", "r"), ("/tmp/../x", "w")):
        try:
            open(path, mode)
            print("DID", path)
        except OSError as error:
            print(type(error).__name__)
    """
    nothing_done(run(sandbox, text), 4)
    assert victim.read_text() == "as it was"


def test_the_root_cannot_be_left(sandbox: Sandbox) -> None:
    lines = (
        "os.chroot('/sandbox')",
        "assert ctypes.CDLL(None).mount(b'none', b'/sandbox', b'tmpfs', 0, None) == 0",
        "assert ctypes.CDLL(None).umount2(b'/sandbox', 2) == 0",
        "assert ctypes.CDLL(None).unshare(0x10000000) == 0",
        "assert ctypes.CDLL(None).unshare(0x20000) == 0",
        "assert ctypes.CDLL(None).setns(0, 0) == 0",
        "assert ctypes.CDLL(None).syscall(435, None, 0) >= 0",
        "os.setuid(0)",
        "os.setgid(0)",
        "os.setgroups([0])",
        "os.chown('/sandbox', 0, 0)",
        "assert 0 in (os.getuid(), os.geteuid(), os.getgid(), os.getegid())",
        "os.sethostname('x') if hasattr(os, 'sethostname') else socket.sethostname('x')",
    )
    nothing_done(run(sandbox, attempts(*lines)), len(lines))


def test_no_right_is_left(sandbox: Sandbox) -> None:
    text = """
    import ctypes, struct
    libc = ctypes.CDLL(None)
    held = ctypes.create_string_buffer(24)
    assert libc.capget(struct.pack("Ii", 0x20080522, 0), held) == 0
    print(held.raw == bytes(24), [libc.prctl(23, n, 0, 0, 0) for n in range(38)].count(1), libc.prctl(39, 0, 0, 0, 0))
    print(libc.prctl(21, 0, 0, 0, 0), libc.prctl(3, 0, 0, 0, 0))
    """
    # capabilities: none held; no new ones by exec; seccomp filters on; no core, no ptrace
    lines = run(sandbox, text).output.split()
    assert (lines[0], lines[2], lines[3], lines[4]) == ("True", "1", "2", "0")


# ---- network and other processes


def test_sockets(sandbox: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket(socket.AF_UNIX) as named:
        port, name = listening.getsockname()[1], f"\0assay-{uuid.uuid4()}"
        named.bind(name)
        named.listen()
        lines = (
            f"socket.create_connection(('127.0.0.1', {port}), timeout=1)",
            f"socket.create_connection(('localhost', {port}), timeout=1)",
            "socket.create_connection(('1.1.1.1', 53), timeout=1)",
            "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('1.1.1.1', 53))",
            "socket.socket(socket.AF_INET6)",
            f"socket.socket(socket.AF_UNIX).connect({name!r})",
            "socket.socket(socket.AF_UNIX).bind('/sandbox/s')",
            "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
            "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
            "socket.getaddrinfo('example.com', 80)",
        )
        nothing_done(run(sandbox, attempts(*lines)), len(lines))


def test_the_network_is_closed_without_the_filter_of_calls(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """The namespaces alone must keep the program in: the filter is a second wall."""
    monkeypatch.setattr("tasks.score.sandbox.back_ends.seccomp_filter", lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket(socket.AF_UNIX) as named:
        port, name = listening.getsockname()[1], f"\0assay-{uuid.uuid4()}"
        named.bind(name)
        named.listen()
        lines = (
            f"socket.create_connection(('127.0.0.1', {port}), timeout=1)",
            "socket.create_connection(('1.1.1.1', 53), timeout=1)",
            f"socket.socket(socket.AF_UNIX).connect({name!r})",
            "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
            "os.chroot('/sandbox')",
            "assert ctypes.CDLL(None).mount(b'none', b'/sandbox', b'tmpfs', 0, None) == 0",
            "assert ctypes.CDLL(None).umount2(b'/sandbox', 2) == 0",
            "open('/etc/passwd')",
            f"os.kill({os.getpid()}, 0)",
            "assert ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0",
        )
        nothing_done(run(sandbox, attempts(*lines)), len(lines))


def test_other_processes_are_out_of_reach(sandbox: Sandbox) -> None:
    other = subprocess.Popen(["sleep", "60"])
    try:
        lines = (
            f"os.kill({other.pid}, signal.SIGKILL)",
            f"os.kill({os.getpid()}, signal.SIGKILL)",
            f"os.kill({os.getppid()}, 0)",
            f"os.setpriority(os.PRIO_PROCESS, {other.pid}, 5)",
            "assert ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == 0",
            f"assert ctypes.CDLL(None).ptrace(16, {other.pid}, 0, 0) == 0",
            "assert ctypes.CDLL(None).syscall(310, 1, None, 0, None, 0, 0) >= 0",
            "assert ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0",
        )
        nothing_done(run(sandbox, attempts(*lines)), len(lines))
        # its parent inside, and everything that it may signal
        run(sandbox, "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nos.kill(-1, signal.SIGKILL)")
        run(sandbox, "import os, signal\nos.kill(1, signal.SIGKILL)\nos.kill(0, signal.SIGKILL)")
        run(sandbox, "import os, signal\nos.killpg(os.getpgid(0), signal.SIGKILL)")
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_process_left_behind_is_gone(sandbox: Sandbox) -> None:
    mark = str(31_000_000 + uuid.uuid4().int % 1_000_000)
    text = f"""
    import os, subprocess
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 64)
            os.execv("/usr/bin/sleep", ["sleep", "{mark}"])
        os._exit(0)
    subprocess.Popen(["/usr/bin/sleep", "{mark}"], start_new_session=True)
    import time; time.sleep(0.3)
    """
    seen: list[int] = []
    watch = threading.Timer(0.0, lambda: _see(mark, seen))
    watch.start()
    outcome = run(sandbox, text)
    watch.join()
    assert outcome.status == "passed"
    assert seen, "they ran while it did"
    assert _running(mark) == []


def _see(mark: str, seen: list[int]) -> None:
    until = time.monotonic() + 5
    while not seen and time.monotonic() < until:
        seen += _running(mark)


def test_it_ends_when_the_one_who_started_it_is_killed(back_end: BackEnd) -> None:
    mark = str(32_000_000 + uuid.uuid4().int % 1_000_000)
    outer = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tasks.score.sandbox.sandbox import *
from tasks.score.sandbox.back_ends import BackEnd
box = Sandbox(back_end=BackEnd(name={back_end.name!r}, path={back_end.path!r}), limits=Limits(wall_s=60))
box.run(Program(text="import subprocess; subprocess.run(['/usr/bin/sleep', '{mark}'])", tests=""))
"""
    process = subprocess.Popen([sys.executable, "-c", outer, "outer"])
    try:
        until = time.monotonic() + 20
        while not _running(mark) and time.monotonic() < until:
            time.sleep(0.05)
        assert _running(mark)
    finally:
        process.kill()
        process.wait()
    until = time.monotonic() + 5
    while _running(mark) and time.monotonic() < until:
        time.sleep(0.05)
    assert _running(mark) == []


# ---- passing without being right

CHECKS = "import math\ndef check(candidate):\n    assert abs(candidate() - 1) < 0.5\n"
CHECKS += "    assert math.isclose(candidate(), 1)\n"


@pytest.mark.parametrize(
    "text",
    [
        "import sys; sys.exit(0)",
        "import os; os._exit(0)",
        "raise SystemExit",
        "raise KeyboardInterrupt",
        "def f():\n    import os; os._exit(0)",
        "def f():\n    raise SystemExit(0)",
        "print('passed'); import os; os._exit(0)",
        # words on every channel that is open
        "import os\nfor n in range(3, 64):\n    try: os.write(n, b'ready\\npassed \\n' + b'0' * 32 + b' passed \\n')\n"
        "    except OSError: pass\ndef f(): return 2",
        "import sys\nsys.modules['__main__'].passed = True\ndef f(): return 2",
        # built-in functions and modules, patched
        "import builtins\nbuiltins.exec = builtins.compile = lambda *a, **k: None\ndef f(): return 2",
        "import builtins\nbuiltins.AssertionError = type('A', (), {})\ndef f(): return 2",
        "import builtins\nbuiltins.abs = lambda x: 0\ndef f(): return 2",
        "abs = lambda x: 0\ndef f(): return 2",
        "import math\nmath.isclose = lambda *a, **k: True\ndef f(): return 2",
        "import sys, types\nfake = types.ModuleType('math')\nfake.isclose = lambda *a, **k: True\n"
        "sys.modules['math'] = fake\ndef f(): return 2",
        "import os\nos.write = os._exit = lambda *a: None\ndef f(): return 2",
        "def check(candidate): pass\ndef f(): return 2",
        "import atexit, os\natexit.register(os._exit, 0)\nraise SystemExit(1)",
        "import threading, os\nthreading.Thread(target=os._exit, args=(0,)).start()\nimport time; time.sleep(1)",
        # the report's secret, looked for in every variable of every frame
        "import sys\ndef f():\n    frame = sys._getframe()\n    while frame:\n"
        "        for place in (frame.f_locals, frame.f_globals):\n            for value in list(place.values()):\n"
        "                if isinstance(value, (bytes, str)) and len(value) in (32, 64): print('FOUND', value)\n"
        "        frame = frame.f_back\n    return 2",
    ],
)
def test_a_wrong_program_does_not_pass(sandbox: Sandbox, text: str) -> None:
    outcome = sandbox.run(Program(text=text, tests=CHECKS, entry_point="f"))
    assert outcome.status in ("failed", "killed", "timeout"), outcome
    assert "FOUND" not in outcome.output


def test_a_right_program_passes_the_same_tests(sandbox: Sandbox) -> None:
    right = sandbox.run(Program(text="def f(): return 1", tests=CHECKS, entry_point="f"))
    assert right.status == "passed", right


def test_the_program_cannot_read_the_job_or_its_tests_from_a_file(sandbox: Sandbox) -> None:
    text = "import os\nfor n in range(5, 64):\n    try: print(n, os.lseek(n, 0, 0), os.read(n, 100))\n"
    text += "    except OSError as error: assert error.errno in (9, 29)\n"
    outcome = run(sandbox, text, "secret_of_the_tests = 1")
    assert (outcome.status, "secret_of_the_tests" in outcome.output) == ("passed", False)


# ---- several at once, and without a sandbox


def test_many_at_once_keep_their_order(sandbox: Sandbox) -> None:
    texts = [f"import time; time.sleep({0.3 if n % 2 == 0 else 0}); v = {n}" for n in range(8)]
    programs = [Program(text=text, tests=f"assert v == {n} and v != 5") for n, text in enumerate(texts)]
    started = time.monotonic()
    outcomes = sandbox.run_many(programs, workers=4)
    took = time.monotonic() - started
    assert [outcome.status for outcome in outcomes] == ["passed"] * 5 + ["failed"] + ["passed"] * 2
    assert took < sum(outcome.seconds for outcome in outcomes) + 3
    assert sandbox.run_many([]) == []


def test_fork_bombs_at_once_do_not_starve_a_neighbour(sandbox: Sandbox) -> None:
    """Each has its own count of processes."""
    bomb = Program(text="import os\nfor _ in range(99):\n    try: os.fork()\n    except OSError: pass\n", tests="f()")
    calm = "import os, time\ntime.sleep(0.5)\nfor _ in range(3):\n    if os.fork() == 0:\n        time.sleep(60)\n"
    box = dataclasses.replace(sandbox, limits=dataclasses.replace(LIMITS, cpu_s=1, wall_s=4.0))
    *_, outcome = box.run_many([bomb, bomb, Program(text=calm, tests="")], workers=3)
    assert outcome.status == "passed", outcome


@pytest.fixture
def nothing_works(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "candidates", list)
    module._tried.cache_clear()
    yield
    module._tried.cache_clear()


@pytest.mark.usefixtures("nothing_works")
def test_without_a_sandbox_it_is_refused() -> None:
    with pytest.raises(SandboxMissing, match="install bubblewrap") as refused:
        find_sandbox()
    assert isinstance(refused.value, AssayError)
    assert refused.value.exit_code == 2
    assert "allow_unsandboxed: true" in str(refused.value)
    assert sandbox_state() == (None, "bubblewrap is not installed")


@pytest.mark.usefixtures("nothing_works")
def test_without_a_sandbox_if_allowed_there_are_limits_only() -> None:
    before = _traces()
    box = find_sandbox(limits=LIMITS, allow_unsandboxed=True)
    assert (box.closed, box.back_end.name) == (False, "none")
    assert run(box, "def f(): return 1", "assert f() == 1").status == "passed"
    assert run(box, "x = bytearray(10 << 30)").status == "memory"
    waiting = [("while True: pass", {"cpu_s": 1}), ("import time\nopen('left', 'w')\ntime.sleep(60)", {"wall_s": 0.3})]
    assert [each.status for each in at_once(box, *waiting)] == ["timeout", "timeout"]
    assert run(box, "import sys; sys.exit(0)").status == "failed"
    mark = str(33_000_000 + uuid.uuid4().int % 1_000_000)
    assert run(box, f"import subprocess\nsubprocess.Popen(['sleep', '{mark}'])").status == "passed"
    until = time.monotonic() + 2
    while _running(mark) and time.monotonic() < until:
        time.sleep(0.02)
    assert _running(mark) == []
    key = run(box, "import os\nprint('PATH' in os.environ, len(os.environ))").output
    assert key == "True 5\n"
    assert _traces() == before


def test_the_state_names_the_back_end() -> None:
    module._tried.cache_clear()
    name, words = sandbox_state()
    assert name in (None, "bubblewrap", "namespaces")
    assert words if name is None else name in words


def test_a_sandbox_that_does_not_hold_is_found_out() -> None:
    assert "the machine's files are visible" in str(probe(BackEnd(name="none")))
    assert "did not start" in str(probe(BackEnd(name="bubblewrap", path="/bin/false")))
    assert "did not start" in str(probe(BackEnd(name="bubblewrap", path="/no/such/file")))


@pytest.mark.skipif(not is_privileged(), reason="only root can become another user")
def test_as_an_ordinary_user() -> None:
    """Where namespaces of users are allowed, no rights are needed. By the system's Python: it is anyone's to read."""
    python = Path("/usr/bin/python3")
    if (
        not python.exists()
        or subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"], check=False).returncode
    ):
        pytest.skip("there is no Python 3.11 of the system")
    text = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tasks.score.sandbox.back_ends import candidates
from tasks.score.sandbox.sandbox import probe
for one in candidates():
    print(one.name, probe(one))
"""
    done = subprocess.run(
        [python, "-B", "-c", text], user=65534, group=65534, capture_output=True, text=True, cwd="/", check=False
    )
    if "did not start" in done.stdout or "Permission denied" in done.stderr:
        pytest.skip(f"an ordinary user may not: {done.stdout}{done.stderr}")
    assert done.stdout.splitlines()[-1] == "namespaces None", done


def test_the_filter_of_calls() -> None:
    for machine in ("x86_64", "aarch64"):
        text = seccomp_filter(machine)
        assert text is not None
        assert len(text) % 8 == 0
        assert len(text) // 8 <= 4096
    assert seccomp_filter("riscv64") is None
    assert signal.SIGXCPU == 24
