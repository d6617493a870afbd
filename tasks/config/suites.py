"""Suites: what a file of configs/suites stands for, and which datasets its template makes."""

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError, Problem
from schemas.experiment import Group
from schemas.suite import Suite
from tasks.config.explain import NAME_RULE
from tasks.config.layers import Layer, Layers
from tasks.config.locate import is_name, known_config_files
from tasks.config.nearest import did_you_mean_or_list
from tasks.config.yaml_file import YamlFile, read_yaml

_PLACE = re.compile(r"\[\[([a-z_]+)\]\]")


@dataclass(frozen=True, kw_only=True)
class Member:
    """One dataset of a suite, not checked yet. layers: where a user finds its keys."""

    name: str
    data: Any
    layers: Layers


@dataclass(frozen=True, kw_only=True)
class LoadedSuite:
    """A suite with its template filled in. groups: their datasets written out, so that they mean the suite's alone."""

    name: str
    path: Path
    suite: Suite
    members: list[Member]
    groups: dict[str, Group]


def is_suite(data: Any) -> bool:
    """Whether a YAML file's data are those of a suite rather than of a dataset."""
    return isinstance(data, dict) and ("template" in data or isinstance(data.get("datasets"), dict))


def load_suite(file: YamlFile) -> LoadedSuite:
    """The suite of a file. Raises ConfigError with every fault of it; its datasets are not checked."""
    layers = Layers([Layer(file.data, file)])
    problems: list[Problem] = []
    suite = layers.validated(Suite, file.data, problems)
    if suite is None:
        raise ConfigError(problems)
    members = _members(suite, file, problems)
    names = [member.name for member in members]
    for name in names:
        if not is_name(name):
            problems.append(layers.problem(("name",), f"a dataset must have {NAME_RULE}, not `{name}`"))
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        problems.append(layers.problem(("each",), f"two datasets are named `{twice[0]}`"))
    for name, group in suite.groups.items():
        for index, pattern in enumerate(group.datasets):
            if not fnmatch.filter(names, pattern):
                here = ("groups", name, "datasets", index)
                hint = did_you_mean_or_list(pattern, names)
                problems.append(layers.problem(here, f"the suite has no dataset `{pattern}`", hint))
    if problems:
        raise ConfigError(problems)
    groups = {name: group.model_copy(update={"datasets": group.members(names)}) for name, group in suite.groups.items()}
    return LoadedSuite(name=file.path.stem, path=file.path, suite=suite, members=members, groups=groups)


def find_suite(name: str) -> Path | None:
    """The file of a suite's name: the project's own before the packaged one."""
    return next((path for path in known_config_files("suite") if path.stem == name), None)


def suite_of(dataset: str) -> LoadedSuite | None:
    """The suite that has a dataset of this name. One that cannot be read has none."""
    for suite in readable_suites():
        if any(member.name == dataset for member in suite.members):
            return suite
    return None


def readable_suites() -> Iterable[LoadedSuite]:
    """The suites that can be used here, by name; those with a fault are left out, since their own use reports it."""
    for path in known_config_files("suite"):
        try:
            yield load_suite(read_yaml(path))
        except ConfigError:
            continue


def suite_names() -> list[str]:
    """The names of the suites that can be used here."""
    return [path.stem for path in known_config_files("suite")]


def _members(suite: Suite, file: YamlFile, problems: list[Problem]) -> list[Member]:
    own = {"license": suite.license, "description": suite.description}
    if suite.datasets is not None:
        return [
            Member(name=name, data={**own, **data}, layers=Layers([Layer(data, file, ("datasets", name))]))
            for name, data in suite.datasets.items()
        ]
    members = []
    unknown: dict[str, str | None] = {}
    for words in suite.each or []:
        data = _filled(suite.template, words, unknown)
        layers = Layers([Layer(data, file, ("template",))])
        members.append(Member(name=str(_filled(suite.name, words, unknown)), data={**own, **data}, layers=layers))
    whole = Layers([Layer(file.data, file)])
    for word, hint in unknown.items():
        problems.append(whole.problem(("template",), f"`[[{word}]]` is filled in by nothing in `each`", hint))
    return members


def _filled(value: Any, words: Mapping[str, str | int], unknown: dict[str, str | None]) -> Any:
    """The value with every `[[word]]` filled in; one that stands alone keeps its type. unknown: gets the rest."""
    if isinstance(value, dict):
        return {key: _filled(item, words, unknown) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, words, unknown) for item in value]
    if not isinstance(value, str):
        return value
    for word in _PLACE.findall(value):
        if word not in words:
            unknown.setdefault(word, did_you_mean_or_list(word, words))
            return value
    alone = _PLACE.fullmatch(value)
    return words[alone[1]] if alone else _PLACE.sub(lambda found: str(words[found[1]]), value)
