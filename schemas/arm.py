"""The arms of an experiment: ways of answering the same samples, which are then compared."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from schemas.adapter import BASE
from schemas.base import Config
from schemas.faults import Fault

Kind = Literal["free", "guided"]
FREE_MATCHED = "free_matched"
"""The control: free answers that are as long as the guided ones."""
REPAIR = "repair"
"""Free answers, and guided ones in place of those that do not obey the guide."""
ArmKind = Literal["free", "guided", "free_matched", "repair"]
_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
"""Without a dot, so that `quality.<arm>.<dataset>.<metric>` comes apart in one way."""
_TAKEN = ("free", "guided", FREE_MATCHED, REPAIR, "all")


class NamedArm(Config):
    """An arm that answers as another one does, with an adapter of its own."""

    name: str
    """What tables, pages and gates call it: letters, digits, `_` and `-`; not `free`, `guided`, `free_matched`,
    `repair` or `all`."""
    like: Kind = "free"
    """`free`: the samples as they are; `guided`: with each dataset's grammar."""
    adapter: str
    """The LoRA adapter that answers: a name of the engine's `adapters`, in place of a dataset's own; `none`: the model
    itself."""

    @field_validator("name")
    @classmethod
    def _named(cls, value: str) -> str:
        if re.fullmatch(_NAME, value) is None:
            raise ValueError(f"`{value:.60}` is no arm's name: letters, digits, `_` and `-`, 64 at most")
        if value in _TAKEN:
            raise ValueError(f"`{value}` cannot be the name of an arm with an adapter")
        return value


Arm = ArmKind | NamedArm


class Repair(Config):
    """How the arm `repair` goes on where a free answer does not obey its dataset's guide."""

    retries: Annotated[int, Field(ge=1, le=10)] = 1
    """How often, at most, a guided answer is asked for in place of one; each only where the last was not valid."""
    temperature: Annotated[float, Field(gt=0, le=10)] | None = None
    """Of the second retry and those after it; without it, the sampling's own. The first is drawn as `guided` is. A
    `seed` counts up with them."""


def arm_name(arm: Arm) -> str:
    """What tables call it."""
    return arm.name if isinstance(arm, NamedArm) else arm


def arm_kind(arm: Arm) -> ArmKind:
    """How it answers; an arm with a name of its own is like another one."""
    return arm.like if isinstance(arm, NamedArm) else arm


def needs_guide(arm: Arm) -> bool:
    """Whether a dataset without a guide does not have it."""
    return arm_kind(arm) != "free"


def gets_grammar(arm: Arm) -> bool:
    """Whether some of its requests follow a grammar."""
    return arm_kind(arm) in ("guided", REPAIR)


def is_scored(arm: Arm) -> bool:
    """Whether its answers are judged: those of `free_matched` end in the middle of whatever they say."""
    return arm_kind(arm) != FREE_MATCHED


def arm_faults(arms: Sequence[Arm]) -> list[Fault]:
    """An arm that needs another one which is not there."""
    if FREE_MATCHED in arms and "guided" not in arms:
        return [
            Fault(
                keypath=("arms", [*map(arm_name, arms)].index(FREE_MATCHED)),
                message="`free_matched` makes free answers as long as those of `guided`, which is no arm here",
                suggestion="`arms: [free, guided, free_matched]`",
            )
        ]
    return []


def arm_adapter(arm: Arm, *, own: str | None) -> str | None:
    """The adapter that answers in it; None: the model itself. own: the dataset's."""
    if not isinstance(arm, NamedArm):
        return own
    return None if arm.adapter == BASE else arm.adapter


def arm_words(arm: Arm) -> str:
    """`free`, or `tuned (like free, adapter legal)`."""
    return f"{arm.name} (like {arm.like}, adapter {arm.adapter})" if isinstance(arm, NamedArm) else arm


def stored_arms(config: Iterable[Any]) -> list[Arm]:
    """The arms of a run's stored config; those of answers that another program gave may have any name."""
    return [NamedArm.model_validate(each) if isinstance(each, dict) else each for each in config]


def likelihood_arms(arms: Sequence[Arm]) -> list[Arm]:
    """The arms that log-likelihoods are asked in: those like `free`, since no grammar takes part in them; `free` itself
    where there is none."""
    return [arm for arm in arms if arm_kind(arm) == "free"] or ["free"]


def compared_arms(arms: Sequence[Arm]) -> list[tuple[str, str]]:
    """The pairs of arms whose scores a run compares, each (candidate, baseline), by name.

    A guided arm against the free one with the same adapter: what the grammar does. `repair` against `free` and against
    `guided`. And an arm with an adapter of its own against the one that it is like, or where that is not in the
    experiment, the first that is like it: what the adapter does. `free_matched` is not scored."""
    return list(dict.fromkeys(_pairs(arms)))


def _pairs(arms: Sequence[Arm]) -> Iterator[tuple[str, str]]:
    for arm in arms:
        if arm_kind(arm) == "guided":
            alike = (each for each in arms if arm_kind(each) == "free" and _adapter(each) == _adapter(arm))
            yield from ((arm_name(arm), arm_name(each)) for each in list(alike)[:1])
    if REPAIR in arms:
        yield from ((REPAIR, other) for other in ("free", "guided") if other in arms)
    for arm in arms:
        if isinstance(arm, NamedArm):
            first = arm.like if arm.like in arms else next(each for each in arms if arm_kind(each) == arm.like)
            if first != arm:
                yield arm.name, arm_name(first)


def _adapter(arm: Arm) -> str | None:
    return arm.adapter if isinstance(arm, NamedArm) else None
