"""The pages say what is so: links lead somewhere, commands parse, YAML is valid, tables of names are complete."""

import ast
import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import BaseModel

from flows.cli import app
from flows.commands.inspect import validate_files
from schemas.corpus import CorpusFile
from schemas.dataset import Dataset
from schemas.engine import VllmEngine
from schemas.experiment import ExperimentFile
from schemas.gate import Gate
from schemas.model import Model
from schemas.sample import Response
from schemas.suite import Suite
from schemas.sweep import SweepFile
from schemas.tune import Tune, TuneFile
from tasks.config.yaml_file import read_yaml
from tasks.gate.stage import JUNIT, MARKDOWN
from tasks.record.timing import LATENCIES, PERCENTILES
from tasks.score.aggregate import aggregate_form
from tasks.score.registry import builtin_names, metric
from warehouse.query import query
from warehouse.schema import TABLES
from warehouse.views import definitions

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
FENCED = re.compile(r"^(?P<indent> *)```(?P<info>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
OURS = re.compile(r"(?:configs|docs|flows|requirements|schemas|tasks|tests|warehouse)/[\w./-]*|Makefile|\.ci/run")
NOT_THERE = ("warehouse/data", "configs/experiments/mine.yaml", "tasks/score/metrics/starts_with.py")
"""Made by runs, or by the reader."""
YAML_KINDS: dict[str, type[BaseModel]] = {
    "experiment": ExperimentFile,
    "dataset": Dataset,
    "model": Model,
    "suite": Suite,
    "sweep": SweepFile,
    "tuning": TuneFile,
    "corpus": CorpusFile,
}
WHOLE = ("getting-started.md", "tutorial.md", "how-to/add-a-dataset.md")
"""Pages whose blocks are a whole experiment."""
SQL = re.compile(r"(?:SELECT|FROM|WITH|DESCRIBE|SUMMARIZE|PIVOT)\b", re.IGNORECASE)

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def blocks(page: Path, word: str) -> list[tuple[list[str], str]]:
    """The fenced blocks whose first line begins with the word: its other words, and the block's text."""
    text = page.read_text("utf-8")
    found = [(match["info"].split(), textwrap.dedent(match["text"])) for match in FENCED.finditer(text)]
    return [(info[1:], text) for info, text in found if info[:1] == [word]]


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text("utf-8"))


def typed(page: Path) -> Iterator[str]:
    """What a reader types: the commands after a `$`, without variables that are set for one of them."""
    for _, text in blocks(page, "console"):
        for line in text.splitlines():
            if line.startswith("$ "):
                for command in line.removeprefix("$ ").split(" && "):
                    yield re.sub(r"^(?:[A-Z_]+=\S+ )+", "", command)


def spans(page: Path) -> list[str]:
    return SPAN.findall(prose(page))


def first_column(page: Path, header: str) -> dict[str, str]:
    """Of the table with this first header: each name in the first cells, with its whole line."""
    lines = page.read_text("utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {header} |")) + 2
    found: dict[str, str] = {}
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        found |= dict.fromkeys(SPAN.findall(line.split("|")[1]), line)
    return found


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", FENCED.sub("", target.read_text("utf-8")), re.MULTILINE)
            assert anchor in map(slug, headings), link


@every_page
def test_files_that_are_named_exist(page: Path) -> None:
    for span in spans(page):
        if OURS.fullmatch(span) and not span.startswith(NOT_THERE):
            assert (ROOT / span).exists(), span


def test_every_page_can_be_reached_from_the_index() -> None:
    reached: set[Path] = set()
    ahead = [DOCS / "README.md"]
    while ahead:
        page = ahead.pop()
        reached.add(page)
        for link in re.findall(r"\]\(([^)\s#]+)", prose(page)):
            target = (page.parent / link).resolve()
            found = sorted(target.glob("*.md")) if target.is_dir() else [target] * (target.suffix == ".md")
            ahead += [each for each in found if each not in reached]
    assert [page for page in DOCS.rglob("*.md") if page not in reached] == []


def parse(words: list[str]) -> None:
    """As the command would, without running it."""
    command: Any = typer.main.get_command(app)
    name = "assay"
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        name, *words = words
        assert name in command.commands, f"there is no command {name}"
        command = command.commands[name]
    command.make_context(name, list(words))


@every_page
def test_commands_parse(page: Path) -> None:
    for line in typed(page):
        program, *words = shlex.split(line, comments=True)
        if program == "assay":
            parse(words)
    for span in spans(page):
        if span.startswith("assay "):
            try:
                parse(shlex.split(span)[1:])
            except Exception as error:
                # In a sentence a command may stand without what it needs.
                if type(error).__name__ not in ("MissingParameter", "Exit"):
                    raise AssertionError(f"`{span}`: {error}") from error


def test_a_wrong_command_would_be_found() -> None:
    for words in (["sqll"], ["models", "get"], ["run", "x.yaml", "--lmit", "3"], ["show", "x", "y"], ["plan"]):
        with pytest.raises(Exception, match=r"no command|No such option|unexpected|Missing"):
            parse(words)


@every_page
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for text in [*typed(page), *spans(page)]:
        words = shlex.split(text, comments=True) if re.match(r"([A-Z_]+=\S+ )?make ", text) else []
        named = {word for word in words if re.fullmatch(r"[a-z-]+", word)} - {"make"}
        assert named <= targets, text


@pytest.mark.parametrize(("word", "model"), YAML_KINDS.items())
def test_yaml_blocks_are_valid(tmp_path: Path, word: str, model: type[BaseModel]) -> None:
    seen = 0
    for page in PAGES:
        for info, text in blocks(page, "yaml"):
            assert info[:1] in [["prefect"], ["task"], *([kind] for kind in YAML_KINDS)], (
                f"{page.name}: a YAML block without its kind"
            )
            if info[0] == word:
                file = tmp_path / f"{page.stem}-{seen}.yaml"
                file.write_text(text, "utf-8")
                model.model_validate(read_yaml(file).data)
                seen += 1
    assert seen >= 1


def form_fields(entrypoint: str = "flows.experiment.experiment") -> list[str]:
    """The parameters of a flow, which are the fields of its launch form."""
    *module, name = entrypoint.split(".")
    tree = ast.parse(ROOT.joinpath(*module).with_suffix(".py").read_text("utf-8"))
    [flow] = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    return [each.arg for each in flow.args.args]


def test_the_readme_names_every_deployment() -> None:
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    listed = re.search(r"have (\w+) deployments: (.*?)\. ", text)
    assert listed is not None
    deployments = read_yaml(ROOT / "prefect.yaml").data["deployments"]
    names = {f"{each['entrypoint'].rpartition('.')[2]}/{each['name']}" for each in deployments}
    assert set(re.findall(r"`(\w+/[\w-]+)`", listed[2])) == names
    words = ("seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen")
    assert words.index(listed[1]) + 7 == len(names)


def test_the_deployments_in_the_pages_could_be_ours(tmp_path: Path) -> None:
    ours = read_yaml(ROOT / "prefect.yaml").data["deployments"]
    keys = {key for each in ours for key in each}
    shown = [text for page in PAGES for info, text in blocks(page, "yaml") if info == ["prefect"]]
    assert shown
    for text in shown:
        file = tmp_path / "prefect.yaml"
        file.write_text(text, "utf-8")
        for each in read_yaml(file).data["deployments"]:
            assert set(each) <= keys
            assert each["entrypoint"] in [one["entrypoint"] for one in ours]
            assert set(each["parameters"]) <= set(form_fields(each["entrypoint"]))
            assert each["work_pool"]["name"] in [one["work_pool"]["name"] for one in ours]


def test_assay_up_prints_what_the_pages_show() -> None:
    source = (ROOT / "flows" / "commands" / "up.py").read_text("utf-8")
    printed = [
        ".*".join(map(re.escape, re.split(r"\{[^}]*\}", text))) for text in re.findall(r'print\(f?"(.*)"\)', source)
    ]
    shown = [
        line
        for page in PAGES
        for _, text in blocks(page, "console")
        if text.startswith("$ assay up")
        for line in text.splitlines()
        if not line.startswith("$ ")
    ]
    assert shown
    for line in shown:
        assert any(re.fullmatch(pattern, line) for pattern in printed), line


def test_the_table_of_form_fields_is_complete() -> None:
    assert list(first_column(DOCS / "how-to" / "launch-from-the-ui.md", "field")) == form_fields()
    gate = DOCS / "how-to" / "gate-a-release.md"
    assert list(first_column(gate, "field")) == form_fields("flows.compare.compare")
    assert set(first_column(gate, "key")) == set(Gate.model_fields)


def test_the_workflow_for_ci_asks_for_what_is_there() -> None:
    workflow = (DOCS / "ci" / "github-actions.yml").read_text("utf-8")
    [job] = read_yaml(DOCS / "ci" / "github-actions.yml").data["jobs"].values()
    commands = re.findall(r"assay [^|\n]+", "\n".join(step.get("run", "") for step in job["steps"]))
    assert commands
    for command in commands:
        parse(shlex.split(command)[1:])
    assert {MARKDOWN, JUNIT, "report.html"} == set(re.findall(r"runs/\$RUN/([\w.]+)", workflow))
    assert "$GITHUB_STEP_SUMMARY" in workflow and f"report_paths: {JUNIT}" in workflow


@pytest.mark.parametrize("page", [ROOT / "README.md", *(DOCS / name for name in WHOLE)], ids=lambda page: page.name)
def test_the_examples_are_whole(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: dict[str, Path] = {}
    for info, text in [*blocks(page, "yaml"), *blocks(page, "json")]:
        if len(info) != 2:
            continue
        kind, name = info
        written[kind] = tmp_path / name
        written[kind].parent.mkdir(parents=True, exist_ok=True)
        written[kind].write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    assert validate_files(files=[str(written["experiment"].relative_to(tmp_path))], as_json=False) == 0


def test_your_own_experiment_takes_twenty_lines() -> None:
    assert sum(len(text.splitlines()) for _, text in blocks(ROOT / "README.md", "yaml")) <= 20


def test_the_queries_are_taken(tmp_path: Path) -> None:
    typed_words = [shlex.split(line) for page in PAGES for line in typed(page) if line.startswith("assay sql ")]
    asked = [word for words in typed_words for word in words if SQL.match(word)]
    assert len(asked) >= 8
    for sql in asked:
        query(home=tmp_path, sql=sql)


def test_the_tables_of_keys_are_complete() -> None:
    assert set(first_column(DOCS / "getting-started.md", "key")) == set(ExperimentFile.model_fields)
    listed = first_column(DOCS / "engine.md", "key")
    assert set(listed) == set(VllmEngine.model_fields)
    for name, value in VllmEngine():
        for key in type(value).model_fields if isinstance(value, BaseModel) else ():
            assert re.search(rf"\b{key}\b", listed[name]), f"{name}.{key}"
    assert set(first_column(DOCS / "how-to" / "sweep-settings.md", "key")) == set(SweepFile.model_fields)
    assert set(first_column(DOCS / "how-to" / "tune-the-engine.md", "key of `tune`")) == set(Tune.model_fields)
    datasets = (DOCS / "datasets.md").read_text("utf-8")
    assert [key for key in Dataset.model_fields if key not in datasets] == []


def test_the_tables_of_names_are_complete() -> None:
    page = DOCS / "metrics.md"
    listed = first_column(page, "metric")
    assert list(listed) and set(listed) == set(builtin_names())
    for name, line in listed.items():
        assert set(SPAN.findall(line.split("|")[4])) == set(metric(name).Options.model_fields), name
    answer = {"request_id": "r", "dataset": "d", "sample_id": "s", "arm": "free", "kind": "generate"}
    response = Response(**answer, status="ok", output="{}", valid=True)
    form = {row.name.removeprefix("d.form.") for row in aggregate_form(dataset="d", responses=[response])}
    assert set(first_column(page, "name")) == form
    text = page.read_text("utf-8")
    assert [name for name in LATENCIES if f"`timing.{name}`" not in text] == []
    assert [percent for percent in PERCENTILES if f"`.p{percent}`" not in text] == []


def test_the_warehouse_page_names_every_table_and_view() -> None:
    text = (DOCS / "warehouse.md").read_text("utf-8")
    assert [name for name in TABLES if f"`{name}`" not in text] == []
    assert [each.name for each in definitions() if f"`{each.name}" not in text] == []


def test_the_picture_is_small() -> None:
    assert (DOCS / "images" / "report.png").stat().st_size < 400_000
