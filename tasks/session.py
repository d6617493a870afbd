"""One session of a run: where its rows go, and the samples that its steps hand to each other through a file."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from schemas.built import BuiltEngine
from schemas.preflight import PreflightSummary
from schemas.run import RunContext
from schemas.sample import Request, Sample
from tasks.record.steps import StepRecorder
from tasks.record.store import Store


class Session:
    """Lives as long as the flow does, in one process. cache: what outlives runs (converted models, fingerprints)."""

    def __init__(self, run: RunContext) -> None:
        self.run = run
        self.store = Store(run)
        self._samples: list[Sample] | None = None
        self.requests: list[Request] = []
        """Every request of the run, in order. Held here and not handed from step to step: Prefect walks through the
        arguments of a task, token by token."""
        self.retries: list[Request] = []
        """What the arm `repair` may come to ask, should answers not be valid. Those that it does ask join the
        requests."""
        self.request_keys: dict[str, str] = {}
        """By request_id, once the engine is known: what an answer must carry to be this run's."""
        self.preflight: PreflightSummary | None = None
        """What was found out about the grammars before the engine got any; None where nothing was looked at."""
        self.steps: StepRecorder | None = None
        """Who numbers the steps of this session's engines, from when they answer on."""
        self.built: BuiltEngine | None = None
        """The engine that load was measured on; None where none was."""
        self.restarted = False
        """Whether an engine ended while it answered, and another one went on."""

    @property
    def cache(self) -> Path:
        return self.run.home / "cache"

    def keep_samples(self, samples: Sequence[Sample]) -> None:
        """Writes the samples for the steps to come, and for whoever looks into the run's folder."""
        self.run.samples_file.write_bytes(msgspec.msgpack.encode(list(samples)))
        self._samples = list(samples)

    def samples(self) -> list[Sample]:
        """The samples of this run, in order."""
        if self._samples is None:
            self._samples = msgspec.msgpack.decode(self.run.samples_file.read_bytes(), type=list[Sample])
        return self._samples
