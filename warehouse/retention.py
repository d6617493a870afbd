"""Which runs may go, and why the others stay; and their going, each in one step."""

import fcntl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError
from warehouse.build import ensure_fresh
from warehouse.families import Family, families
from warehouse.parquet import read_rows
from warehouse.places import every_run, files_folder, maintenance, retire, run_bytes

STATUSES = ("finished", "failed", "cancelled", "crashed")
BASELINE_TAG = "baseline"
_COLUMNS = ["run_id", "name", "status", "started_at", "ended_at", "tags", "parent_run_id", "revision"]


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
    """Whether a run goes, and why, or why it stays. bytes: in tables and its own folder. head: the sweep, or the like,
    that it goes or stays with; None for a run of its own and for the sweep itself."""

    run_id: str
    name: str | None
    status: str
    started_at: datetime | None
    bytes: int
    goes: bool
    reason: str
    head: str | None = None


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

    A sweep, an ablation or a tuning and the runs that it made are one, as are the runs of a noise band: the policy
    looks at the status, the tags and the end of the sweep itself, sizes are of all together, and what keeps one of them
    keeps them all.

    A baseline never goes (a tag `baseline` of any value but false, or a run that a run that stays was compared with),
    nor does a run that is running, or one whose tracking waits in `spool/mlflow`. Raises ConfigError for a policy that
    says nothing, an unknown status, or a negative age or size.
    """
    _check(policy)
    moment = now or datetime.now(UTC)
    every = families(home, read_rows(home, "runs", columns=_COLUMNS))
    sizes = {run_id: run_bytes(home=home, run_id=run_id) for family in every for run_id in family.run_ids}
    protected = {family.head_id: _protected(home=home, family=family, policy=policy) for family in every}
    stays = {head: reason for head, reason in protected.items() if reason}
    goes: dict[str, str] = {}
    for family in every:
        if family.head_id not in stays:
            verdict, reason = _asked_for(row=family.head, policy=policy, now=moment)
            (goes if verdict else stays)[family.head_id] = reason
    compared = _baselines(home, every)
    _keep_baselines(compared=compared, goes=goes, stays=stays)
    if policy.max_bytes is not None:
        free = [
            family.head_id
            for family in every
            if family.head_id not in goes
            and protected[family.head_id] is None
            and _spoken_of(row=family.head, policy=policy)[0]
        ]
        of_all = {family.head_id: sum(sizes[run_id] for run_id in family.run_ids) for family in every}
        _over_size(free=free, sizes=of_all, limit=policy.max_bytes, compared=compared, goes=goes, stays=stays)
    fates = [
        Fate(
            run_id=str(row["run_id"]),
            name=row["name"],
            status=str(row["status"]),
            started_at=row["started_at"],
            bytes=sizes[str(row["run_id"])],
            goes=family.head_id in goes,
            reason=_reason(family, row, goes=goes, stays=stays),
            head=None if row is family.head else family.head_id,
        )
        for family in every
        for row in family.rows
    ]
    return PrunePlan(policy=policy, fates=tuple(sorted(fates, key=lambda fate: fate.run_id)))


def _reason(family: Family, row: Mapping[str, Any], *, goes: Mapping[str, str], stays: Mapping[str, str]) -> str:
    head = family.head_id
    if row is family.head:
        return goes.get(head) or stays[head]
    return f"it belongs to {head}, which {'goes' if head in goes else 'stays'}"


def prune(home: Path, plan: PrunePlan, *, on_progress: Callable[[int, int, str], None] | None = None) -> Pruned:
    """Takes the planned runs out of all tables, each in one step, and deletes them and their folders.

    Everything is looked at once more first: a run that was resumed, tagged or compared with meanwhile stays. Readers
    see a run as a whole or not at all; a kill leaves the run there, or gone with its files in the trash, which the
    next `vacuum` empties. A sweep goes before its runs, so that none is ever kept without them; those that a kill left
    are runs of their own. MLflow's and Prefect's own records stay.
    """
    home = home.resolve()
    gone: list[str] = []
    stayed: dict[str, str] = {}
    freed = 0
    with maintenance(home):
        again = {fate.run_id: fate for fate in plan_prune(home, plan.policy).fates}
        for head in dict.fromkeys(fate.head or fate.run_id for fate in plan.going):
            planned = {fate.run_id for fate in plan.going if fate.head == head}
            own = [head, *sorted(planned | {fate.run_id for fate in again.values() if fate.head == head})]
            with ExitStack() as locks:
                locked = [locks.enter_context(_run_lock(home=home, run_id=run_id)) for run_id in own]
                free = all(locked)
                for run_id in own:
                    now = again.get(run_id)
                    if now is None or not now.goes or not free:
                        stayed[run_id] = _why_after_all(now)
                        continue
                    if on_progress is not None:
                        on_progress(len(gone) + len(stayed) + 1, len(plan.going), run_id)
                    freed += retire(home=home, run_id=run_id)
                    gone.append(run_id)
        if gone:
            ensure_fresh(home)
    return Pruned(run_ids=tuple(gone), bytes=freed, stayed=stayed)


def _why_after_all(now: Fate | None) -> str:
    if now is None:
        return "it is gone already"
    return "it is being resumed" if now.goes else now.reason


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


def _protected(*, home: Path, family: Family, policy: Policy) -> str | None:
    """Why a run, or a sweep with all its runs, stays whatever the policy wants; None where nothing protects it."""
    for row in family.rows:
        if reason := _protected_run(home=home, row=row, policy=policy):
            return reason if row is family.head else f"of its run {row['run_id']}: {reason}"
    return None


def _protected_run(*, home: Path, row: Mapping[str, Any], policy: Policy) -> str | None:
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


def _baselines(home: Path, every: Sequence[Family]) -> dict[str, set[str]]:
    """By run or sweep: those that were compared with it, or whose runs were with one of its own."""
    head_of = {run_id: family.head_id for family in every for run_id in family.run_ids}
    found: dict[str, set[str]] = {}
    for row in read_rows(home, "comparisons", columns=["run_id", "baseline_run_id"]):
        own, other = (head_of.get(str(row[name]), str(row[name])) for name in ("run_id", "baseline_run_id"))
        if own != other:
            found.setdefault(other, set()).add(own)
    return found


def _keep_baselines(*, compared: Mapping[str, set[str]], goes: dict[str, str], stays: dict[str, str]) -> None:
    """Keeps what a run that stays was compared with, and what that one was compared with."""
    while True:
        needed = {run_id: min(users) for run_id in goes if (users := compared.get(run_id, set()) & stays.keys())}
        if not needed:
            return
        for run_id, user in needed.items():
            del goes[run_id]
            stays[run_id] = f"it is the baseline of {user}, which stays"


def _over_size(
    *,
    free: list[str],
    sizes: Mapping[str, int],
    limit: int,
    compared: Mapping[str, set[str]],
    goes: dict[str, str],
    stays: dict[str, str],
) -> None:
    """Adds the oldest of `free`, those that nothing protects, until the rest fits."""
    left = sum(size for run_id, size in sizes.items() if run_id not in goes)
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
