"""The pages that come from the code are as the code is, and leave nothing out."""

import ast
import importlib
import inspect
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from flows.reference.config import FILES, keys
from flows.reference.doctor import doctor_lines
from flows.reference.environment import ASSAY, OTHERS
from flows.reference.exit_codes import CODES
from flows.reference.markdown import between
from flows.reference.pages import DOCS, pages
from schemas import errors
from tasks import doctor
from tasks.score.registry import metric, metric_names

ROOT = DOCS.parent
READ = ("flows", "tasks", "warehouse", "schemas", "configs", "requirements", "docs/deploy", "Makefile", "prefect.yaml")
WRITTEN = pages()


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_the_page_is_what_make_docs_writes(name: str) -> None:
    assert (DOCS / name).read_text("utf-8") == WRITTEN[name], "run `make docs`"


def fields(model: type[BaseModel]) -> Iterator[str]:
    """The names of every key of a model and of those below it, found without the JSON Schema."""
    for name, field in model.model_fields.items():
        yield field.alias or name
        for module, each in re.findall(r"(schemas\.\w+)\.(\w+)", str(field.annotation)):
            below = getattr(importlib.import_module(module), each)
            if inspect.isclass(below) and issubclass(below, BaseModel) and below is not model:
                yield from fields(below)


@pytest.mark.parametrize("title", FILES)
def test_every_key_is_there_and_explained(title: str) -> None:
    found = list(keys(FILES[title][0]))
    named = {key.path.rpartition(".")[2] for key in found}
    elsewhere = {
        "Experiment": {
            "source",
            "dtype",
            "chat_template",
            "reasoning_parser",
            "license",
            "kind",
            "file",
            "package",
            "id",
            "config",
            "tokenizer",
        }
    }
    expected = set(fields(FILES[title][0])) - elsewhere.get(title, set())
    assert expected - named - {"revision", "path"} == set()
    assert [key.path for key in found if not key.meaning] == []


def test_numbers_tell_their_unit() -> None:
    units = (
        r"token|byte|MiB|GiB|second|often|times|device|cop(?:y|ies)|steps|share|sample|row|request|example|greedy|drawn"
        r"|random|batch|schema|client|process|repeat|deviation|shape|probe|turn|hour|currency|kilowatt|failure"
    )
    for model, _ in FILES.values():
        for key in keys(model):
            if "number" in key.type:
                assert re.search(units, key.meaning, re.IGNORECASE), f"{key.path}: {key.meaning}"


def test_every_metric_says_formula_unit_and_each_option() -> None:
    page = WRITTEN["reference/metrics.md"]
    for name in metric_names():
        section = page.partition(f"## {name}\n")[2].partition("\n## ")[0]
        assert "Formula:" in section and "Unit:" in section, name
        for key in keys(metric(name).Options):
            assert key.meaning, f"{name}: {key.path}"
            assert f"| `{key.path}` |" in section


def test_every_variable_of_assay_is_listed() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *READ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    text = "\n".join(path.read_text("utf-8", errors="ignore") for path in map(ROOT.joinpath, listed) if path.is_file())
    assert set(re.findall(r"\bASSAY_[A-Z][A-Z_]*[A-Z]\b", text)) == {each.name for each in ASSAY}


@pytest.mark.parametrize("variable", [each.name for each in OTHERS if not each.name.startswith(("HF_", "HTTPS_"))])
def test_what_is_said_to_be_read_is_read(variable: str) -> None:
    sources = "\n".join(
        path.read_text("utf-8") for folder in ("flows", "tasks") for path in (ROOT / folder).rglob("*.py")
    )
    assert f'"{variable}"' in sources


def test_every_exit_code_of_an_error_is_listed() -> None:
    kinds = [each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, errors.AssayError)]
    assert {each.exit_code for each in kinds} <= set(CODES)
    for each in kinds:
        assert f"`{each.__name__}`" in WRITTEN["reference/exit-codes.md"]


def test_every_line_of_the_doctor_is_read_from_its_source(tmp_path: Path) -> None:
    found = list(doctor_lines())
    made = [node for node in ast.walk(ast.parse(inspect.getsource(doctor))) if isinstance(node, ast.Call)]
    checks = [node for node in made if isinstance(node.func, ast.Name) and node.func.id == "Check"]
    assert len({(line.status, line.message) for line in found}) >= len(checks) - 8
    assert len(checks) > 30
    for line in found:
        assert line.looks_at and line.message, line
    names = {line.check for line in found}
    assert {check.name for check in doctor.checks(home=tmp_path)} <= names


@pytest.mark.parametrize(
    ("check", "status"),
    [
        (doctor.python_check((3, 10)), "fail"),
        (doctor.cpu_check(processor="p", flags=["avx2"], machine="x86_64"), "warn"),
        (doctor.cores_check(cores=8, quota=2.0), "warn"),
        (doctor.memory_check(available=1 << 30, total=1 << 34), "fail"),
    ],
)
def test_the_doctor_prints_what_the_page_says(check: doctor.Check, status: str) -> None:
    lines = [line for line in doctor_lines() if line.check == check.name and line.status == status]
    assert check.status == status
    patterns = [re.escape(line.message).replace("…", ".+?") for line in lines]
    assert any(re.fullmatch(pattern, check.message) for pattern in patterns), check.message
    assert check.cure in [line.cure for line in lines]


def test_only_what_stands_between_the_marks_is_written() -> None:
    page = "a\n<!-- x: written by `make docs` -->\nold\n<!-- end of x -->\nb\n"
    new = between(page, name="x", text="new\n")
    assert new.startswith("a\n") and new.endswith("b\n") and "new" in new and "old" not in new
    assert between(new, name="x", text="new\n") == new
    with pytest.raises(ValueError, match="no marks"):
        between("a page", name="x", text="")
