"""What a measured load asks, where it is not the experiment's own prompts."""

import math
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from schemas.base import Config
from schemas.short import or_number

Tokens = Annotated[int, Field(ge=1, le=10_000_000)]
_DEVIATIONS = 4
_LEAST_SHARE = 0.05


class Length(Config):
    """Tokens, drawn from a distribution. A bare number is always that one."""

    kind: Literal["fixed", "uniform", "normal", "lognormal"] = "fixed"
    """`fixed`: `mean`; `uniform`: from `least` to `most`; `normal`, `lognormal`: of this `mean` and `sd`, drawn again
    where it falls outside `least` and `most`."""
    mean: Annotated[float, Field(gt=0, le=10_000_000)] | None = None
    """Tokens on average, before the bounds cut."""
    sd: Annotated[float, Field(gt=0, le=10_000_000)] | None = None
    """The standard deviation, in tokens."""
    least: Tokens = 1
    """The shortest, in tokens."""
    most: Tokens | None = None
    """The longest. Without it, of `normal` and `lognormal` four standard deviations above the mean: an engine must have
    room for the longest, so there is one."""

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> "Length":
        needs = {"fixed": ("mean",), "uniform": ("most",), "normal": ("mean", "sd"), "lognormal": ("mean", "sd")}
        missing = [name for name in needs[self.kind] if getattr(self, name) is None]
        if missing:
            raise ValueError(f"`kind: {self.kind}` needs {' and '.join(f'`{name}`' for name in missing)}")
        extra = [name for name in ("mean", "sd") if name not in needs[self.kind] and getattr(self, name) is not None]
        if extra:
            raise ValueError(f"`kind: {self.kind}` has no {' and '.join(f'`{name}`' for name in extra)}")
        if self.least > self.longest:
            most = "`most`" if self.most is not None else f"the longest, {self.longest}"
            raise ValueError(f"`least` is above {most}")
        if self._share_within() < _LEAST_SHARE:
            raise ValueError(f"hardly any length of this kind lies from {self.least} to {self.longest} tokens")
        return self

    @property
    def longest(self) -> int:
        """The longest that is ever drawn."""
        if self.most is not None:
            return self.most
        mean = 0.0 if self.mean is None else self.mean
        return round(mean) if self.kind == "fixed" else math.ceil(mean + _DEVIATIONS * (self.sd or 0.0))

    def _share_within(self) -> float:
        """Of what the distribution gives, the share that is within the bounds."""
        if self.mean is None:
            return 1.0
        least, most = self.least - 0.5, self.longest + 0.5
        if self.sd is None:
            return 1.0 if least <= self.mean <= most else 0.0
        if self.kind == "normal":
            return _below((most - self.mean) / self.sd) - _below((least - self.mean) / self.sd)
        spread = math.sqrt(math.log1p((self.sd / self.mean) ** 2))
        middle = math.log(self.mean) - spread * spread / 2
        return _below((math.log(most) - middle) / spread) - _below((math.log(least) - middle) / spread)


def _below(deviations: float) -> float:
    """The share of a normal distribution that lies below its mean and so many deviations."""
    return (1 + math.erf(deviations / math.sqrt(2))) / 2


def _short(value: Any) -> Any:
    return {"kind": "fixed", "mean": value} if isinstance(value, int) and not isinstance(value, bool) else value


class _Lengths(Config):
    output_tokens: Annotated[Length, Field(json_schema_extra=or_number)]
    """The answer, which has exactly so many tokens."""

    @field_validator("output_tokens", "prompt_tokens", "own_tokens", mode="before", check_fields=False)
    @classmethod
    def _short_length(cls, value: Any) -> Any:
        return _short(value)


class RandomPrompts(_Lengths):
    """Prompts of drawn tokens, of drawn lengths, none of which begins like another."""

    kind: Literal["random"]
    """Drawn tokens."""
    prompt_tokens: Annotated[Length, Field(json_schema_extra=or_number)]
    """The prompt, in tokens: a number, or a distribution."""


class SharedPrefixPrompts(_Lengths):
    """Prompts in groups, each group with a beginning that is its own and the same for all of it."""

    kind: Literal["shared_prefix"]
    """Groups of prompts that begin alike."""
    groups: Annotated[int, Field(ge=1)] = 1
    """How many different beginnings there are."""
    shared_tokens: Tokens
    """Tokens of a beginning."""
    own_tokens: Annotated[Length, Field(json_schema_extra=or_number)]
    """Tokens of a prompt after it."""


class MixPart(_Lengths):
    """One part of a mix."""

    share: Annotated[float, Field(gt=0, le=1)]
    """Of all requests."""
    prompt_tokens: Annotated[Length, Field(json_schema_extra=or_number)]
    """The prompt, in tokens."""


class MixPrompts(Config):
    """Short and long prompts beside each other, as a service gets them."""

    kind: Literal["mix"]
    """Several kinds of lengths, mixed."""
    parts: Annotated[list[MixPart], Field(min_length=2)]
    """The parts, whose shares add up to 1."""

    @field_validator("parts")
    @classmethod
    def _all_of_it(cls, value: list[MixPart]) -> list[MixPart]:
        total = sum(part.share for part in value)
        if abs(total - 1) > 1e-6:
            raise ValueError(f"the shares add up to {total:g}, not to 1")
        return value


class ShareGptPrompts(Config):
    """Conversations of a file in ShareGPT's format: the first question, and an answer as long as the recorded one."""

    kind: Literal["sharegpt"]
    """Recorded conversations."""
    path: str
    """The JSON file, from the YAML file's own folder."""
    output_tokens: Tokens | None = None
    """Tokens of every answer, in place of the recorded one's length."""
    most_prompt_tokens: Tokens = 1024
    """Conversations with a longer prompt are left out."""
    most_total_tokens: Tokens = 2048
    """Those whose prompt and answer are longer together, too."""
    least_tokens: Tokens = 4
    """Those whose prompt or answer is shorter, too."""


class SessionPrompts(_Lengths):
    """Conversations of several turns: each turn's prompt is all that was said before and something new, and comes a
    while after the last answer. What `requests`, `warmup` and `cooldown` count are then conversations."""

    kind: Literal["sessions"]
    """Conversations of several turns."""
    turns: Annotated[int, Field(ge=1, le=1000)] = 4
    """Turns of each."""
    first_tokens: Annotated[Length, Field(json_schema_extra=or_number)]
    """Tokens of the first prompt."""
    own_tokens: Annotated[Length, Field(json_schema_extra=or_number)]
    """Tokens that each further turn adds to what was said."""
    think_s: Annotated[float, Field(ge=0)] = 1.0
    """Seconds between an answer and the next turn, on average."""
    think: Literal["constant", "exponential"] = "exponential"
    """How these are drawn."""

    @field_validator("first_tokens", mode="before")
    @classmethod
    def _short_first(cls, value: Any) -> Any:
        return _short(value)


PromptsConfig = Annotated[
    RandomPrompts | SharedPrefixPrompts | MixPrompts | ShareGptPrompts | SessionPrompts, Field(discriminator="kind")
]
