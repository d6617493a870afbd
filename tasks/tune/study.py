"""The search: settings chosen by Optuna one after another, each run in two parts, all of it kept in an SQLite file.

A search that is killed anywhere goes on where it stopped, and then makes the choices that it would have made: each
trial draws with a seed of its own, from the trials before it.
"""

import hashlib
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import optuna
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import URL

from schemas.errors import ConfigError
from schemas.tune import Trial, Tune
from tasks.tune.objective import Figures, Objective
from tasks.tune.outcome import Infeasible, Outcome, Reference, RunTrial
from tasks.tune.space import Params, Space, key_of

FIRST, WHOLE = 0, 1
"""The two parts of a trial, as Optuna's steps."""
_STARTUP = 8
"""Trials that are drawn evenly, the references among them, before the sampler trusts what it has learnt."""
_BEFORE_PRUNING = 4
_DOES_NOT_RUN = 10.0
"""How much a setting that does not run violates, beside an SLO that is missed by a share of itself."""
_LISTED = 10_000
_REPEATS = 50
"""Settings in a row that were measured before, after which the search is over."""
_STUDY = "search"

Ended = Literal["trials", "time", "space"]


class Search:
    """A tuning's trials in `path`, an SQLite file that is made where there is none.

    samples: how many the largest dataset of a trial has, which tells how many the first part is."""

    def __init__(self, path: Path, *, tune: Tune, samples: int) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.tune = tune
        self.space = Space(tune.space)
        self.objective = Objective(tune)
        first = math.ceil(samples * tune.first_share)
        self._parts = [(WHOLE, tune.limit)] if first >= samples else [(FIRST, first), (WHOLE, tune.limit)]
        self._storage = optuna.storages.RDBStorage(URL.create("sqlite", database=str(path)).render_as_string())
        self._study = optuna.create_study(
            storage=self._storage,
            study_name=_STUDY,
            direction="maximize" if self.objective.direction == "higher" else "minimize",
            pruner=optuna.pruners.MedianPruner(n_startup_trials=_BEFORE_PRUNING),
            load_if_exists=True,
        )
        self._check_same(path, samples)

    @property
    def trials(self) -> list[Trial]:
        """Every trial so far, in order, the one that was running when the search was killed too."""
        return [_kept(each) for each in self._study.get_trials(deepcopy=False) if "trial" in each.user_attrs]

    @property
    def winner(self) -> Trial | None:
        """The best trial that ran as a whole and within the SLO. Of equal ones the earliest."""
        measured = [trial for trial in self.trials if trial.state == "measured" and trial.value is not None]
        sign = -1 if self.objective.direction == "higher" else 1
        return min(measured, key=lambda trial: (sign * (trial.value or 0.0), trial.number), default=None)

    def close(self) -> None:
        """Lets go of the file."""
        self._storage.remove_session()
        self._storage.engine.dispose()

    def note(self, key: str) -> Any:
        """What was kept under a key; None where nothing was."""
        return self._study.user_attrs.get(key)

    def keep(self, key: str, value: Any) -> None:
        """Keeps a value that JSON can hold beside the trials."""
        self._study.set_user_attr(key, value)

    def run(
        self,
        run_trial: RunTrial,
        *,
        references: Sequence[Reference],
        identity: Callable[[dict[str, Any]], str] = key_of,
        on_trial: Callable[[Trial], None] = lambda trial: None,
    ) -> Ended:
        """Runs trials until all have run, the time is over, or every setting was measured; and says which.

        references: run first, and as a whole. identity: what tells two settings apart; settings that come out as the
        same engine are run once. on_trial: is given each trial when it begins, after each part and when it is over.
        What run_trial raises ends the search, which goes on with that trial when it is run again."""
        while True:
            going_on = self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
            if not going_on and (ended := self._ended(len(references))) is not None:
                return ended
            number = going_on[0].number if going_on else len(self._study.get_trials(deepcopy=False, states=_BEGUN))
            reference = references[number] if number < len(references) else None
            self._study.sampler = self._sampler(number)
            asked = self._going_on(going_on[0]) if going_on else self._ask(number, reference)
            if asked is None:
                return "space"
            trial = self._begin(asked, reference, identity)
            if trial.state == "running":
                on_trial(trial)
                trial = self._measure(asked, trial, run_trial, on_trial)
            self._tell(asked, trial)
            on_trial(trial)

    def _check_same(self, path: Path, samples: int) -> None:
        """Raises ConfigError for a file that another search is kept in."""
        told = self.tune.model_dump(mode="json", exclude={"trials", "time_limit_s", "trial_time_limit_s", "confirm"})
        own = hashlib.sha256(key_of({"tune": told, "samples": samples}).encode()).hexdigest()
        kept = self.note("of")
        if kept is None:
            self.keep("of", own)
        elif kept != own:
            raise ConfigError.one(
                f"the tuning kept in {path} has another space, objective or load",
                suggestion="only `trials`, time limits and `confirm` may change: start a new one",
            )

    def _ended(self, references: int) -> Ended | None:
        trials = self.trials
        if sum(trial.state != "repeated" for trial in trials) >= self.tune.trials:
            return "trials"
        if len(trials) < references:
            return None
        limit = self.tune.time_limit_s
        if limit is not None and sum(trial.seconds or 0.0 for trial in trials) >= limit:
            return "time"
        if len(trials) > _REPEATS and all(trial.state == "repeated" for trial in trials[-_REPEATS:]):
            return "space"
        return None

    def _sampler(self, number: int) -> optuna.samplers.BaseSampler:
        seed = int.from_bytes(hashlib.sha256(f"{self.tune.seed}:{number}".encode()).digest()[:4], "big")
        return optuna.samplers.TPESampler(seed=seed, n_startup_trials=_STARTUP)

    def _ask(self, number: int, reference: Reference | None) -> optuna.trial.Trial | None:
        """A new trial; None where every setting of the space was measured. After a setting that was measured before,
        the next is one that was not, drawn evenly."""
        if not self._study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
            if reference is not None:
                params = self.space.params_of(reference.values)
                self._study.enqueue_trial(self.space.stored(params or {}), user_attrs={"reference": reference.name})
            elif (trials := self.trials) and trials[-1].state == "repeated" and not trials[-1].reference:
                params = self._fresh(number)
                if params is None:
                    return None
                self._study.enqueue_trial(self.space.stored(params))
        return self._study.ask()

    def _fresh(self, number: int) -> Params | None:
        """A setting that no trial had; where they cannot all be listed, any one. None where there is none left."""
        draw = random.Random(f"{self.tune.seed}:{number}")  # noqa: S311 - a search, not a secret
        size = self.space.size()
        if size is None or size > _LISTED:
            return self.space.any(draw)
        had = {key_of(trial.settings) for trial in self.trials}
        left = [params for params in self.space.every() if key_of(self.space.settings(params)) not in had]
        return draw.choice(left) if left else None

    def _going_on(self, frozen: FrozenTrial) -> optuna.trial.Trial:
        return optuna.trial.Trial(self._study, frozen._trial_id)  # as `ask` makes it

    def _begin(
        self, asked: optuna.trial.Trial, reference: Reference | None, identity: Callable[[dict[str, Any]], str]
    ) -> Trial:
        """The trial as it begins, or as far as it had come when the search was killed."""
        if "trial" in asked.user_attrs:
            return Trial.model_validate_json(asked.user_attrs["trial"])
        if reference is None:
            settings = self.space.settings(self.space.draw(asked))
        else:
            settings = dict(reference.settings)
            if self.space.params_of(reference.values) is not None:
                self.space.draw(asked)
        told = identity(settings)
        trial = Trial(
            number=asked.number,
            reference=None if reference is None else reference.name,
            settings=settings,
            state="running",
            started_at=datetime.now(UTC).isoformat(),
        )
        before = [each for each in self._study.get_trials(deepcopy=False) if each.user_attrs.get("identity") == told]
        asked.set_user_attr("identity", told)
        if before:
            trial = _repeated(trial, _kept(before[0]))
        return self._save(asked, trial)

    def _measure(
        self,
        asked: optuna.trial.Trial,
        trial: Trial,
        run_trial: RunTrial,
        on_trial: Callable[[Trial], None],
    ) -> Trial:
        """Runs the parts that have not run yet, until one says that the setting is no good."""
        for part, limit in self._parts[trial.rungs :]:
            began = time.monotonic()
            outcome = run_trial(trial.settings, limit, part)
            seconds = time.monotonic() - began if outcome.seconds is None else outcome.seconds
            trial = self._after(asked, _ran(trial, outcome, seconds), outcome, part)
            self._save(asked, trial)
            if trial.state != "running":
                break
            on_trial(trial)
        return trial

    def _after(self, asked: optuna.trial.Trial, trial: Trial, outcome: Outcome, part: int) -> Trial:
        """The trial with what one part of it says."""
        if isinstance(outcome, Infeasible):
            told = {"why": outcome.why, "reason": outcome.message, "violations": {"runs": _DOES_NOT_RUN}}
            return trial.model_copy(update={"state": "infeasible", **told})
        missing = self.objective.missing(outcome.figures)
        if missing:
            reason = f"the run has no {' and no '.join(missing)}"
            told = {"why": "not_measured", "reason": reason, "violations": {"runs": _DOES_NOT_RUN}}
            return trial.model_copy(update={"state": "infeasible", **told})
        whole = part == WHOLE
        violations = self.objective.violations(outcome.figures)
        trial = trial.model_copy(update={"figures": dict(outcome.figures), "violations": violations})
        if any(over > 0 for over in violations.values()) and (whole or self.objective.hopeless(outcome.figures)):
            reason = self.objective.missed(outcome.figures) + ("" if whole else ", of the first samples")
            return trial.model_copy(update={"state": "infeasible", "why": "slo", "reason": reason})
        value = self.objective.value(outcome.figures, self._base(part, outcome.figures))
        if part == FIRST or len(self._parts) == 1:
            trial = trial.model_copy(update={"first_value": value})
            asked.report(value, FIRST)
        if whole:
            return trial.model_copy(update={"state": "measured", "value": value, "violations": violations})
        if trial.reference is None and asked.should_prune():
            reason = f"the first samples gave {value:.4g}: worse than half of the trials that ran as a whole"
            return trial.model_copy(update={"state": "pruned", "reason": reason})
        return trial

    def _base(self, part: int, figures: Figures) -> Figures | None:
        """What weighted goals are held against: the first figures of this part that any trial had. They are kept, so
        that a value means the same from the first trial to the last."""
        if len(self.objective.goals) == 1:
            return None
        key = f"base {part}"
        if self.note(key) is None:
            self.keep(key, dict(figures))
        base: Mapping[str, float] = self.note(key)
        return base

    def _save(self, asked: optuna.trial.Trial, trial: Trial) -> Trial:
        asked.set_user_attr("trial", trial.model_dump_json())
        return trial

    def _tell(self, asked: optuna.trial.Trial, trial: Trial) -> None:
        """Gives the sampler what was found. A reference that is no point of the space stands as FAIL: Optuna passes it
        over."""
        if trial.reference is not None and not asked.params:
            self._study.tell(asked, state=TrialState.FAIL)
            return
        for name, over in trial.violations.items():
            if name not in asked.constraints:
                asked.set_constraint(name, over)
        if trial.feasible:
            self._study.tell(asked, trial.value)
        else:
            self._study.tell(asked, state=TrialState.PRUNED)


_BEGUN = (TrialState.RUNNING, TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


def _kept(frozen: FrozenTrial) -> Trial:
    return Trial.model_validate_json(frozen.user_attrs["trial"])


def _ran(trial: Trial, outcome: Outcome, seconds: float) -> Trial:
    """The trial with one part more."""
    run_ids = [*trial.run_ids, *([] if outcome.run_id is None else [outcome.run_id])]
    return trial.model_copy(
        update={"rungs": trial.rungs + 1, "run_ids": run_ids, "seconds": (trial.seconds or 0.0) + seconds}
    )


def _repeated(trial: Trial, before: Trial) -> Trial:
    """A trial whose setting another one had: its figures, and nothing is run."""
    known = {name: getattr(before, name) for name in ("why", "value", "figures", "violations")}
    was = {"measured": "was measured", "pruned": "was given up", "infeasible": "is infeasible"}[before.state]
    of = before.number if before.same_as is None else before.same_as
    return trial.model_copy(
        update={"state": "repeated", "reason": f"the same engine {was} as trial {of}", "same_as": of, **known}
    )
