"""One experiment file, with every name in it resolved and every default written out."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from schemas.arm import arm_faults, gets_grammar
from schemas.endpoint import EndpointEngine
from schemas.engine import VllmEngine
from schemas.errors import ConfigError, Problem
from schemas.experiment import Experiment, ExperimentFile, gate_faults, group_faults, known_of, repair_faults, stand_in
from tasks.config.benchmark import benchmark_problems, listed, placed
from tasks.config.datasets import Datasets
from tasks.config.disk import is_file
from tasks.config.document import config_hash, experiment_json_schema, to_yaml
from tasks.config.engines import adapter_problems, whole_engine
from tasks.config.explain import shown
from tasks.config.guides import guide_problems, with_backend
from tasks.config.layers import Layer, Layers
from tasks.config.locate import (
    NamedFile,
    Place,
    find_config,
    is_path,
    known_config_files,
    list_names,
    relative_to_here,
)
from tasks.config.models import load_model, model_place
from tasks.config.nearest import did_you_mean
from tasks.config.overrides import DEFAULT_ENGINE, apply_overrides, merged
from tasks.config.yaml_file import YamlFile, read_yaml

__all__ = [
    "NamedFile",
    "config_hash",
    "experiment_json_schema",
    "known_config_files",
    "list_names",
    "load_experiment",
    "place_in_experiment",
    "place_in_model",
    "to_yaml",
]


def load_experiment(path: str | Path, *, overrides: Sequence[str] = (), limit: int | None = None) -> Experiment:
    """Reads an experiment: a file, or a name in ./configs/experiments or in assay's own.

    overrides: `key=value` with dotted keys, as `--set` takes them (`datasets.needle.limit=4` names a dataset).
    limit: the most samples of each dataset.
    Raises ConfigError with every problem that was found in all files together; no model and no data are read for it.
    """
    if limit is not None and limit < 1:
        raise ConfigError.one(f"must be at least 1, not {limit}", key="--limit")
    file = read_yaml(find_experiment(path))
    _check_kind(file, path)
    changed = apply_overrides(file.data, overrides)
    command_line = Layer(changed.written or None, None)
    experiment = Layers([command_line, Layer(file.data, file)])

    problems: list[Problem] = []
    raw = listed(changed.data)
    written = experiment.validated(ExperimentFile, raw, problems)
    model = engine = None
    with _collected(problems):
        model = load_model(raw.get("model"), experiment, changed.model)
    with _collected(problems):
        engine = load_engine(raw.get("engine", DEFAULT_ENGINE), experiment)
    datasets = Datasets(experiment)
    with _collected(problems):
        datasets.load(raw.get("datasets"), None if model is None else model.config)
    if problems or written is None or model is None or engine is None:
        raise ConfigError(_in_order(problems))
    named = datasets.named(
        written.datasets, sampling=written.sampling, limit=limit, parser=model.config.reasoning_parser
    )
    guided = any(gets_grammar(arm) for arm in written.arms)
    if isinstance(engine, VllmEngine):
        engine = with_backend(engine, named if guided else [], experiment)
    if guided:
        own = engine if isinstance(engine, VllmEngine) else stand_in(engine)
        problems += guide_problems(named, own, experiment)
        if problems:
            raise ConfigError(problems)
    # Which adapters a server has, it says itself once it is asked.
    if isinstance(engine, VllmEngine) and (problems := adapter_problems(named, written.arms, engine, experiment)):
        raise ConfigError(problems)
    groups = datasets.groups | written.groups
    faults = [*arm_faults(written.arms), *repair_faults(written.repair, arms=written.arms, datasets=named)]
    faults += group_faults(groups, datasets=named)
    faults += gate_faults(
        written.gates, known=known_of(datasets=named, groups=groups, arms=written.arms, benchmark=written.benchmark)
    )
    problems = [experiment.problem(fault.keypath, fault.message, fault.suggestion) for fault in faults]
    benchmark, block = written.benchmark, changed.data.get("benchmark")
    if benchmark is not None:
        endpoint = engine if isinstance(engine, EndpointEngine) else None
        problems += benchmark_problems(benchmark, arms=written.arms, endpoint=endpoint, experiment=experiment)
    if problems:
        raise ConfigError(problems)
    return Experiment(
        name=written.name,
        description=written.description,
        model=model,
        engine=engine,
        datasets=named,
        arms=written.arms,
        repair=written.repair,
        groups=groups,
        benchmark=None if benchmark is None else placed(benchmark, experiment, block),
        gates=written.gates,
        max_failed=written.max_failed,
        tags=written.tags,
    )


def _check_kind(file: YamlFile, path: str | Path) -> None:
    """Raises ConfigError for a file of another command."""
    if "base" not in file.data:
        return
    command = "tune" if "tune" in file.data else "sweep"
    raise ConfigError.one(
        f"is a {'tuning' if command == 'tune' else 'sweep'}, made of many runs of the experiment that its `base` names",
        file=file.path,
        line=file.line_of(("base",)),
        suggestion=f"assay {command} {path}",
    )


def place_in_model(path: str | Path, keypath: tuple[str, ...], *, overrides: Sequence[str] = ()) -> Place:
    """Where a user finds a key of the model of an experiment that `load_experiment` has read without a fault."""
    file = read_yaml(find_experiment(path))
    changed = apply_overrides(file.data, overrides)
    experiment = Layers([Layer(changed.written or None, None), Layer(file.data, file)])
    return model_place(changed.data.get("model"), experiment, changed.model, keypath)


def place_in_experiment(path: str | Path, keypath: tuple[str, ...], *, overrides: Sequence[str] = ()) -> Place:
    """Where a user finds a key of an experiment that `load_experiment` has read without a fault, or would write it."""
    file = read_yaml(find_experiment(path))
    changed = apply_overrides(file.data, overrides)
    return Layers([Layer(changed.written or None, None), Layer(file.data, file)]).place(keypath)


def find_experiment(path: str | Path) -> Path:
    """The file of an experiment given by path or by name. Raises ConfigError with the nearest name."""
    reference = str(path)
    if is_path(reference) or is_file(Path(reference)):
        return relative_to_here(Path(reference))
    return find_config("experiment", reference, base=Path(), beside=None, at=Place())


def load_engine(raw: Any, experiment: Layers) -> VllmEngine | EndpointEngine | None:
    """The engine that an experiment asks for, laid over the files that it extends.

    None where `raw` is no engine at all, which the experiment's own validation reports.
    Raises ConfigError with every problem.
    """
    if isinstance(raw, str):
        at = experiment.origin(("engine",))
        return _engine_over([], raw, at, experiment.home, experiment.place(("engine",)))
    if not isinstance(raw, dict):
        return None
    layers = [
        Layer(_long_form(layer.data), layer.file, layer.prefix)
        for layer in (layer.inside("engine") for layer in experiment.layers)
        if isinstance(layer.data, dict | str)
    ]
    own = Layers(layers)
    at = own.origin(("extends",))
    return _engine_over(layers, raw.get("extends"), at, experiment.home, own.place(("extends",)), top=raw)


def _engine_over(
    layers: list[Layer], extends: Any, origin: Layer, beside: Path, at: Place, top: dict[str, Any] | None = None
) -> VllmEngine | EndpointEngine | None:
    """Lays `top` over the chain of files that `extends` begins. origin, at: where `extends` itself was written."""
    blocks = [] if top is None else [_long_form(top)]
    seen: list[Path] = []
    while extends is not None:
        if not isinstance(extends, str):
            raise at.error(f"must be the name or path of an engine, not {shown(extends)}")
        itself = None if origin.file is None else origin.file.path
        path = find_config("engine", extends, base=origin.base, beside=beside, at=at, not_itself=itself)
        if path in seen:
            chain = " -> ".join(str(each) for each in [*seen[seen.index(path) :], path])
            raise at.error(f"extends itself: {chain}")
        seen.append(path)
        file = read_yaml(path)
        origin = Layer(_long_form(file.data), file)
        layers = [*layers, origin]
        blocks.append(origin.data)
        extends, beside, at = origin.data.get("extends"), path.parent, Layers([origin]).place(("extends",))
    complete: dict[str, Any] = {}
    for block in reversed(blocks):
        complete = merged(complete, block)
    complete.pop("extends", None)
    problems = [*_unknown_kind(complete, Layers(layers)), *_several_backends(complete, Layers(layers))]
    if not problems and complete.get("kind") == "endpoint":
        endpoint = Layers(layers).validated(EndpointEngine, complete, problems)
        if endpoint is None:
            raise ConfigError(problems)
        return endpoint
    engine = None if problems else Layers(layers).validated(VllmEngine, complete, problems)
    if problems or engine is None:
        raise ConfigError(problems)
    return whole_engine(engine, Layers(layers))


def _unknown_kind(engine: dict[str, Any], layers: Layers) -> list[Problem]:
    kind = engine.get("kind", "vllm")
    if kind in ("vllm", "endpoint"):
        return []
    return [
        layers.problem(
            ("kind",), f"must be `vllm` or `endpoint`, not {shown(kind)}", did_you_mean(str(kind), ("vllm", "endpoint"))
        )
    ]


def _several_backends(engine: dict[str, Any], layers: Layers) -> list[Problem]:
    """The fault of a list of grammar backends, as a user writes it who wants to compare them."""
    grammar = engine.get("grammar")
    backends = grammar.get("backend") if isinstance(grammar, dict) else None
    if not isinstance(backends, list):
        return []
    names = ", ".join(map(str, backends[:4])) or "xgrammar, guidance"
    return [
        layers.problem(
            ("grammar", "backend"),
            "must be one backend, not a list: an engine has one for all of its requests",
            f"for several, `assay sweep` with `matrix: {{engine.grammar.backend: [{names}]}}`, as in grammar-backends",
        )
    ]


def _long_form(block: Any) -> Any:
    """`vllm` and `cudagraph: auto` written out, so that blocks merge key by key."""
    if isinstance(block, str):
        return {"extends": block}
    if isinstance(block, dict) and isinstance(block.get("cudagraph"), str):
        return {**block, "cudagraph": {"mode": block["cudagraph"]}}
    return block


@contextmanager
def _collected(problems: list[Problem]) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        problems += error.problems


def _in_order(problems: list[Problem]) -> list[Problem]:
    """Each problem once: file by file, as they were first met, and down each file."""
    files = list(dict.fromkeys(problem.file for problem in problems))
    return sorted(dict.fromkeys(problems), key=lambda problem: (files.index(problem.file), problem.line or 0))
