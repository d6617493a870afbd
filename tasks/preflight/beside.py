"""The preflight beside a run's other steps: begun once the plan is made, awaited before the first request is sent."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.experiment import Experiment
from schemas.plan import EnginePlan, ModelFacts
from schemas.preflight import PreflightSummary
from schemas.sample import Request
from tasks.engine.installed import installed_vllm
from tasks.guide.backends.known import BACKENDS
from tasks.preflight.used import used_grammars

if TYPE_CHECKING:
    from tasks.preflight.examine import Bench, Examination

_REGEX_TIMEOUT = "VLLM_REGEX_COMPILATION_TIMEOUT_S"
_END_S = 10.0


class Preflight:
    """Of one run. A context manager: however the run ends, the compiler's process ends with it.

    cache: the session's; what is known there is not asked again, and where all is, no process is started."""

    def __init__(self, *, cache: Path) -> None:
        self._cache = cache
        self._thread: threading.Thread | None = None
        self._examination: Examination | None = None
        self._found: PreflightSummary | None = None
        self._error: BaseException | None = None

    def __enter__(self) -> "Preflight":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def begin(
        self,
        experiment: Experiment,
        *,
        requests: Sequence[Request],
        plan: EnginePlan,
        model: ModelFacts,
        tokenizer_fingerprint: str,
    ) -> None:
        """Begins, in a thread. Does nothing where it is switched off, or no request has a grammar."""
        if not experiment.vllm.grammar.preflight.enabled or all(request.grammar is None for request in requests):
            return
        from tasks.preflight.examine import Examination  # noqa: PLC0415 - costs time, and few runs lack a grammar

        bench = bench_of(
            experiment, plan=plan, model=model, tokenizer_fingerprint=tokenizer_fingerprint, cache=self._cache
        )
        self._examination = Examination(bench)
        self._thread = threading.Thread(target=self._work, args=(list(requests), plan), name="preflight", daemon=True)
        self._thread.start()

    @property
    def begun(self) -> bool:
        """Whether there is anything to wait for."""
        return self._thread is not None

    def found(self) -> PreflightSummary | None:
        """What was found, once it is; None where it was not begun. Raises what went wrong beside grammars and the
        compiler."""
        if self._thread is None:
            return None
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._found

    def close(self) -> None:
        """Ends it at once. What was found by then is kept for other runs."""
        if self._examination is not None:
            self._examination.stop()
        if self._thread is not None:
            self._thread.join(_END_S)

    def _work(self, requests: Sequence[Request], plan: EnginePlan) -> None:
        try:
            examination = self._examination
            assert examination is not None  # noqa: S101 - `begin` makes it before the thread
            bench = examination.bench
            grammars = used_grammars(requests, backend=bench.backend, whitespace=bench.whitespace)
            self._found = examination.run(grammars)
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error


def bench_of(
    experiment: Experiment, *, plan: EnginePlan, model: ModelFacts, tokenizer_fingerprint: str, cache: Path
) -> "Bench":
    """What the run's grammars are examined with: what its engine will have. Raises ConfigError for an interpreter of
    another environment that does not run."""
    from tasks.preflight.examine import Bench  # noqa: PLC0415 - as above

    engine = experiment.vllm
    backend, whitespace = str(plan.value("grammar_backend")), bool(plan.value("grammar_whitespace"))
    installed = installed_vllm(engine.python)
    version = None if installed is None else installed.version_of(BACKENDS[backend].distribution)
    asked = engine.grammar.regex_timeout_s
    variables = {} if asked == "auto" else {_REGEX_TIMEOUT: str(asked)}
    return Bench(
        backend=backend,
        version=version,
        whitespace=whitespace,
        options=engine.grammar.preflight,
        model=Path(model.path),
        python=None if engine.python is None else Path(engine.python),
        variables=variables,
        cache=cache,
        rests_on={
            "backend": backend,
            "version": version,
            "vllm": None if installed is None else installed.version,
            "whitespace": whitespace,
            "tokenizer": tokenizer_fingerprint,
            "vocab_size": model.vocab_size,
            "ends": sorted(model.eos_token_ids),
            "variables": variables,
        },
    )
