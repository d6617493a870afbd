"""The errors that assay raises on purpose, each with the exit code that the command line gives it."""

from dataclasses import dataclass, field
from pathlib import Path


class AssayError(Exception):
    """Something a user can act on. `str(error)` is the whole message; no traceback is shown for it."""

    exit_code = 1


class RunError(AssayError):
    """The run failed (exit code 1)."""


class GateFailed(AssayError):
    """A gate failed: the run is finished and recorded, and it is not good enough (exit code 3)."""

    exit_code = 3


class EngineError(RunError):
    """The engine could not be built, or died. Carries the tail of its log in the message."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing wrong with what the user gave.

    file and line say where (line counts from 1; both None where the input is no file), key is the dotted path of the
    offending key (`engine.prefill.policy`), message says what is wrong, suggestion what to write instead.
    """

    message: str
    file: Path | None = None
    line: int | None = None
    key: str | None = None
    suggestion: str | None = None

    def __str__(self) -> str:
        where = "" if self.file is None else f"{self.file}:{self.line}: " if self.line else f"{self.file}: "
        key = f"{self.key}: " if self.key else ""
        hint = f" ({self.suggestion})" if self.suggestion else ""
        return f"{where}{key}{self.message}{hint}"


@dataclass
class ConfigError(AssayError):
    """Bad usage, config or data, found before anything heavy is loaded (exit code 2)."""

    problems: list[Problem] = field(default_factory=list)
    exit_code = 2

    @classmethod
    def one(
        cls,
        message: str,
        *,
        file: Path | None = None,
        line: int | None = None,
        key: str | None = None,
        suggestion: str | None = None,
    ) -> "ConfigError":
        return cls([Problem(message=message, file=file, line=line, key=key, suggestion=suggestion)])

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)
