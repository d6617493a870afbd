"""The settings that a tuning may choose from: drawn by the search, told apart, listed where there are few."""

import itertools
import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.trial import Trial

from schemas.tune import Range
from tasks.tune.values import values_of

POLICY = "engine.prefill.policy"
THRESHOLD = "engine.prefill.threshold"
YIELDS = "engine.prefill.yields"
FIXED = "fixed"
LONG_FORMS = {"engine.cudagraph": "engine.cudagraph.mode"}
"""Keys that may be written short, and what they stand for."""

Params = dict[str, Any]
"""Values by key, as the search draws them; `settings` adds what goes with them."""


class Space:
    """Every key with its values, in the order of the file. A threshold has no value under another policy than
    `fixed`."""

    def __init__(self, values: Mapping[str, Range | Sequence[Any]]) -> None:
        every = {LONG_FORMS.get(key, key): values_of(each) for key, each in values.items()}
        self._values = {key: every[key] for key in sorted(every, key=lambda key: key == THRESHOLD)}

    @property
    def keys(self) -> list[str]:
        """The keys, long forms for short ones, and the threshold after the policy that it hangs on."""
        return list(self._values)

    def draw(self, trial: Trial) -> Params:
        """The params of a trial that Optuna has begun: what its sampler chooses, or what they were when it was
        killed."""
        params: Params = {}
        for key, values in self._values.items():
            if self._asked(key, params):
                params[key] = values.draw(key, trial)
        return params

    def settings(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """What is set for these params: a threshold brings its policy with it."""
        implied = {POLICY: FIXED} if params.get(THRESHOLD) is not None and POLICY not in params else {}
        return {**implied, **params}

    def params_of(self, known: Mapping[str, Any]) -> Params | None:
        """The params that an engine with these values stands for; None where it is no point of the space. known: values
        by key; a key that is not there is not known."""
        params: Params = {}
        for key, values in self._values.items():
            if not self._asked(key, params):
                continue
            if key not in known or not values.holds(known[key]):
                return None
            params[key] = known[key]
        return params

    def distributions(self, params: Mapping[str, Any]) -> dict[str, BaseDistribution]:
        """What Optuna draws these keys from."""
        return {key: self._values[key].distribution for key in params}

    def stored(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The params as Optuna keeps them."""
        return {key: self._values[key].stored(value) for key, value in params.items()}

    def size(self) -> int | None:
        """How many params there are at most; None for a range without steps."""
        counts = [values.count() for values in self._values.values()]
        return None if None in counts else math.prod(count or 0 for count in counts)

    def every(self) -> Iterator[Params]:
        """All params of a space that has a size."""
        seen = set()
        for drawn in itertools.product(*(values.listed() for values in self._values.values())):
            params: Params = {}
            for key, value in zip(self._values, drawn, strict=True):
                if self._asked(key, params):
                    params[key] = value
            if (told := key_of(params)) not in seen:
                seen.add(told)
                yield params

    def any(self, draw: random.Random) -> Params:
        """Params drawn evenly, a range with `log` on its logarithm."""
        params: Params = {}
        for key, values in self._values.items():
            if self._asked(key, params):
                params[key] = values.any(draw)
        return params

    def _asked(self, key: str, params: Mapping[str, Any]) -> bool:
        """Whether the key has a value beside these."""
        return not (key == THRESHOLD and POLICY in self._values and params.get(POLICY) != FIXED)


def key_of(settings: Mapping[str, Any]) -> str:
    """The settings as a text that tells them apart."""
    return json.dumps(settings, sort_keys=True)
