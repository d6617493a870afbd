"""`assay import lm-eval-task` over files that nobody took care of: each gives a dataset or a ConfigError, and soon."""

import itertools
import time
from pathlib import Path

import pytest

from schemas.errors import ConfigError
from tasks.lm_eval_task.convert import convert
from tasks.lm_eval_task.write import dataset_yaml

TASK = {
    "task": "mine",
    "dataset_path": "a/b",
    "test_split": "test",
    "doc_to_text": "'{{q}}'",
    "doc_to_target": "'{{a}}'",
}
KEYS = (
    "task",
    "dataset_path",
    "dataset_name",
    "dataset_kwargs",
    "test_split",
    "fewshot_split",
    "doc_to_text",
    "doc_to_target",
    "doc_to_choice",
    "description",
    "gen_prefix",
    "target_delimiter",
    "num_fewshot",
    "fewshot_config",
    "generation_kwargs",
    "repeats",
    "output_type",
    "metric_list",
    "filter_list",
    "metadata",
    "group",
    "include",
    "doc_to_decontamination_query",
)
VALUES = (
    "-3",
    "word",
    "true",
    ".nan",
    "[1, word]",
    "{a: [1]}",
    "!function utils.f",
    "[!function utils.f]",
    "'{{ x'",
    "{samples: [!function u.f], doc_to_target: '{{ x'}",
    "{samples: [{a: !function u.f}]}",
    "{max_gen_toks: many, until: {a: 1}}",
    "{data_files: {test: [1, 2]}}",
    "[{metric: [1]}]",
    "[{metric: !function u.pass_at_1, k: [word]}]",
    "[{filter: 3}, {filter: [3]}, 3]",
    "[{filter: [{function: [1]}]}, {filter: [{function: regex, regex_pattern: [1], group_select: [2]}]}]",
)


def written(folder: Path, values: dict[str, str], *, name: str = "mine.yaml") -> Path:
    (folder / name).write_text("".join(f"{key}: {value}\n" for key, value in values.items()))
    return folder / name


@pytest.mark.parametrize("output_type", ["generate_until", "multiple_choice", "loglikelihood_rolling"])
def test_a_value_of_any_kind_anywhere_is_taken_or_refused(tmp_path: Path, output_type: str) -> None:
    """What is made can be written down; every refusal names its key."""
    base = TASK | {"output_type": output_type, "doc_to_choice": "[a, b]", "metric_list": "[{metric: exact_match}]"}
    made = 0
    for key, value in itertools.product(KEYS, VALUES):
        try:
            assert dataset_yaml(convert(written(tmp_path, base | {key: value}))), (key, value)
            made += 1
        except ConfigError as refused:
            assert all(problem.key or problem.file for problem in refused.problems), (key, value)
    assert 0 < made < len(KEYS) * len(VALUES)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("generation_kwargs", "[1]", "mine.yaml:6: generation_kwargs: a block is expected, not list"),
        ("num_fewshot", "!function utils.n", r"num_fewshot: it is Python code \(utils.n\)"),
        ("repeats", "-1", "repeats: a whole number of 0 or more"),
        ("include", '"a\\0b.yaml"', "no such file"),
        ("include", "a" * 5000, "no such file"),
        ("doc_to_text", f"'{{{{ {'(' * 5000}x{')' * 5000} }}}}'", "mine.yaml:4: doc_to_text: .*nested too deeply"),
        ("doc_to_text", f"'{'{% for a in b %}' * 30}{'{% endfor %}' * 30}'", "nested too deeply"),
    ],
)
def test_what_is_refused_says_where(tmp_path: Path, key: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        convert(written(tmp_path, TASK | {key: value}))


def test_a_budget_that_is_none_is_listed(tmp_path: Path) -> None:
    made = convert(written(tmp_path, TASK | {"generation_kwargs": "{max_gen_toks: many}"}))
    assert made.config["max_tokens"] == 256
    assert any("max_gen_toks: it is no whole number" in str(note) for note in made.not_taken)
    assert convert(written(tmp_path, TASK | {"generation_kwargs": "{max_tokens: '64'}"})).config["max_tokens"] == 64


def test_files_that_include_each_other_over_and_over_end_soon(tmp_path: Path) -> None:
    for depth in range(40):
        written(tmp_path, {"include": f"[{depth + 1}.yaml, {depth + 1}.yaml]"}, name=f"{depth}.yaml")
    written(tmp_path, TASK, name="40.yaml")
    start = time.monotonic()
    with pytest.raises(ConfigError, match="made of 100 files at most"):
        convert(tmp_path / "0.yaml")
    assert time.monotonic() - start < 10


def test_a_template_of_spaces_takes_no_long_time(tmp_path: Path) -> None:
    spaces = " " * 100_000
    values = TASK | {
        "doc_to_target": f"'{{{{ a +{spaces}b }}}}'",
        "doc_to_choice": "[p, q]",
        "output_type": "multiple_choice",
    }
    start = time.monotonic()
    made = convert(written(tmp_path, values))
    assert made.config["choices"] == ["p", "q"]
    assert time.monotonic() - start < 10
