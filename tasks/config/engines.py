"""The engine of an experiment: its paths made whole, and what the installed vLLM and the files say to its words."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from schemas.adapter import BASE
from schemas.arm import Arm, NamedArm
from schemas.dataset import NamedDataset
from schemas.engine import VllmEngine
from schemas.errors import ConfigError, Problem
from tasks.config.disk import is_file
from tasks.config.judges import judge_model
from tasks.config.layers import Layer, Layers
from tasks.config.locate import path_from, relative_to_here
from tasks.config.nearest import did_you_mean, did_you_mean_or_list
from tasks.config.yaml_file import KeyPath
from tasks.engine.arguments import argument_faults, runs_code
from tasks.engine.installed import InstalledVllm, installed_vllm
from tasks.model.adapter import check_adapter_folder

NOT_FOR_TEXT = ("TORCH_SDPA", "CUSTOM", "NO_ATTENTION")
"""Names in vLLM's list of attention backends that no text model can ask for."""
_NEEDS_CODE = "runs code, which a config may only do with `allow_code: true` in the engine's file"
_FROM_FILE = "is taken only from a file, since it lets a config run code"


def whole_engine(engine: VllmEngine, layers: Layers) -> VllmEngine:
    """The engine with its paths absolute and its speculating model resolved. layers: the files that it came from.

    Raises ConfigError with every problem: code that is not allowed, a path that leads nowhere, a word or an argument
    that the installed vLLM does not know (with the nearest that it does)."""
    problems = list(_untrusted(engine, layers))
    if problems:
        raise ConfigError(problems)
    changes: dict[str, Any] = {}
    if engine.python is not None:
        changes["python"] = _interpreter(engine.python, layers, problems)
    if engine.compile_cache != "auto":
        changes["compile_cache"] = str(_path(engine.compile_cache, ("compile_cache",), layers))
    changes["adapters"] = [
        adapter.model_copy(update={"path": _adapter_folder(adapter.path, index, layers, problems)})
        for index, adapter in enumerate(engine.adapters)
    ]
    if engine.speculative.model is not None:
        model = _speculating_model(engine.speculative.model, layers, problems)
        changes["speculative"] = engine.speculative.model_copy(update={"model": model})
    if "auto_map" in engine.hf_overrides and not engine.allow_code:
        problems.append(layers.problem(("hf_overrides", "auto_map"), _NEEDS_CODE))
    if not problems and _asks_of_vllm(engine):
        problems += _vllm_problems(engine, installed_vllm(changes.get("python")), layers)
    if problems:
        raise ConfigError(problems)
    return engine.model_copy(update=changes)


def adapter_problems(
    datasets: Sequence[NamedDataset], arms: Sequence[Arm], engine: VllmEngine, at: Layers
) -> list[Problem]:
    """Datasets and arms that ask for an adapter which the engine does not have."""
    known = [adapter.name for adapter in engine.adapters]
    return [
        at.problem(
            ("arms", index, "adapter"),
            f"the engine has no adapter `{arm.adapter:.60}`",
            did_you_mean_or_list(arm.adapter, known) or "list it under `engine.adapters`",
        )
        for index, arm in enumerate(arms)
        if isinstance(arm, NamedArm) and arm.adapter not in (BASE, *known)
    ] + [
        at.problem(
            ("datasets", index),
            f"`{dataset.name}` asks for the adapter `{dataset.config.adapter}`, which the engine does not have",
            did_you_mean_or_list(dataset.config.adapter, known) or "list it under `engine.adapters`",
        )
        for index, dataset in enumerate(datasets)
        if dataset.config.adapter not in (None, BASE, *known)
    ]


def _untrusted(engine: VllmEngine, layers: Layers) -> Iterator[Problem]:
    """What runs code and was not written in a file, or not allowed there."""
    if engine.allow_code and _overridden(("allow_code",), layers):
        yield layers.problem(("allow_code",), _FROM_FILE)
    if engine.python is not None:
        if _overridden(("python",), layers):
            yield layers.problem(("python",), _FROM_FILE)
        elif not engine.allow_code:
            yield layers.problem(("python",), _NEEDS_CODE)
    for name, value in engine.extra.items():
        if runs_code(name, value) and _overridden(("extra", name), layers):
            yield layers.problem(("extra", name), _FROM_FILE)


def _overridden(keypath: KeyPath, layers: Layers) -> bool:
    """Whether an override has written the key, or a block around it or a key inside it."""
    for layer in layers.layers:
        if layer.file is not None:
            continue
        data: Any = layer.data
        for part in keypath:
            if not isinstance(data, dict) or part not in data:
                break
            data = data[part]
        else:
            return True
    return False


def _path(text: str, keypath: KeyPath, layers: Layers) -> Path:
    return path_from(text, base=layers.origin(keypath).base, at=layers.place(keypath))


def _interpreter(text: str, layers: Layers, problems: list[Problem]) -> str:
    python = _path(text, ("python",), layers)
    if not is_file(python) or not os.access(python, os.X_OK):
        message = f"must be the path of a Python interpreter; {relative_to_here(python)} is none"
        problems.append(layers.problem(("python",), message, "as in ../other/.venv/bin/python"))
        return str(python)
    try:
        if installed_vllm(str(python)) is None:
            problems.append(layers.problem(("python",), f"the environment of {python} has no vLLM that can be read"))
    except ConfigError as error:
        problems += [layers.problem(("python",), each.message, each.suggestion) for each in error.problems]
    return str(python)


def _adapter_folder(text: str, index: int, layers: Layers, problems: list[Problem]) -> str:
    keypath = ("adapters", index, "path")
    folder = _path(text, keypath, layers)
    try:
        check_adapter_folder(relative_to_here(folder))
    except ConfigError as error:
        problems += [layers.problem(keypath, each.message, each.suggestion) for each in error.problems]
    return str(folder)


def _speculating_model(model: str | dict[str, Any], layers: Layers, problems: list[Problem]) -> Any:
    keypath = ("speculative", "model")
    base = layers.origin(keypath)
    at = Layers([Layer({"model": model}, base.file, (*base.prefix, "speculative"))])
    try:
        return judge_model(model, layers=at).model_dump(mode="json", by_alias=True)
    except ConfigError as error:
        problems += error.problems
        return model


def _asks_of_vllm(engine: VllmEngine) -> bool:
    """Whether there is anything that only vLLM's source can tell: reading it takes half a second."""
    words = (engine.memory.kv_dtype, engine.quantization, engine.attention_backend)
    return bool(engine.extra) or engine.speculative.method == "suffix" or any(word != "auto" for word in words)


def _vllm_problems(engine: VllmEngine, installed: InstalledVllm | None, layers: Layers) -> Iterator[Problem]:
    for fault in argument_faults(engine.extra, installed=installed, allow_code=engine.allow_code):
        yield layers.problem(("extra", *fault.keypath), fault.message, fault.suggestion)
    if installed is None:
        return
    backends = [name for name in installed.attention_backends if name not in NOT_FOR_TEXT]
    for keypath, word, known in (
        (("memory", "kv_dtype"), engine.memory.kv_dtype, installed.kv_dtypes),
        (("quantization",), engine.quantization, ("auto", "none", *installed.quantizations)),
        (("attention_backend",), engine.attention_backend, ("auto", *backends)),
    ):
        if len(known) > 2 and word not in known:
            hint = did_you_mean(word, known) or f"such as {', '.join(known[:8])}"
            yield layers.problem(keypath, f"the installed vLLM does not know `{word}`", hint)
    if engine.speculative.method == "suffix" and not installed.has("arctic-inference"):
        message = "the method `suffix` needs the package arctic-inference, which is not installed"
        yield layers.problem(("speculative", "method"), message, "pip install arctic-inference, or `ngram`")
