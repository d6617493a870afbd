"""What load is put on the engine, with which prompts, and how often: the block `benchmark` of an experiment."""

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from schemas.base import Config
from schemas.cell_figures import Slo
from schemas.prompts import PromptsConfig
from schemas.short import or_one

Arrivals = Literal["poisson", "gamma", "constant"]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Requests = Annotated[int, Field(ge=1, le=1_000_000)]
Rate = Annotated[float, Field(gt=0, le=100_000)]


class _Bounded(Config):
    """A load of so many requests, or of so long: one of the two."""

    requests: Requests | None = None
    """Measured requests of each cell."""
    seconds: Seconds | None = None
    """Or: seconds for which each cell sends. What was sent is waited for."""

    @model_validator(mode="after")
    def _one_of_two(self) -> "_Bounded":
        if self.requests is not None and self.seconds is not None:
            raise ValueError("`requests` or `seconds`, not both")
        return self


class _Open(Config):
    """How the gaps between requests are drawn."""

    arrivals: Arrivals = "poisson"
    """`poisson`: as independent users come; `gamma`: in bursts, or more evenly, by `burstiness`; `constant`: one after
    the other in equal gaps."""
    burstiness: Annotated[float, Field(gt=0)] = 1.0
    """With `arrivals: gamma`: the shape of the gaps. Below 1 requests come in bursts, 1 is Poisson, above it they come
    more evenly."""
    at_once: Annotated[int, Field(ge=1)] | None = None
    """The most requests in flight. One that is due and finds no place waits with the client, and that wait counts."""

    @model_validator(mode="after")
    def _burstiness_is_of_gamma(self) -> "_Open":
        if self.arrivals != "gamma" and self.burstiness != 1.0:
            raise ValueError("`burstiness` goes with `arrivals: gamma`")
        return self


class ClosedLoad(_Bounded):
    """So many users, each of whom asks again as soon as the last answer is there. Each number is a cell."""

    kind: Literal["closed"]
    """A fixed number of requests in flight."""
    concurrency: Annotated[list[Annotated[int, Field(ge=1, le=100_000)]], Field(min_length=1, json_schema_extra=or_one)]
    """Requests in flight: one number, or several."""

    @field_validator("concurrency", mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        return [value] if isinstance(value, int) else value


class OpenLoad(_Bounded, _Open):
    """Requests that come at their own times, whatever became of those before. Each rate is a cell."""

    kind: Literal["open"]
    """Arrivals at a rate."""
    rate: Annotated[list[Rate], Field(min_length=1, json_schema_extra=or_one)]
    """Requests a second: one number, or several."""

    @field_validator("rate", mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        return [value] if isinstance(value, int | float) else value


class RampLoad(_Open):
    """An open load whose rate goes in a straight line from one to another."""

    kind: Literal["ramp"]
    """A rate that grows, or falls."""
    start: Annotated[float, Field(ge=0, le=100_000)] = 0.0
    """Requests a second at its beginning."""
    end: Annotated[float, Field(ge=0, le=100_000)]
    """Requests a second at its end."""
    seconds: Seconds
    """How many seconds it takes."""


class Stage(Config):
    """One stage of a staged load."""

    rate: Annotated[float, Field(ge=0, le=100_000)]
    """Requests a second; 0: a pause."""
    seconds: Seconds
    """How many seconds it lasts."""


class StagedLoad(_Open):
    """An open load in stages of a rate each, one after the other, in one cell."""

    kind: Literal["staged"]
    """Stages of different rates."""
    stages: Annotated[list[Stage], Field(min_length=1)]
    """The stages, in their order."""


class TraceLoad(Config):
    """Requests at the times, and of the lengths, that a trace of a real service recorded."""

    kind: Literal["trace"]
    """A recorded trace, replayed."""
    path: str
    """The file, from the YAML file's own folder."""
    format: Literal["mooncake", "burstgpt", "csv"]
    """`mooncake`: JSON Lines with hashed prefix blocks; `burstgpt`: its CSV; `csv`: the columns `at_s`,
    `prompt_tokens`, `output_tokens`."""
    speed: Annotated[float, Field(gt=0)] = 1.0
    """How many times as fast as recorded: 2 halves every gap."""
    requests: Requests | None = None
    """Only its first requests, so many."""
    at_once: Annotated[int, Field(ge=1)] | None = None
    """The most requests in flight. One that is due and finds no place waits with the client, and that wait counts."""


class OfflineLoad(Config):
    """All requests at once, as a batch job has them: what throughput there is."""

    kind: Literal["offline"]
    """Everything at once."""
    requests: Requests = 256
    """Requests of a cell."""


class LatencyLoad(Config):
    """One request after the other: the shortest times that there are."""

    kind: Literal["latency"]
    """A single stream."""
    requests: Requests = 16
    """Requests of a cell."""


class SaturateLoad(_Open):
    """Looks for the knee: the highest rate at which the SLO is still kept; then measures rates below it."""

    kind: Literal["saturate"]
    """The highest rate that keeps the SLO."""
    share: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """The share of all requests sent that must meet the SLO."""
    start: Rate | None = None
    """The rate of the first probe, in requests a second. Without it: what a short offline load gives."""
    seconds: Seconds = 20.0
    """Seconds for which each probe, and each rate below the knee, sends."""
    tolerance: Annotated[float, Field(gt=0, le=1)] = 0.1
    """How far apart the highest rate that keeps it and the lowest that breaks it may be, as a share: 0.1 is 10 %."""
    probes: Annotated[int, Field(ge=2, le=100)] = 10
    """The most probes."""
    sweep: list[Annotated[float, Field(gt=0, le=2)]] = Field(default=[0.25, 0.5, 0.75, 0.9])
    """The rates measured afterwards, as shares of the knee."""


Load = Annotated[
    ClosedLoad | OpenLoad | RampLoad | StagedLoad | TraceLoad | OfflineLoad | LatencyLoad | SaturateLoad,
    Field(discriminator="kind"),
]


class Prices(Config):
    """What the machine, or an API, costs. What is left out costs nothing that is known: its part is not told."""

    currency: str = "USD"
    """What the numbers are in; a word for the reader."""
    device_hour: Annotated[float, Field(ge=0)] | None = None
    """One hour of one device (a GPU; on a CPU, of the machine)."""
    kwh: Annotated[float, Field(ge=0)] | None = None
    """One kilowatt-hour of energy; only where energy is measured."""
    prompt_mtok: Annotated[float, Field(ge=0)] | None = None
    """A million prompt tokens, as an API charges them."""
    output_mtok: Annotated[float, Field(ge=0)] | None = None
    """A million output tokens, as an API charges them."""


class ClientHosts(Config):
    """Other machines that send a part of the load: each is a run of the deployment, which a worker there takes."""

    workers: Annotated[int, Field(ge=1, le=255)]
    """How many other machines. `assay worker clients` runs on each; each sends with as many processes as `clients`
    says, as this machine does."""
    address: str | None = None
    """This machine's name or address, as the others reach it. Without it: the one that it has towards the Prefect
    server."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 0
    """The port that each client process comes to, where a firewall lets only some through; 0: any that is free."""
    deployment: str = "client/load"
    """The deployment that each of them is a run of."""
    wait_s: Annotated[float, Field(gt=0, le=86_400)] = 300.0
    """Seconds for which they are waited for."""

    @field_validator("address")
    @classmethod
    def _a_host(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+", value):
            raise ValueError(f"`{value}` names no host: as in 10.0.0.5 or bench.example, without http:// and a port")
        return value

    @field_validator("deployment")
    @classmethod
    def _of_a_flow(cls, value: str) -> str:
        if not re.fullmatch(r"[^/]+/[^/]+", value):
            raise ValueError(f"`{value}` is no deployment: the flow's name and its own, as in client/load")
        return value


class Benchmark(Config):
    """Measured load on the engine: which, with which prompts, how often, and what counts as fast enough."""

    load: Annotated[list[Load], Field(min_length=1, json_schema_extra=or_one)]
    """One load, or a list of them."""
    prompts: PromptsConfig | None = None
    """What is asked. Without it: the experiment's own prompts, in every arm."""
    answers: Literal["own", "exact"] = "own"
    """Of the experiment's own prompts: `own`: answers end where they end, as in the quality phase; `exact`: each goes
    on to its `max_tokens`, so that every cell makes as many tokens. Drawn prompts have answers of exactly the length
    drawn."""
    warmup: Annotated[int, Field(ge=0, le=1_000_000)] = 8
    """Requests of each cell that are sent first, under the same load, and answered before the measured ones begin."""
    cooldown: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Requests of each cell that go on after the measured ones, so that these end under the load that they began
    with."""
    repeats: Annotated[int, Field(ge=1, le=1000)] = 1
    """How often each cell is measured, all of them in turns, every other turn backwards (A B B A). A verdict on speed
    needs several."""
    slo: Slo = Slo()
    """The most that each latency of a request may be: what goodput counts by."""
    prices: Prices = Prices()
    clients: Annotated[int, Field(ge=1, le=256)] = 1
    """Processes that send one load together, each a part of it; more than one only to an endpoint."""
    client_hosts: ClientHosts | None = None
    """Other machines that send a part of it too; only to an endpoint."""
    wait_s: Annotated[float, Field(gt=0)] = 600.0
    """Seconds after the last request is sent for which answers are waited for. What is not there then has failed."""
    alone: bool = False
    """Whether the load is all that this run does: nothing is answered and scored before. `assay bench` sets it."""
    seed: int = 0
    """What arrivals, drawn prompts and lengths are drawn with, each repeat with its own part of it."""

    @field_validator("load", mode="before")
    @classmethod
    def _one_load(cls, value: Any) -> Any:
        return [value] if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _fits(self) -> "Benchmark":
        if not self.slo.asked and any(load.kind == "saturate" for load in self.load):
            raise ValueError("`kind: saturate` looks for the highest rate that keeps the `slo`: set one")
        if self.prompts is not None and self.answers == "exact":
            raise ValueError("`answers: exact` is for the experiment's own prompts; drawn ones have exact answers")
        traced = [load.kind == "trace" for load in self.load]
        if any(traced) and (self.prompts is not None or not all(traced)):
            raise ValueError("a trace says itself what is asked: it goes neither with `prompts` nor with other loads")
        return self

    @property
    def brings_prompts(self) -> bool:
        """Whether it asks nothing of the experiment's datasets."""
        return self.prompts is not None or all(load.kind == "trace" for load in self.load)

    @property
    def kinds(self) -> Iterable[str]:
        """The kinds of its loads, in order."""
        return [load.kind for load in self.load]
