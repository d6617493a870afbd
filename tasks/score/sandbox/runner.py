"""Runs one program and its tests in this process and reports over a channel of its own. It imports nothing of assay.

The report counts only with a token. The token waits unread in a pipe while the program runs, is in no variable, and is
fetched when the tests have ended: an exit code, a printed word or a patched module is no report. The tests see the
built-in functions and the modules as they were before the program ran.
"""

import ast
import builtins
import os
import signal
import sys
import types
from typing import Any, NoReturn

_MOST = 400
_WRITE, _READ, _EXIT, _TEXT = os.write, os.read, os._exit, str
_OUTPUT = (sys.stdout, sys.stderr)


def _close_all_but(*kept: int) -> None:
    start = 3
    for number in (*sorted(kept), 1024):
        os.closerange(start, number)
        start = number + 1


def _import_modules_of(tests: ast.Module) -> None:
    for node in ast.walk(tests):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        else:
            continue
        for name in names:
            try:
                __import__(name)
            except ImportError:  # the tests will say so themselves
                continue


def _line(error: BaseException, *, tests: str) -> str:
    """The line of the tests at which it broke."""
    trace, number = error.__traceback__, 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<tests>":
            number = trace.tb_lineno
        trace = trace.tb_next
    lines = tests.splitlines()
    return f" at `{lines[number - 1].strip()[:200]}`" if 0 < number <= len(lines) else ""


def _words(error: BaseException) -> str:
    name = type(error).__name__
    try:
        said = _TEXT(error)
    except BaseException:  # noqa: BLE001 - the text of an error is the program's own code, and may do anything
        said = "its text cannot be read"
    return f"{name}: {said}" if said else name


def _report(*, ticket: int, results: int, kind: str, text: str = "") -> NoReturn:
    for stream in _OUTPUT:
        try:
            stream.flush()
        except (OSError, ValueError):  # the program closed it
            continue
    token = _READ(ticket, 64)
    line = f"{kind} {text}".replace("\n", " ")[:_MOST].encode("utf-8", "replace")
    _WRITE(results, token + b" " + line + b"\n")
    _EXIT(0)


def run(job: dict[str, Any], *, ticket: int, results: int) -> NoReturn:
    """Runs the job (`text`, `tests`, `entry_point`), writes one line to `results` and ends the process."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _close_all_but(ticket, results)
    tests, entry_point = job["tests"], job["entry_point"]
    _WRITE(results, b"ready\n")
    try:
        tree = ast.parse(tests)
        compiled = compile(tree, "<tests>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        _report(ticket=ticket, results=results, kind="broken_tests", text=_words(error))
    _import_modules_of(tree)
    modules = dict(sys.modules)
    kept = {name: dict(vars(module)) for name, module in modules.items() if isinstance(module, types.ModuleType)}
    pristine = dict(vars(builtins))
    program = types.ModuleType("program")
    sys.modules["program"] = program
    try:
        exec(compile(job["text"], "<program>", "exec"), vars(program))  # noqa: S102 - this is what the jail is for
        sys.modules.update(modules)
        for name, names in kept.items():
            if name != "__main__":
                vars(modules[name]).update(names)
        seen = {**vars(program), "__builtins__": pristine}
        if entry_point is not None:
            candidate = seen.get(entry_point, kept)
            if candidate is kept:
                raise NameError(f"the program defines no {entry_point!r}")
            # a helper of the program named like a built-in function must not stand in for it in the tests
            for name in [name for name in seen if name in pristine and name[:2] != "__" and name != entry_point]:
                del seen[name]
        exec(compiled, seen)  # noqa: S102 - as above
        if entry_point is not None and "check" in seen:
            seen["check"](candidate)
    except MemoryError:
        vars(program).clear()
        _report(ticket=ticket, results=results, kind="memory")
    except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt are failures like any other
        _report(ticket=ticket, results=results, kind="failed", text=_words(error) + _line(error, tests=tests))
    _report(ticket=ticket, results=results, kind="passed")
