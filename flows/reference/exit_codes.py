"""docs/reference/exit-codes.md: what a program can tell from how `assay` ended."""

from collections.abc import Iterator

from flows.reference.markdown import WRITTEN, paragraphs, table
from schemas.errors import AssayError, ConfigError, GateFailed, RunError

CODES = {
    0: (
        "done",
        "Of the requests of a run at most `max_failed` failed, and no gate. A verdict of `worse` is a result, not a"
        " failure. An undecided gate warns, unless it says `on_undecided: fail`.",
        "nothing",
    ),
    RunError.exit_code: (
        "it failed",
        "The run failed, or `--max-time` stopped it. `assay doctor`: a check fails. `assay sync`: something is left."
        " `assay import`: a run was refused. `assay up --status`: nothing is up.",
        "read the message; `assay run --resume last` makes only what is missing",
    ),
    ConfigError.exit_code: (
        "bad usage, config or data",
        "Found before an engine was started: an unknown option or key, a value out of bounds, unreadable data, a pinned"
        " baseline that is not there. Of a run that is finished: a gate cannot be judged.",
        "mend what the message names, and start it again",
    ),
    GateFailed.exit_code: (
        "a gate failed",
        "`assay run`, `assay gate`: the run is finished and recorded, and what its `gates` ask for does not hold."
        " `assay compare --fail-on worse`: a metric is worse.",
        "read `gates.md` in the run's folder; `assay gate` judges again",
    ),
    130: (
        "SIGINT",
        "Ctrl-C. What was answered is kept, nothing is left running.",
        "`assay run --resume last`",
    ),
    143: (
        "SIGTERM",
        "As with Ctrl-C: a service that is stopped, a flow run that is cancelled.",
        "`assay run --resume last`",
    ),
}
_KEPT = """137 is the system's own word for `kill -9`, which `--resume` survives too."""
_HEAD = f"""{WRITTEN}
# Exit codes

With `--json` the same number stands in the object's `exit_code`, and the message in `error`.
"""


def exit_codes_page() -> str:
    """The whole page."""
    codes = table(
        ("code", "is", "means", "then"),
        ((str(number), name, meaning, then) for number, (name, meaning, then) in sorted(CODES.items())),
    )
    errors = table(
        ("error", "code", "is"),
        ((f"`{kind.__name__}`", str(kind.exit_code), paragraphs(kind.__doc__)[0]) for kind in _kinds(AssayError)),
    )
    return "\n".join([_HEAD, codes, f"{_KEPT}\n", "## In Python\n", errors])


def _kinds(kind: type[AssayError]) -> Iterator[type[AssayError]]:
    """The error and those below it that the schemas define."""
    if kind.__module__ == AssayError.__module__:
        yield kind
        for each in sorted(kind.__subclasses__(), key=lambda found: found.__name__):
            yield from _kinds(each)
