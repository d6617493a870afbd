"""How an engine came to its end, and whether that was for lack of memory."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from schemas.errors import EngineError

How = Literal["reported", "exit", "hung", "timeout"]
KILLED = 137
"""The exit status of a process that SIGKILL ended."""

_ALLOCATION = re.compile(
    r"OutOfMemoryError: |out of memory|\bMemoryError\b|std::bad_alloc|can't allocate memory|[Cc]annot allocate memory"
    r"|Unable to allocate [\d.]+ |memory allocation of \d+ bytes failed|CUBLAS_STATUS_ALLOC_FAILED",
)
_KEYS_AND_VALUES = re.compile(
    r"No available memory for the cache blocks|larger than the available KV\s+cache\s+memory"
    r"|larger than the maximum number of\s+tokens that can be stored in KV cache"
    r"|allocation is less than requested memory for kv",
)
_BUSY = re.compile(r"on startup is less than desired (?:GPU|CPU) memory utilization")
_FREE = re.compile(r"\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on (?:startup|kv cache)")
_WHERE: tuple[tuple["Where", re.Pattern[str]], ...] = (
    ("graphs", re.compile(r"in (?:capture_model|_capture_cudagraphs|capture)\b")),
    ("kv", re.compile(r"in (?:initialize_from_config|initialize_kv_cache\w*|_?allocate_kv_cache\w*)\b")),
    ("weights", re.compile(r"in load_model\b")),
)

Where = Literal["graphs", "kv", "weights", "elsewhere"]


class EngineDied(EngineError):
    """An engine that is no more use: it said that it failed, ended without a word, hung, or did not answer in time.

    how: which of these. words: its last, in one line. details: what it told of the failure. status: its exit status,
    None while it lives. log: the last lines of its log."""

    def __init__(
        self,
        message: str,
        *,
        how: How,
        words: str,
        details: str = "",
        status: int | None = None,
        log: str = "",
    ) -> None:
        super().__init__(message)
        self.how: How = how
        self.words = words
        self.details = details
        self.status = status
        self.log = log

    @property
    def last_words(self) -> str:
        """In a line: what it said; of one that said nothing, in a few more the end of its log."""
        tail = "" if self.how == "reported" else "\n".join(self.log.splitlines()[-3:])
        return f"Its last words: {self.words}" + (f"\n{tail}" if tail else "")

    def after(self, said: str) -> "EngineDied":
        """The same, with what had been done about it before the end of the run."""
        return EngineDied(
            f"{self}\n{said}",
            how=self.how,
            words=self.words,
            details=self.details,
            status=self.status,
            log=self.log,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """A lack of memory. kind: an allocation failed, vLLM found too little left for keys and values, other programs
    hold what was to be taken, or the kernel killed the process. words: the line that says so. where: in which part of
    the start, as far as that can be told. free_share: of a device's memory, what is free, where the engine said it."""

    kind: Literal["allocation", "kv", "busy", "killed"]
    words: str
    where: Where
    free_share: float | None = None


def shortage(died: EngineDied, *, killed_by_kernel: bool) -> Shortage | None:
    """What of its end is a lack of memory; None for any other end.

    killed_by_kernel: whether the kernel has killed a process for its memory since this engine started. Exit status 137
    alone does not tell: anybody may send SIGKILL."""
    told = "\n".join((died.words, died.details, died.log))
    for kind, pattern in (("kv", _KEYS_AND_VALUES), ("busy", _BUSY), ("allocation", _ALLOCATION)):
        found = pattern.search(told)
        if found is not None:
            free = _FREE.search(told)
            return Shortage(
                kind=kind,  # type: ignore[arg-type]
                words=_line(told, found.start()),
                where="kv" if kind == "kv" else _where(told),
                free_share=None if free is None else float(free["free"]) / float(free["total"]),
            )
    # With vLLM's core in a process of its own it is that one that the kernel kills; the worker then says so.
    if killed_by_kernel and (died.status == KILLED or "EngineDeadError" in told):
        return Shortage(kind="killed", words="the kernel killed it for its memory", where="elsewhere")
    return None


def kernel_kills() -> int | None:
    """How many processes the kernel has killed for their memory, on this machine or in this container; None where
    nothing tells."""
    counts = [
        int(line.split()[1])
        for path in (
            "/proc/vmstat",
            "/sys/fs/cgroup/memory.events",
            "/sys/fs/cgroup/memory/memory.oom_control",
        )
        for line in _lines(path)
        if line.startswith("oom_kill ")
    ]
    return sum(counts) if counts else None


def _where(told: str) -> Where:
    return next((where for where, pattern in _WHERE if pattern.search(told)), "elsewhere")


def _line(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 :].split("\n", 1)[0].strip()
    # vLLM's log puts its own columns before an exception's line.
    line = re.sub(r"^(?:\(\w+ pid=\d+\)\s*)?(?:[A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\]\s*)?", "", line)
    return line if len(line) <= 300 else f"{line[:300]} …"


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
