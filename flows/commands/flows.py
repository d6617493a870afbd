"""A command's flow, run to its end: what it gave, or the exit code of an interrupt; and what `--json` says of it."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from flows.commands.output import print_json
from flows.commands.run import started_flow
from flows.console import RunConsole
from flows.runtime import assay_home
from flows.signals import Terminated
from schemas.errors import AssayError

ResultT = TypeVar("ResultT")
_CODES: Mapping[type[BaseException], int] = {KeyboardInterrupt: 130, Terminated: 143}


@contextlib.contextmanager
def errors_as_json(as_json: bool) -> Iterator[None]:
    """With as_json an error is one object on stdout too; it is raised all the same."""
    try:
        yield
    except AssayError as error:
        if as_json:
            print_json({"status": "failed", "exit_code": error.exit_code, "error": str(error)})
        raise


def flow_result(
    load: Callable[[], Callable[..., Any]],
    parameters: Mapping[str, Any],
    *,
    kind: type[ResultT],
    kept: str,
    resume: str | None = None,
    as_json: bool,
) -> ResultT | int:
    """What the flow gives, of this kind, or the exit code of an interrupt, which is said.

    load: imports the flow. kept: what an interrupt leaves, in words; resume: the command that goes on from there. A
    flow whose error carries its result came to its end: the error is said, the result given. Raises any other error."""
    with started_flow(assay_home(), load) as flow:
        try:
            found: ResultT = flow(**parameters)
        except tuple(_CODES) as interrupt:
            code = _CODES[type(interrupt)]
        except Exception as error:
            result = getattr(error, "result", None)
            if not isinstance(result, kind):
                raise
            RunConsole().warn(str(error))
            return result
        else:
            return found
    RunConsole().warn(f"interrupted; {kept}")
    if resume is not None:
        RunConsole().lines([("resume", resume)])
    if as_json:
        print_json({"status": "cancelled", "exit_code": code, "error": "interrupted"})
    return code
