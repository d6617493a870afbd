"""Which runs may go, and why the others stay; and their going, each in one step."""

import fcntl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError
from warehouse.build import ensure_fresh
from warehouse.parquet import read_rows
from warehouse.places import every_run, files_folder, maintenance, retire, run_bytes

STATUSES = ("finished", "failed", "cancelled", "crashed")
BASELINE_TAG = "baseline"
_COLUMNS = ["run_id", "name", "status", "started_at", "ended_at", "tags", "revision"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What is to go. statuses and tags (a value of None: whatever it is) say which runs are spoken of at all, none:
    every run; of those go the ones that ended longer than older_than_s seconds ago, and then the oldest, until all
    runs together take at most max_bytes. With neither, all of them go. A run with one of keep_tags stays."""

    older_than_s: float | None = None
    max_bytes: int | None = None
    statuses: frozenset[str] = frozenset()
    tags: Mapping[str, str | None] = field(default_factory=dict)
    keep_tags: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """Whether a run goes, and why, or why it stays. bytes: in tables and its own folder."""

    run_id: str
    name: str | None
    status: str
    started_at: datetime | None
    bytes: int
    goes: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunePlan:
    """The fate of every run, oldest first, under a policy."""

    policy: Policy
    fates: tuple[Fate, ...]

    @property
    def going(self) -> tuple[Fate, ...]:
        """The runs that go."""
        return tuple(fate for fate in self.fates if fate.goes)

    @property
    def bytes(self) -> int:
        """What their going frees."""
        return sum(fate.bytes for fate in self.going)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What went. stayed: the planned runs that did not go after all, each with its reason."""

    run_ids: tuple[str, ...]
    bytes: int
    stayed: Mapping[str, str]


def plan_prune(home: Path, policy: Policy, *, now: datetime | None = None) -> PrunePlan:
    """What pruning would take, and why; changes nothing.

    A baseline never goes (a tag `baseline` of any value but false, or a run that a run that stays was compared with),
    nor does a run that is running, or one whose tracking waits in `spool/mlflow`. Raises ConfigError for a policy that
    says nothing, an unknown status, or a negative age or size.
    """
    _check(policy)
    moment = now or datetime.now(UTC)
    rows = sorted(read_rows(home, "runs", columns=_COLUMNS), key=lambda row: str(row["run_id"]))
    sizes = {str(row["run_id"]): run_bytes(home=home, run_id=row["run_id"]) for row in rows}
    stays = {str(row["run_id"]): reason for row in rows if (reason := _protected(home=home, row=row, policy=policy))}
    goes: dict[str, str] = {}
    for row in rows:
        if row["run_id"] not in stays:
            verdict, reason = _asked_for(row=row, policy=policy, now=moment)
            (goes if verdict else stays)[str(row["run_id"])] = reason
    _keep_baselines(home=home, goes=goes, stays=stays)
    if policy.max_bytes is not None:
        _over_size(rows=rows, sizes=sizes, policy=policy, goes=goes, stays=stays, home=home)
    fates = tuple(
        Fate(
            run_id=str(row["run_id"]),
            name=row["name"],
            status=str(row["status"]),
            started_at=row["started_at"],
            bytes=sizes[str(row["run_id"])],
            goes=row["run_id"] in goes,
            reason=goes.get(str(row["run_id"])) or stays[str(row["run_id"])],
        )
        for row in rows
    )
    return PrunePlan(policy=policy, fates=fates)


def prune(home: Path, plan: PrunePlan, *, on_progress: Callable[[int, int, str], None] | None = None) -> Pruned:
    """Takes the planned runs out of all tables, each in one step, and deletes them and their folders.

    Everything is looked at once more first: a run that was resumed, tagged or compared with meanwhile stays. Readers
    see a run as a whole or not at all; a kill leaves the run there, or gone with its files in the trash, which the
    next `vacuum` empties. MLflow's and Prefect's own records stay.
    """
    home = home.resolve()
    gone: list[str] = []
    stayed: dict[str, str] = {}
    freed = 0
    with maintenance(home):
        again = {fate.run_id: fate for fate in plan_prune(home, plan.policy).fates}
        for number, fate in enumerate(plan.going, start=1):
            now = again.get(fate.run_id)
            if now is None or not now.goes:
                stayed[fate.run_id] = "it is gone already" if now is None else now.reason
                continue
            if on_progress is not None:
                on_progress(number, len(plan.going), fate.run_id)
            with _run_lock(home=home, run_id=fate.run_id) as free:
                if not free:
                    stayed[fate.run_id] = "it is being resumed"
                    continue
                freed += retire(home=home, run_id=fate.run_id)
                gone.append(fate.run_id)
        if gone:
            ensure_fresh(home)
    return Pruned(run_ids=tuple(gone), bytes=freed, stayed=stayed)


def is_running(*, home: Path, run_id: str) -> bool:
    """Whether a process has the run open just now."""
    with _run_lock(home=home, run_id=run_id) as free:
        return not free


def orphans(home: Path) -> list[str]:
    """Runs that have rows but no row in `runs`: their writers were killed as they began."""
    known = {str(row["run_id"]) for row in read_rows(home, "runs", columns=["run_id"])}
    return [run_id for run_id in every_run(home) if run_id not in known]


def _check(policy: Policy) -> None:
    if unknown := sorted(policy.statuses - set(STATUSES)):
        raise ConfigError.one(
            f"there is no status {', '.join(unknown)} that can be pruned",
            key="--status",
            suggestion=f"use {', '.join(STATUSES)}",
        )
    limits = (policy.older_than_s, policy.max_bytes)
    if any(limit is not None and limit < 0 for limit in limits):
        raise ConfigError.one("an age or a size is less than nothing")
    if limits == (None, None) and not policy.statuses and not policy.tags:
        raise ConfigError.one(
            "nothing says which runs are to go", suggestion="give --older-than, --max-size, --tag or --status"
        )


def _protected(*, home: Path, row: Mapping[str, Any], policy: Policy) -> str | None:
    """Why a run stays whatever the policy wants; None where nothing protects it."""
    run_id, tags = str(row["run_id"]), row["tags"] or {}
    if row["status"] == "running":
        return "it is running, or was killed and can be resumed"
    if is_running(home=home, run_id=run_id):
        return "it is being resumed"
    if BASELINE_TAG in tags and str(tags[BASELINE_TAG]).strip().lower() != "false":
        return f"it is a baseline (tag baseline={tags[BASELINE_TAG]})"
    if (home / "spool" / "mlflow" / run_id / "publication.json").exists():
        return "MLflow has not got it yet (`assay sync`)"
    for name, value in policy.keep_tags.items():
        if name in tags and value in (None, tags[name]):
            return f"it is kept by its tag {name}={tags[name]}"
    return None


def _asked_for(*, row: Mapping[str, Any], policy: Policy, now: datetime) -> tuple[bool, str]:
    spoken_of, why = _spoken_of(row=row, policy=policy)
    if not spoken_of:
        return False, why
    if policy.older_than_s is not None:
        ended = row["ended_at"] or row["started_at"]
        if ended is None:
            return False, "when it ended is not known"
        age = (now - ended).total_seconds()
        return age > policy.older_than_s, f"it ended {age / 86_400:,.1f} days ago"
    if policy.max_bytes is not None:
        return False, "there is room for it"
    return True, why


def _spoken_of(*, row: Mapping[str, Any], policy: Policy) -> tuple[bool, str]:
    tags = row["tags"] or {}
    if policy.statuses and row["status"] not in policy.statuses:
        return False, f"it is {row['status']}"
    for name, value in policy.tags.items():
        if name not in tags or value not in (None, tags[name]):
            return False, f"it has not the tag {name}{'' if value is None else f'={value}'}"
    said = [f"it is {row['status']}"] if policy.statuses else []
    return True, " and ".join([*said, *(f"it has the tag {name}={tags[name]}" for name in policy.tags)])


def _baselines(home: Path) -> dict[str, set[str]]:
    """By run: the runs that were compared with it."""
    found: dict[str, set[str]] = {}
    for row in read_rows(home, "comparisons", columns=["run_id", "baseline_run_id"]):
        if row["run_id"] != row["baseline_run_id"]:
            found.setdefault(str(row["baseline_run_id"]), set()).add(str(row["run_id"]))
    return found


def _keep_baselines(*, home: Path, goes: dict[str, str], stays: dict[str, str]) -> None:
    """Keeps what a run that stays was compared with, and what that one was compared with."""
    compared = _baselines(home)
    while True:
        needed = {run_id: min(users) for run_id in goes if (users := compared.get(run_id, set()) & stays.keys())}
        if not needed:
            return
        for run_id, user in needed.items():
            del goes[run_id]
            stays[run_id] = f"it is the baseline of {user}, which stays"


def _over_size(
    *,
    rows: list[dict[str, Any]],
    sizes: Mapping[str, int],
    policy: Policy,
    goes: dict[str, str],
    stays: dict[str, str],
    home: Path,
) -> None:
    """Adds the oldest runs that nothing protects until the rest fits."""
    limit = policy.max_bytes or 0
    compared = _baselines(home)
    left = sum(size for run_id, size in sizes.items() if run_id not in goes)
    free = [
        str(row["run_id"])
        for row in rows
        if row["run_id"] not in goes
        and not _protected(home=home, row=row, policy=policy)
        and _spoken_of(row=row, policy=policy)[0]
    ]
    while left > limit:
        users = {run_id: compared.get(run_id, set()) & stays.keys() for run_id in free}
        # Once the last run that was compared with a baseline has gone, the baseline may go as well.
        for run_id in (run_id for run_id in free if users[run_id]):
            stays[run_id] = f"it is the baseline of {min(users[run_id])}, which stays"
        oldest = next((run_id for run_id in free if not users[run_id]), None)
        if oldest is None:
            return
        free.remove(oldest)
        del stays[oldest]
        goes[oldest] = f"all runs together take {left / 1e6:,.1f} MB, of at most {limit / 1e6:,.1f} MB"
        left -= sizes[oldest]


@contextmanager
def _run_lock(*, home: Path, run_id: str) -> Iterator[bool]:
    """Holds what a session of a run holds; gives False where one is at work."""
    path = files_folder(home=home, run_id=run_id) / "lock"
    if not path.exists():
        yield True
        return
    with path.open("r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
