"""All schemas of a corpus, asked of all backends by several processes beside each other.

Each worker is a thread with a child process of its own, which does the work; what a schema does to that child costs its
own line. Results come to the caller in batches, on the caller's thread."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas.corpus import Case
from tasks.corpus.ask import ask, failed, judged
from tasks.guide.backends import BackendFacts, Backends
from tasks.guide.backends.session import MEMORY_BYTES

Row = dict[str, Any]
_BATCH = 20
_BATCH_S = 5.0
_LOOK_S = 0.2
"""How long the caller's thread waits before it can be interrupted again."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """backends: which; model: whose tokenizer (None: one of single bytes); python: the interpreter of another
    environment; limit_s: seconds that compiling one schema may take; memory_bytes: what a question may take above what
    the imports take; jobs: processes beside each other."""

    backends: Sequence[str]
    model: Path | None = None
    python: Path | None = None
    limit_s: float = 30.0
    memory_bytes: int = MEMORY_BYTES
    jobs: int = 1


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Rows of `corpus_schemas` and `corpus_tests`, of schemas that are done."""

    schemas: list[Row] = field(default_factory=list)
    tests: list[Row] = field(default_factory=list)
    cases: int = 0


class Workers:
    """The child processes. A context manager: leaving it ends them, whatever they are busy with."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._all = [
            Backends(
                model=options.model, names=options.backends, python=options.python, memory_bytes=options.memory_bytes
            )
            for _ in range(options.jobs)
        ]
        self._threads: list[threading.Thread] = []
        self._stop = threading.Event()

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop.set()
        for backends in self._all:
            backends.kill()
        for thread in self._threads:
            thread.join()
        for backends in self._all:
            backends.close()

    def facts(self) -> dict[str, BackendFacts]:
        """Each backend as it is installed. Raises BackendsError."""
        return self._all[0].facts()

    @property
    def vllm(self) -> str | None:
        """The version of vLLM. Raises BackendsError."""
        return self._all[0].vllm

    def run(self, cases: Sequence[Case], *, done: Mapping[str, set[str]], on_batch: Callable[[Batch], None]) -> None:
        """Asks every backend for every case. done: by case, the backends that have answered in an earlier session.

        on_batch is called on this thread, and for what is done too where this is interrupted. Raises what ends a
        worker, such as BackendsError."""
        left = [case for case in cases if not set(self.options.backends) <= done.get(case.case_id, set())]
        versions = {name: fact.version for name, fact in self.facts().items()}
        todo: queue.SimpleQueue[Case] = queue.SimpleQueue()
        for case in left:
            todo.put(case)
        came: queue.SimpleQueue[Batch | Exception] = queue.SimpleQueue()
        for backends in self._all[: max(1, len(left))]:
            thread = threading.Thread(target=self._work, args=(backends, todo, came, done, versions), daemon=True)
            self._threads.append(thread)
            thread.start()
        with _batches(on_batch) as add:
            for _ in left:
                add(self._next(came))

    def _next(self, came: "queue.SimpleQueue[Batch | Exception]") -> Batch:
        while True:
            try:
                found = came.get(timeout=_LOOK_S)
            except queue.Empty:
                continue
            if isinstance(found, Exception):
                raise found
            return found

    def _work(
        self,
        backends: Backends,
        todo: "queue.SimpleQueue[Case]",
        came: "queue.SimpleQueue[Batch | Exception]",
        done: Mapping[str, set[str]],
        versions: Mapping[str, str | None],
    ) -> None:
        try:
            while not self._stop.is_set():
                try:
                    case = todo.get_nowait()
                except queue.Empty:
                    return
                found = self._case(backends, case, done=done.get(case.case_id, set()), versions=versions)
                if self._stop.is_set():  # what was asked last has been cut off
                    return
                came.put(found)
        except Exception as error:  # noqa: BLE001 - raised again on the caller's thread
            came.put(error)

    def _case(self, backends: Backends, case: Case, *, done: set[str], versions: Mapping[str, str | None]) -> Batch:
        asked = judged(case)
        batch = Batch(cases=1)
        for name in self.options.backends:
            if name in done or self._stop.is_set():
                continue
            try:
                row, tests = ask(backends, asked, backend=name, limit_s=self.options.limit_s, versions=versions)
            except (RecursionError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
                # A schema of a shape that nobody thought of: it is recorded with what it did, and the others go on.
                row, tests = failed(asked, backend=name, version=versions.get(name), error=error), []
            batch.schemas.append(row)
            batch.tests.extend(tests)
        return batch


@contextlib.contextmanager
def _batches(on_batch: Callable[[Batch], None]) -> Iterator[Callable[[Batch], None]]:
    """Gathers batches into larger ones, and gives what is left in the end, also of an interrupted whole."""
    held = Batch()
    since = time.monotonic()

    def give() -> None:
        nonlocal held, since
        whole, held, since = held, Batch(), time.monotonic()
        if whole.cases:
            on_batch(whole)

    def add(batch: Batch) -> None:
        nonlocal held
        held = Batch(
            schemas=[*held.schemas, *batch.schemas],
            tests=[*held.tests, *batch.tests],
            cases=held.cases + batch.cases,
        )
        if held.cases >= _BATCH or time.monotonic() - since > _BATCH_S:
            give()

    try:
        yield add
    finally:
        give()
