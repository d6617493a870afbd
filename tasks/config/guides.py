"""The guide of a dataset: its files and its class resolved, and what the engine's backend says to it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schemas.dataset import Dataset, NamedDataset
from schemas.engine import VllmEngine
from schemas.errors import ConfigError, Problem
from schemas.guide import Guide
from tasks.config.disk import is_file, names_in
from tasks.config.layers import Layers
from tasks.config.locate import Place, packaged_configs, path_from, relative_to_here
from tasks.config.nearest import did_you_mean
from tasks.engine.installed import installed_vllm
from tasks.guide.kinds.pydantic_class import NoClass, schema_of_class
from tasks.guide.kinds.takes import BACKENDS, backend_fault, takers
from tasks.score.reasoning import NO_PARSER, closes

_NEEDS_CODE = "imports a module, which a config may only do with `allow_code: true` in the same guide"
_FROM_FILE = "is taken only from a file, since it lets a config run code"


def whole_guide(guide: Guide, layers: Layers, *, home: Path) -> Guide:
    """The guide with its paths absolute and its class's schema in place of the class.

    Raises ConfigError for a file that is not there, and for a class that may not, or cannot, be imported."""
    changes: dict[str, Any] = {}
    for name, value in (("schema", guide.schema_), ("grammar_file", guide.grammar_file), ("tools", guide.tools)):
        if isinstance(value, str):
            found = _file(value, home, layers.place(("guide", name)))
            changes["schema_" if name == "schema" else name] = str(found)
    if guide.schema_class is not None or guide.allow_code:
        for name in ("schema_class", "allow_code"):
            if any(layer.file is None and _writes(layer.data, ("guide", name)) for layer in layers.layers):
                raise ConfigError([layers.problem(("guide", name), _FROM_FILE)])
    if guide.schema_class is not None:
        if not guide.allow_code:
            raise ConfigError([layers.problem(("guide", "schema_class"), _NEEDS_CODE)])
        try:
            schema = schema_of_class(guide.schema_class, folder=home)
        except NoClass as error:
            message = f"{guide.schema_class} cannot be used: {error}"
            raise ConfigError([layers.problem(("guide", "schema_class"), message)]) from error
        changes |= {"schema_": schema, "schema_class": None, "allow_code": False}
    return guide.model_copy(update=changes)


def _writes(data: Any, keypath: Sequence[str]) -> bool:
    for part in keypath:
        if not isinstance(data, dict) or part not in data:
            return False
        data = data[part]
    return True


def _file(reference: str, base: Path, at: Place) -> Path:
    """A guide's file: beside the dataset, else in the folder above it (`configs`), else in assay's own configs."""
    folders = [base, base / "..", packaged_configs()]
    paths = list(dict.fromkeys(path_from(reference, base=folder, at=at) for folder in folders))
    for path in paths:
        if is_file(path):
            return path
    hint = did_you_mean(paths[0].name, names_in(paths[0].parent))
    raise at.error(f"there is no file {relative_to_here(paths[0])}", hint)


def after_problems(dataset: Dataset, at: Layers) -> list[Problem]:
    """A guide's own marker beside a parser that the dataset names."""
    guide = dataset.guide
    if guide is None or guide.after in (None, "reasoning") or dataset.reasoning_parser in (None, NO_PARSER):
        return []
    message = f"`after: {guide.after}` ends what comes before the answer, and so does the dataset's `reasoning_parser`"
    return [at.problem(("guide", "after"), message, "`after: reasoning`, or no `reasoning_parser`")]


def guide_problems(datasets: Sequence[NamedDataset], engine: VllmEngine, experiment: Layers) -> list[Problem]:
    """Guides that the engine's backend does not take, and reasoning that leaves no room for them.

    Only for an experiment with a guided arm."""
    problems = []
    broken = engine_fault(engine) if any(dataset.config.guide is not None for dataset in datasets) else None
    if broken is not None:
        able = [name for name in BACKENDS if all(name in takers(guide) for guide in _guides(datasets))]
        usable = [name for name in able if name != engine.grammar.backend]
        hint = f"`engine.grammar.backend: {usable[0]}`" if usable else "`arms: [free]`"
        problems.append(experiment.problem(("engine", "grammar", "backend"), broken, hint))
    for index, dataset in enumerate(datasets):
        guide = dataset.config.guide
        if guide is None:
            continue
        if guide.after is None and dataset.reasoning_parser is not None:
            problems.append(_no_room(dataset, experiment))
        elif guide.after is not None:
            problems += _unmarked(dataset, experiment, index)
        fault = backend_fault(guide, backend=engine.grammar.backend)
        if fault is not None:
            able = takers(guide)
            hint = f"`engine.grammar.backend: {able[0]}`" if able else None
            problems.append(experiment.problem(("datasets", index), f"`{dataset.name}`: {fault}", hint))
    return problems


def engine_fault(engine: VllmEngine) -> str | None:
    """Why the installed vLLM cannot load the engine's grammar backend at all, or None. Read from files: vLLM is not
    imported. Raises ConfigError for an `engine.python` that does not run."""
    if engine.grammar.backend != "lm-format-enforcer":
        return None
    installed = installed_vllm(engine.python)
    if installed is None:
        return None
    gone = installed.lacks_for("lmformatenforcer.integrations.vllm", of=("vllm", "transformers"))
    gone = gone or installed.lacks_for("lmformatenforcer.integrations.transformers", of=("vllm", "transformers"))
    if gone is None:
        return None
    version = installed.version_of("lm-format-enforcer") or ""
    return (
        f"vLLM {installed.version} cannot load lm-format-enforcer {version}: it imports `{gone}`, which is not there "
        "any more, so every guided request would fail"
    ).replace("  ", " ")


def _guides(datasets: Sequence[NamedDataset]) -> list[Guide]:
    return [dataset.config.guide for dataset in datasets if dataset.config.guide is not None]


def with_backend(engine: VllmEngine, datasets: Sequence[NamedDataset], experiment: Layers) -> VllmEngine:
    """The engine with one backend in place of `auto`: the first that takes every guide.

    Raises ConfigError where none does, with what each guide is taken by."""
    if engine.grammar.backend != "auto":
        return engine
    guides = {each.name: each.config.guide for each in datasets if each.config.guide is not None}
    able = [name for name in BACKENDS if all(name in takers(guide) for guide in guides.values())]
    if not able:
        each = "; ".join(f"`{name}` by {', '.join(takers(guide)) or 'none'}" for name, guide in guides.items())
        message = f"no backend takes the guides of all datasets, and an engine has one: {each}"
        hint = "an experiment for each backend"
        raise ConfigError([experiment.problem(("engine", "grammar", "backend"), message, hint)])
    grammar = engine.grammar.model_copy(update={"backend": able[0]})
    return engine.model_copy(update={"grammar": grammar})


def _no_room(dataset: NamedDataset, experiment: Layers) -> Problem:
    message = (
        f"a guided answer obeys its grammar from its first token, so that there is no room for reasoning before it: "
        f"`{dataset.name}` has a guide and the reasoning parser `{dataset.reasoning_parser}`"
    )
    hint = "`after: reasoning` in the guide, `arms: [free]`, or `reasoning_parser: none` in the dataset"
    return experiment.problem(("arms",), message, hint)


def _unmarked(dataset: NamedDataset, experiment: Layers, index: int) -> list[Problem]:
    """A guide that comes after reasoning of which nobody knows how it ends."""
    if dataset.reasoning_parser is None:
        message = f"`{dataset.name}` has a guide with `after: reasoning`, and no reasoning parser says how that ends"
        hint = "`reasoning_parser: think_tags` in the dataset or the model, or a text in `after`"
        return [experiment.problem(("datasets", index), message, hint)]
    if closes(dataset.reasoning_parser) is None:
        name = dataset.reasoning_parser
        message = f"`{dataset.name}`: the reasoning parser `{name}` does not say what ends the reasoning"
        hint = "give it an attribute `closes`, or write the text in the guide's `after`"
        return [experiment.problem(("datasets", index), message, hint)]
    return []
