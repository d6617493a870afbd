"""The datasets of an experiment: by name or by path, of a suite or alone, with what the experiment changes of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from schemas.adapter import BASE
from schemas.dataset import Dataset, NamedDataset
from schemas.engine import Sampling
from schemas.errors import ConfigError, Problem
from schemas.experiment import DatasetUse, Group
from schemas.model import Model
from tasks.config.check import dataset_problems, model_and_dataset_problems
from tasks.config.explain import NAME_RULE
from tasks.config.judges import with_judge_models
from tasks.config.layers import Layer, Layers
from tasks.config.locate import absolute_path, find_config, is_name
from tasks.config.nearest import did_you_mean
from tasks.config.sources import KeyPath, given_folder, has_relative_path, with_absolute_paths, with_given_rows
from tasks.config.suites import (
    LoadedSuite,
    Member,
    find_suite,
    is_suite,
    load_suite,
    readable_suites,
    suite_names,
    suite_of,
)
from tasks.config.yaml_file import read_yaml
from tasks.score.reasoning import AFTER, chosen_parser


@dataclass(frozen=True, kw_only=True)
class _Found:
    """A dataset that an entry stands for, checked and with its paths whole."""

    name: str
    path: Path
    dataset: Dataset


def _parser(dataset: Dataset, otherwise: str | None) -> str | None:
    """What tells the answer from what is before it: a guide's own marker, else the dataset's or the model's parser."""
    after = None if dataset.guide is None else dataset.guide.after
    if after not in (None, "reasoning"):
        return f"{AFTER}{after}"
    return chosen_parser(dataset.reasoning_parser, otherwise)


class Datasets:
    """The datasets of one experiment, each read once. groups: those that its suites bring, by name."""

    def __init__(self, experiment: Layers) -> None:
        self.groups: dict[str, Group] = {}
        self._experiment = experiment
        self._loaded: dict[str, list[_Found]] = {}

    def load(self, entries: Any, model: Model | None) -> None:
        """Reads and checks every dataset that `entries` (the raw value of `datasets`) uses.

        model: what is to answer them; None where it could not be read itself.
        Raises ConfigError with the problems of all of them.
        """
        problems: list[Problem] = []
        names: dict[str, str] = {}
        for index, entry in enumerate(entries if isinstance(entries, list) else []):
            use = entry.get("use") if isinstance(entry, dict) else entry
            here = ("datasets", index, "use") if isinstance(entry, dict) else ("datasets", index)
            if not isinstance(use, str) or use in self._loaded:
                continue  # the experiment's own validation has reported it
            try:
                found = self._load(_valid_use(entry, use), ("datasets", index), here, model)
            except ConfigError as error:
                problems += error.problems
                continue
            for name in (each.name for each in found):
                if name in names:
                    message = f"`{use}` and `{names[name]}` are both named `{name}`: rename one of the files"
                    if len(found) > 1 or len(self._loaded[names[name]]) > 1:
                        message = f"`{use}` and `{names[name]}` both stand for `{name}`: take one of the two"
                    problems.append(self._experiment.problem(here, message))
                names.setdefault(name, use)
        if problems:
            raise ConfigError(problems)

    def named(
        self, uses: list[str | DatasetUse], *, sampling: Sampling, limit: int | None, parser: str | None = None
    ) -> list[NamedDataset]:
        """The datasets as the run uses them, complete. Only after `load` found no fault. parser: the model's."""
        entries = [DatasetUse(use=use) if isinstance(use, str) else use for use in uses]
        return [self._named(use, found, sampling, limit, parser) for use in entries for found in self._loaded[use.use]]

    def _named(
        self, use: DatasetUse, found: _Found, sampling: Sampling, limit: int | None, parser: str | None
    ) -> NamedDataset:
        dataset = found.dataset
        own_limit = dataset.limit if use.limit is None else use.limit
        limits = [number for number in (own_limit, limit) if number is not None]
        max_tokens = dataset.max_tokens if use.max_tokens is None else use.max_tokens
        adapter = dataset.adapter if use.adapter is None else use.adapter
        return NamedDataset(
            name=found.name,
            config=dataset.model_copy(
                update={
                    "limit": min(limits) if limits else None,
                    "max_tokens": max_tokens,
                    "adapter": None if adapter == BASE else adapter,
                }
            ),
            sampling=sampling.model_copy(
                update={
                    "max_tokens": sampling.max_tokens if max_tokens is None else max_tokens,
                    "stop": dataset.stop or sampling.stop,
                }
            ),
            reasoning_parser=_parser(dataset, parser),
            path=str(absolute_path(found.path)),
        )

    def _load(self, use: DatasetUse, entry: KeyPath, here: KeyPath, model: Model | None) -> list[_Found]:
        """What an entry stands for. entry: its key path; here: that of its name."""
        path, suite, only = self._file(use.use, here)
        members = [member for member in suite.members if only in (None, member.name)] if suite else [_alone(path)]
        if len(members) > 1:
            for key in ("source", "few_shot_source"):
                if getattr(use, key) is not None:
                    raise self._experiment.place((*entry, key)).error(
                        f"`{use.use}` is a suite of {len(members)} datasets, which have no rows in common",
                        f"give `folder`, or one of them: `{{use: {members[0].name}, {key}: …}}`",
                    )
        problems: list[Problem] = []
        found = []
        for member in members:
            try:
                dataset = self._checked(member, suite, use, entry=entry, model=model, alone=len(members) == 1)
                found.append(_Found(name=member.name, path=path, dataset=dataset))
            except ConfigError as error:
                problems += error.problems
        if problems:
            raise ConfigError(list(dict.fromkeys(problems)))
        if suite is not None and only is None:
            twice = sorted(self.groups.keys() & suite.groups.keys())
            if twice:
                raise self._experiment.place(here).error(f"another suite brings a group `{twice[0]}` too")
            self.groups |= suite.groups
        self._loaded[use.use] = found
        return found

    def _file(self, use: str, here: KeyPath) -> tuple[Path, LoadedSuite | None, str | None]:
        """The file of a name or path; its suite if it is one, and which dataset of that alone is meant."""
        at = self._experiment.place(here)
        origin = self._experiment.origin(here)
        itself = None if origin.file is None else origin.file.path
        try:
            path = find_config("dataset", use, base=origin.base, beside=self._experiment.home, at=at, not_itself=itself)
        except ConfigError as none:
            named = find_suite(use) if is_name(use) else None
            if named is not None:
                return named, load_suite(read_yaml(named)), None
            suite = suite_of(use) if is_name(use) else None
            if suite is not None:
                return suite.path, suite, None if len(suite.members) == 1 else use
            raise _with_suites_named(none, use) from none
        if not is_name(path.stem):
            raise at.error(f"the dataset's file must have {NAME_RULE}, not `{path.name}`")
        file = read_yaml(path)
        return path, load_suite(file) if is_suite(file.data) else None, None

    def _checked(
        self, member: Member, suite: LoadedSuite | None, use: DatasetUse, *, entry: KeyPath, model: Model | None,
        alone: bool,
    ) -> Dataset:  # fmt: skip
        layers = member.layers
        problems: list[Problem] = []
        dataset = layers.validated(Dataset, member.data, problems)
        if dataset is None:
            raise ConfigError(problems)
        problems += dataset_problems(dataset, layers)
        if model is not None:
            problems += model_and_dataset_problems(model, dataset, layers)
        try:
            dataset = with_given_rows(dataset, use, here=entry, experiment=self._experiment, alone=alone)
            data = None if use.folder is None else given_folder(use.folder, here=entry, experiment=self._experiment)
            lacking = has_relative_path(dataset.source) or has_relative_path(dataset.few_shot.source)
            if suite is not None and data is None and lacking:
                what = suite.suite.folder or "the files that its sources name"
                raise self._experiment.place(entry).error(
                    f"`{suite.name}` reads local files: say where they lie",
                    f"write `{{use: {use.use}, folder: …}}`; the folder holds {what}",
                )
            dataset = with_judge_models(with_absolute_paths(dataset, layers, data=data), layers)
        except ConfigError as error:
            problems += error.problems
        if problems:
            raise ConfigError(problems)
        return dataset


def _alone(path: Path) -> Member:
    file = read_yaml(path)
    return Member(name=path.stem, data=file.data, layers=Layers([Layer(file.data, file)]))


def _valid_use(entry: Any, use: str) -> DatasetUse:
    """The entry; without what is wrong with it, which the experiment's own validation reports."""
    if isinstance(entry, dict):
        try:
            return DatasetUse.model_validate(entry, strict=True)
        except ValidationError:
            return DatasetUse(use=use)
    return DatasetUse(use=use)


def _with_suites_named(none: ConfigError, use: str) -> ConfigError:
    """The error for a name that nothing has, which may be meant for a suite's or that of one of its datasets."""
    problems: Sequence[Problem] = none.problems
    if not is_name(use) or any((problem.suggestion or "").startswith("did you mean") for problem in problems):
        return none
    known = [*suite_names(), *(member.name for suite in readable_suites() for member in suite.members)]
    hint = did_you_mean(use, known)
    return none if hint is None else ConfigError([replace(problem, suggestion=hint) for problem in problems])
