"""From a guide to a grammar: each row's own, the code that a class runs, and one backend for all guides."""

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.engine import Sampling
from schemas.errors import ConfigError
from schemas.guide import Guide
from tasks.config.resolve import load_experiment
from tasks.dataset.guide import grammar_of
from tasks.guide.kinds.pydantic_class import NoClass, schema_of_class
from tasks.guide.kinds.takes import takers
from tasks.requests import plan_requests, request_key
from tests.unit.guide.test_kind_tool_calls import NOW, TOOLS, written

ROW = '{"id": "a", "question": "1 + 1 ="}\n'
DATASET = 'source: {kind: jsonl, path: rows.jsonl}\nprompt: {text: "{{ question }}"}\nmetrics: [json_valid]\n'


def own(guide: dict[str, Any], **fields: Any) -> tuple[Any, str | None]:
    return grammar_of(guide=Guide.model_validate(guide), shared=None, fields=fields, choices=[])


def experiment(folder: Path, guide: str, more: str = "", *, engine: str = "{}") -> Path:
    (folder / "rows.jsonl").write_text(ROW)
    (folder / "questions.yaml").write_text(f"{DATASET}guide: {guide}\n{more}")
    (folder / "experiment.yaml").write_text(
        f"name: x\nmodel: smollm2-135m-instruct\nengine: {engine}\ndatasets: [questions.yaml]\narms: [free, guided]\n"
    )
    return folder / "experiment.yaml"


def test_each_row_has_its_own_grammar() -> None:
    guide = {"kind": "ebnf", "flavour": "gbnf", "grammar_field": "g"}
    grammar, error = own(guide, g='root ::= "a"')
    assert error is None
    assert json.loads(grammar.content) == {"flavour": "gbnf", "grammar": 'root ::= "a"'}
    for fields, words in (
        ({"g": "root ::= a"}, "line 1 of the grammar: not a valid grammar of the flavour gbnf"),
        ({"g": 3}, "the grammar is 3, not a text"),
        ({}, "the row has nothing in its column 'g'"),
        ({"g": " "}, "the grammar is empty"),
    ):
        grammar, error = own(guide, **fields)
        assert grammar is None
        assert words in str(error)


def test_each_row_has_its_own_tools() -> None:
    guide = {"kind": "tool_calls", "tools_field": "function"}
    grammar, error = own(guide, function=TOOLS)
    assert error is None
    assert grammar == own(guide, function=json.dumps(TOOLS))[0]
    for fields, words in (
        ({"function": []}, "at least one"),
        ({"function": "[{"}, "the tools are broken JSON"),
        ({"function": [{"name": "f", "parameters": {"type": "object", "properties": 3}}]}, "not a valid JSON schema"),
    ):
        grammar, error = own(guide, **fields)
        assert grammar is None
        assert words in str(error)
    assert "tool" in written(NOW)


def test_a_class_is_imported_only_where_a_file_allows_it(tmp_path: Path) -> None:
    (tmp_path / "own_models.py").write_text(
        "from pathlib import Path\nfrom pydantic import BaseModel\nprint('noise')\n"
        f"Path({str(tmp_path / 'ran')!r}).touch()\n\n\nclass Order(BaseModel):\n    n: int\n"
    )
    guide = 'kind: json_schema, schema_class: "own_models:Order"'
    with pytest.raises(ConfigError, match="allow_code"):
        load_experiment(experiment(tmp_path, f"{{{guide}}}"))
    assert not (tmp_path / "ran").exists()
    loaded = load_experiment(experiment(tmp_path, f"{{{guide}, allow_code: true}}"))
    found = loaded.datasets[0].config.guide
    assert (tmp_path / "ran").exists()
    assert found is not None
    assert isinstance(found.schema_, dict)
    assert found.schema_["required"] == ["n"]
    assert (found.schema_class, found.allow_code) == (None, False), "the resolved config runs nothing again"
    Guide.model_validate(found.model_dump(by_alias=True))
    for path, words in (
        ("own_models:Nothing", "Nothing"),
        ("nowhere:X", "nowhere"),
        ("json:dumps", "no pydantic class"),
    ):
        with pytest.raises(NoClass, match=words):
            schema_of_class(path, folder=tmp_path)


def test_auto_is_one_backend_for_all(tmp_path: Path) -> None:
    auto = "{grammar: {backend: auto}}"
    for guide, backend in (
        ("{kind: python}", "xgrammar"),
        ("{kind: ebnf, flavour: llguidance, grammar: 'start: \"a\"'}", "guidance"),
        ("{kind: ebnf, flavour: gbnf, grammar: 'root ::= \"a\"*'}", "xgrammar"),
        ('{kind: ebnf, flavour: gbnf, grammar: \'root ::= "a" ( | "b")\'}', "guidance"),
    ):
        assert load_experiment(experiment(tmp_path, guide, engine=auto)).engine.grammar.backend == backend
    assert takers(Guide(kind="json_object")) == ("xgrammar", "guidance", "lm-format-enforcer")
    assert takers(Guide(kind="math", after="Answer:")) == ("xgrammar",)


def test_what_is_free_first_is_in_the_request_and_its_key(tmp_path: Path) -> None:
    from schemas.sample import Sample
    from tasks.dataset.guide import dataset_grammar

    def asked(guide: str, more: str = "") -> Any:
        (dataset,) = load_experiment(experiment(tmp_path, guide, more)).datasets
        sample = Sample(
            dataset="questions",
            sample_id="a",
            row_index=0,
            raw=b"",
            input={},
            prompt="1 + 1 =",
            prompt_hash="",
            prompt_token_ids=[1],
            grammar=dataset_grammar(dataset),
        )
        found = plan_requests(dataset=dataset, samples=[sample], arms=["free", "guided"], needs=["generate"])
        return {request.arm: request for request in found}

    plain = asked("{kind: regex, pattern: '[0-9]'}")
    marked = asked("{kind: regex, pattern: '[0-9]', after: 'Answer:'}")
    thinking = asked("{kind: regex, pattern: '[0-9]', after: reasoning}", "reasoning_parser: think_tags\n")
    assert [each["guided"].grammar_after for each in (plain, marked, thinking)] == [None, "Answer:", "</think>"]
    assert [each["free"].grammar_after for each in (plain, marked, thinking)] == [None, None, None]
    assert {each["free"].reasoning_parser for each in (marked,)} == {"after:Answer:"}
    keys = {request_key(each["guided"], identity={}, sampling=Sampling()) for each in (plain, marked, thinking)}
    assert len(keys) == 3
