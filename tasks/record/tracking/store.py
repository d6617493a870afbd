"""Writing a publication into MLflow, so that doing it twice, or half and then again, leaves what doing it once leaves.

Runs are found by their tags before they are made, and one made twice by a lost answer is deleted. A metric has the step
and the time that its publication gives it, so that MLflow itself drops it the second time. A run's status is written
after its numbers, its files last.
"""

import contextlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from schemas.run import MADE_OF_RUNS
from tasks.record.tracking.errors import TrackingError, TrackingUnreachable
from tasks.record.tracking.publication import PARENT, RUN_PAGE, Publication, TrackedDataset, TrackedRun

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_BATCH = 100
"""MLflow takes at most so many params or tags at once."""
_EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}
"""So that MLflow's pages open with the list of runs, and not with traces and chats."""
_SERVED = "mlflow-artifacts:"
_PARENT_TAG = "mlflow.parentRunId"


class Deadline:
    """A moment after which nothing new is asked. seconds None: there is none."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        return float("inf") if self._end is None else self._end - time.monotonic()

    def check(self) -> None:
        """Raises TrackingUnreachable once it is over."""
        if self.left_s <= 0:
            raise TrackingUnreachable("MLflow takes too long")


def warm_up() -> None:
    """Imports MLflow, which takes seconds that are not the server's, and keeps it from writing to stdout."""
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    import mlflow  # noqa: F401, PLC0415


def tracking_uri(home: Path) -> str:
    """The user's MLFLOW_TRACKING_URI, or a SQLite file under ASSAY_HOME."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{home / 'mlflow.db'}"


def is_local(home: Path) -> bool:
    """The store is a database file, which is there or is not: nothing to wait for."""
    return tracking_uri(home).startswith("sqlite")


def publish(publication: Publication, *, home: Path, deadline: Deadline, above: str | None = None) -> str:
    """Makes MLflow agree with the publication and gives the id of its run. above: the id of the run that it is below,
    where MLflow has that one already; else it is put there when that one comes.

    Raises TrackingError, or one of MLflow's, SQLAlchemy's or the artifact store's own exceptions."""
    with _client(home, deadline) as client:
        experiment_id = _experiment_id(client, publication.experiment, home)
        deadline.check()
        made = _Made(client, experiment_id, publication.run_id, deadline)
        parent_id = made.run(publication.parent, parent_id=above)
        ids = [(parent_id, publication.parent)]
        ids += [(made.run(child, parent_id=parent_id), child) for child in publication.children]
        page = f"#/experiments/{experiment_id}/runs/{parent_id}"
        for run_id, run in ids:
            params = made.params(run.key)
            _log(client, run_id, run, publication=publication, params=params, page=page, deadline=deadline)
        ended = publication.parent.ended_ms
        listed = {child.key for child in publication.children}
        others = [run_id for key, run_id in made.found() if key and key not in listed]
        # The parent comes last of all: a run that is FINISHED has its numbers and its children.
        for run_id, end in [(each, ended) for each in others] + [(i, run.ended_ms) for i, run in reversed(ids)]:
            deadline.check()
            _set_status(client, run_id, publication.status, end)
        _send_files(client, parent_id, publication, home=home, deadline=deadline)
        if publication.parent.tags.get("assay.kind") in MADE_OF_RUNS:
            _take_in(client, experiment_id, publication.run_id, parent_id, deadline)
        return parent_id


def answers(home: Path) -> None:
    """Asks the store for next to nothing. Raises what `publish` raises if it does not answer."""
    with _client(home, Deadline(None)):
        return


class _Made:
    """The runs that MLflow has of one run of assay, by key; the parent's is empty."""

    def __init__(self, client: "MlflowClient", experiment_id: str, run_id: str, deadline: Deadline) -> None:
        self._client, self._experiment_id, self._run_id, self._deadline = client, experiment_id, run_id, deadline
        self._by_key: dict[str, Run] = {}
        self._look()

    def run(self, run: TrackedRun, *, parent_id: str | None) -> str:
        """The id of this run, which is made if there is none."""
        if run.key not in self._by_key:
            self._deadline.check()
            self._create(run, parent_id)
            # The answer of an attempt may have been lost while the run was made: then there are two now.
            self._look()
        found = self._by_key[run.key]
        if parent_id is not None and found.data.tags.get(_PARENT_TAG) != parent_id:
            self._client.set_tag(found.info.run_id, _PARENT_TAG, parent_id)
        return str(found.info.run_id)

    def params(self, key: str) -> dict[str, str]:
        """The params that the run had when it was found."""
        return dict(self._by_key[key].data.params)

    def found(self) -> list[tuple[str, str]]:
        return [(key, str(run.info.run_id)) for key, run in self._by_key.items()]

    def _create(self, run: TrackedRun, parent_id: str | None) -> None:
        # Only what it is found by: the other tags may be many, and come with the rest.
        tags = {"assay.run_id": self._run_id, "assay.cell": run.key} if run.key else {"assay.run_id": self._run_id}
        if parent_id is not None:
            tags[_PARENT_TAG] = parent_id
        self._client.create_run(self._experiment_id, start_time=run.started_ms, tags=tags, run_name=run.name)

    def _look(self) -> None:
        """Reads what is there; of runs with one key the one with the lowest id stays, whoever looks."""
        self._deadline.check()
        query = f"tags.`assay.run_id` = '{self._run_id}'"
        every: dict[str, list[Run]] = {}
        token = None
        while True:
            page = self._client.search_runs([self._experiment_id], query, max_results=500, page_token=token)
            for run in page:
                every.setdefault(_key(run), []).append(run)
            token = page.token
            if not token:
                break
        self._by_key = {}
        for key, runs in every.items():
            first, *again = sorted(runs, key=lambda run: str(run.info.run_id))
            self._by_key[key] = first
            for run in again:
                self._client.delete_run(run.info.run_id)


def _take_in(client: "MlflowClient", experiment_id: str, run_id: str, parent_id: str, deadline: Deadline) -> None:
    """Puts the runs of a sweep's cells below it that came to MLflow before it did."""
    token = None
    while True:
        deadline.check()
        query = f"tags.`{PARENT}` = '{run_id}'"
        page = client.search_runs([experiment_id], query, max_results=500, page_token=token)
        for run in page:
            if run.data.tags.get(_PARENT_TAG) != parent_id:
                client.set_tag(run.info.run_id, _PARENT_TAG, parent_id)
        token = page.token
        if not token:
            return


def _key(run: "Run") -> str:
    return str(run.data.tags.get("assay.cell", ""))


def _log(
    client: "MlflowClient",
    run_id: str,
    run: TrackedRun,
    *,
    publication: Publication,
    params: dict[str, str],
    page: str,
    deadline: Deadline,
) -> None:
    from mlflow.entities import Metric, Param, RunTag  # noqa: PLC0415 - seconds of imports

    metrics = [Metric(name, value, publication.metrics_ms, publication.step) for name, value in run.metrics.items()]
    # A param cannot be changed. Where a run goes on with another engine, the first value stays; the tags have the last.
    new = [Param(name, value) for name, value in run.params.items() if name not in params]
    tags = [RunTag(name, value.replace(RUN_PAGE, page)) for name, value in run.tags.items()]
    for start in range(0, max(len(new), len(tags), 1), _BATCH):
        deadline.check()
        part = slice(start, start + _BATCH)
        client.log_batch(run_id, metrics=metrics if start == 0 else [], params=new[part], tags=tags[part])
    if run.datasets:
        deadline.check()
        _once_more(lambda: client.log_inputs(run_id, datasets=[_input(each) for each in run.datasets]))


def _once_more(write: Callable[[], Any]) -> None:
    """Two runs that bring the same new dataset at one moment: the store refuses the second, once."""
    from mlflow.exceptions import MlflowException  # noqa: PLC0415

    try:
        write()
    except MlflowException:
        write()


def _input(dataset: TrackedDataset) -> Any:
    from mlflow.entities import Dataset, DatasetInput, InputTag  # noqa: PLC0415

    entity = Dataset(
        name=dataset.name,
        digest=dataset.digest,
        source_type=dataset.source_type,
        source=dataset.source,
        schema=json.dumps({"mlflow_colspec": []}),
        profile=dataset.profile,
    )
    return DatasetInput(entity, tags=[InputTag("mlflow.data.context", dataset.context)])


def _set_status(client: "MlflowClient", run_id: str, status: str, ended_ms: int | None) -> None:
    if status == "RUNNING" or ended_ms is None:
        client.update_run(run_id, status=status)
    else:
        client.set_terminated(run_id, status=status, end_time=ended_ms)


def _send_files(
    client: "MlflowClient", run_id: str, publication: Publication, *, home: Path, deadline: Deadline
) -> None:
    """Sends the files that are there; sending one again replaces it."""
    folder = home / "runs" / publication.run_id
    there = [tracked for tracked in publication.files if (folder / tracked.file).is_file()]
    if not there:
        return
    place = str(client.get_run(run_id).info.artifact_uri)
    for tracked in there:
        deadline.check()
        if is_local(home) and place.startswith(_SERVED):
            # Made through a server over this same store, whose files lie beside it.
            target = home / "mlartifacts" / place.removeprefix(_SERVED).lstrip("/") / tracked.folder
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / tracked.file, target)
        else:
            client.log_artifact(run_id, str(folder / tracked.file), tracked.folder or None)


def _folder(name: str) -> str:
    """A folder's name for an experiment; that of an imported run may be a model's path."""
    return re.sub(r"[^\w.\- ]", "_", name).lstrip(".") or "_"


def _experiment_id(client: "MlflowClient", name: str, home: Path) -> str:
    from mlflow.exceptions import MlflowException  # noqa: PLC0415

    found = client.get_experiment_by_name(name)
    if found is None:
        location = None if os.environ.get("MLFLOW_TRACKING_URI") else (home / "mlartifacts" / _folder(name)).as_uri()
        try:
            return str(client.create_experiment(name, artifact_location=location, tags=_EXPERIMENT_TAGS))
        except MlflowException:
            found = client.get_experiment_by_name(name)  # another run of it was faster
            if found is None:
                raise
    if found.lifecycle_stage != "active":
        raise TrackingError(
            f"MLflow's experiment {name} was deleted; bring it back with "
            f"`mlflow experiments restore --experiment-id {found.experiment_id}`"
        )
    return str(found.experiment_id)


def _first_answer(client: "MlflowClient") -> None:
    """Asks for next to nothing. A connection kept from before may have been closed by the server meanwhile, as it does
    after an upload that it refused: the second time there is a new one."""
    from mlflow.exceptions import MlflowException  # noqa: PLC0415 - beside its only use

    try:
        client.search_experiments(max_results=1)
    except MlflowException as error:
        if "Connection aborted" not in str(error):
            raise
        client.search_experiments(max_results=1)


@contextlib.contextmanager
def _client(home: Path, deadline: Deadline) -> "Iterator[MlflowClient]":
    """A client of the store, which has answered once.

    A SQLite file has one writer at a time: two at once break the making of a fresh one, or lock each other out."""
    warm_up()
    from mlflow import MlflowClient  # noqa: PLC0415 - seconds of imports

    uri = tracking_uri(home)
    home.mkdir(parents=True, exist_ok=True)
    lock = FileLock(home / "mlflow.lock", timeout=max(0.0, min(deadline.left_s, 120.0)))
    try:
        with lock if is_local(home) else contextlib.nullcontext():
            client = MlflowClient(tracking_uri=uri)
            _first_answer(client)
            yield client
    except Timeout as error:
        raise TrackingUnreachable(f"MLflow's store is busy: {home / 'mlflow.lock'} is held") from error
