"""The block `benchmark` of an experiment: paths that start from its file, and what does not fit the rest."""

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from schemas.address import is_loopback
from schemas.arm import Arm, gets_grammar
from schemas.benchmark import Benchmark, ClientHosts, TraceLoad
from schemas.endpoint import EndpointEngine
from schemas.errors import Problem
from schemas.points import measured_arms, twice
from schemas.prompts import ShareGptPrompts
from tasks.config.disk import is_file, names_in
from tasks.config.layers import Layers
from tasks.config.locate import path_from, relative_to_here
from tasks.config.nearest import did_you_mean

KeyPath = tuple[str | int, ...]


def listed(raw: dict[str, Any]) -> dict[str, Any]:
    """An experiment's data with the one load of its benchmark, which needs no list, as a list: faults are then found in
    it by the same key path."""
    block = raw.get("benchmark")
    if isinstance(block, dict) and isinstance(block.get("load"), dict):
        return {**raw, "benchmark": {**block, "load": [block["load"]]}}
    return raw


def placed(benchmark: Benchmark, experiment: Layers, raw: Any) -> Benchmark:
    """With its paths absolute. raw: the block as it is written. Raises ConfigError, where it is written, for what is no
    path and for a file that is not there."""
    changes: dict[str, Any] = {}
    loads = list(benchmark.load)
    for index, load in enumerate(loads):
        if isinstance(load, TraceLoad):
            path = _file(load.path, experiment, (*load_key(raw, index), "path"))
            loads[index] = load.model_copy(update={"path": path})
    if loads != list(benchmark.load):
        changes["load"] = loads
    if isinstance(benchmark.prompts, ShareGptPrompts):
        path = _file(benchmark.prompts.path, experiment, ("benchmark", "prompts", "path"))
        changes["prompts"] = benchmark.prompts.model_copy(update={"path": path})
    return benchmark.model_copy(update=changes) if changes else benchmark


def benchmark_problems(
    benchmark: Benchmark, *, arms: Sequence[Arm], endpoint: EndpointEngine | None, experiment: Layers
) -> list[Problem]:
    """What of the block cannot be with these arms and this engine, each where it is written. endpoint: the server that
    answers, where one does."""
    return [experiment.problem(*fault) for fault in _faults(benchmark, arms=arms, endpoint=endpoint)]


def load_key(raw: Any, index: int) -> KeyPath:
    """Where a load is written: one alone needs no list."""
    alone = isinstance(raw, dict) and isinstance(raw.get("load"), dict)
    return ("benchmark", "load") if alone else ("benchmark", "load", index)


def _faults(
    benchmark: Benchmark, *, arms: Sequence[Arm], endpoint: EndpointEngine | None
) -> Iterator[tuple[KeyPath, str, str | None]]:
    measured = measured_arms(benchmark, arms)
    if not measured:
        yield (
            ("benchmark", "prompts"),
            "drawn prompts have no grammar, and the experiment has no arm without one",
            "`arms: [free, guided]`, or leave `prompts` out",
        )
    if doubled := twice(benchmark, arms=measured[:1]):
        names = ", ".join(name.partition("-")[2] for name in doubled)
        yield ("benchmark", "load"), f"the same load stands here twice ({names})", "each once; `repeats` measures again"
    if benchmark.clients > 1 and endpoint is None:
        yield (
            ("benchmark", "clients"),
            "an engine of assay's own has one client, which hands it requests directly",
            "leave `clients` out, or ask a server: `engine: {kind: endpoint, url: …, model: …}`",
        )
    if benchmark.client_hosts is not None and endpoint is None:
        yield (
            ("benchmark", "client_hosts"),
            "an engine of assay's own has one client, on its own machine",
            "leave `client_hosts` out, or ask a server: `engine: {kind: endpoint, url: …, model: …}`",
        )
    elif (hosts := benchmark.client_hosts) is not None and endpoint is not None and _only_here(endpoint, hosts):
        yield (
            ("benchmark", "client_hosts"),
            f"other machines do not reach {endpoint.url}, which is this one's own",
            "`engine.url` by a name or an address that they know",
        )
    if benchmark.answers == "exact" and any(gets_grammar(arm) for arm in arms):
        yield (
            ("benchmark", "answers"),
            "a guided answer ends where its grammar does, so that it has no exact length",
            "`answers: own`, or `arms: [free]`",
        )


def _only_here(endpoint: EndpointEngine, hosts: ClientHosts) -> bool:
    """Whether clients elsewhere are sent to a server on this machine's loopback."""
    return is_loopback(urlsplit(endpoint.url).hostname) and not is_loopback(hosts.address)


def _file(text: str, experiment: Layers, keypath: KeyPath) -> str:
    at = experiment.place(keypath)
    path = path_from(text, base=experiment.origin(keypath).base, at=at)
    if not is_file(path):
        raise at.error(f"there is no file {relative_to_here(path)}", did_you_mean(path.name, names_in(path.parent)))
    return str(path)
