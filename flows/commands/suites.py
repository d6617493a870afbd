"""`assay suites`: the ready datasets of published benchmarks, and what each states."""

from typing import Any

from rich.markup import escape
from rich.table import Table

from flows.commands.output import print_json, stdout_console
from schemas.errors import ConfigError
from tasks.config.nearest import did_you_mean_or_list
from tasks.config.suites import LoadedSuite, find_suite, load_suite, readable_suites, suite_names
from tasks.config.yaml_file import read_yaml

_TEXTS = ("description", "source", "license", "convention", "comparable_with", "folder")


def list_suites(*, as_json: bool) -> None:
    """Every suite that an experiment can name here, a line each. Raises ConfigError for one that has a fault."""
    suites = list(readable_suites())
    lost = sorted(set(suite_names()) - {suite.name for suite in suites})
    for name in lost:
        _loaded(name)
    if as_json:
        print_json({"suites": [_as_json(suite) for suite in suites]})
        return
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0))
    for column in ("suite", "datasets", "licence", "source", "prompt convention"):
        table.add_column(column, overflow="fold", justify="right" if column == "datasets" else "left")
    for suite in suites:
        texts = suite.suite
        table.add_row(
            suite.name,
            str(len(suite.members)),
            escape(texts.license),
            escape(texts.source),
            escape(texts.convention),
        )
    console = stdout_console()
    console.print(table)
    console.print("all that one states, and its datasets: assay suites NAME", markup=False)


def show_suite(*, name: str, as_json: bool) -> None:
    """All that one suite states, its datasets and its groups. Raises ConfigError with the nearest name."""
    suite = _loaded(name)
    if as_json:
        print_json(_as_json(suite))
        return
    console = stdout_console()
    for key in _TEXTS:
        text = getattr(suite.suite, key)
        if text is not None:
            console.print(f"{key.replace('_', ' '):<16}{text}", markup=False, soft_wrap=True)
    names = ", ".join(member.name for member in suite.members)
    console.print(f"{'datasets':<16}{names}", markup=False, soft_wrap=True)
    for group, means in suite.groups.items():
        words = "weighing by size" if means.weight == "size" else "weighing alike"
        console.print(
            f"{'group':<16}{group}: {means.metric} of {len(means.datasets)} datasets, {words}",
            markup=False,
            soft_wrap=True,
        )


def _loaded(name: str) -> LoadedSuite:
    path = find_suite(name)
    if path is None:
        hint = did_you_mean_or_list(name, suite_names())
        raise ConfigError.one(f"there is no suite `{name}`", suggestion=hint)
    return load_suite(read_yaml(path))


def _as_json(suite: LoadedSuite) -> dict[str, Any]:
    return {
        "name": suite.name,
        "path": str(suite.path),
        **{key: getattr(suite.suite, key) for key in _TEXTS},
        "datasets": [member.name for member in suite.members],
        "groups": {name: group.model_dump(mode="json") for name, group in suite.groups.items()},
    }
