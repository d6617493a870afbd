import json
from pathlib import Path
from typing import Any

import pytest
from dataset_helpers import jsonl, named

from schemas.errors import ConfigError
from tasks.dataset.guide import dataset_grammar, grammar_of, make_grammar
from tasks.dataset.load import Row
from tasks.dataset.shots import answer_text, choose_shots, messages_with_shots, text_with_shots

POOL = [Row(sample_id=f"toy:{n}", row_index=n, raw=b"", fields={"q": f"q{n}"}) for n in range(50)]


def shots(row: Row, pool: list[Row] = POOL, **few: Any) -> list[str]:
    dataset = named(Path("unread"), few_shot=few, target="x")
    return [shot.sample_id for shot in choose_shots(dataset=dataset, pool=pool, row=row)]


def test_a_sample_is_never_its_own_example() -> None:
    assert shots(POOL[1], n=3) == ["toy:0", "toy:2", "toy:3"]
    for row in POOL:
        drawn = shots(row, n=49, pick="random")
        assert sorted(drawn) == sorted(other.sample_id for other in POOL if other is not row)
    copy = Row(sample_id="toy:copy", row_index=99, raw=b"", fields={"q": "q0"})
    assert "toy:0" not in shots(copy, n=3)


def test_a_random_draw_depends_on_seed_and_sample_alone() -> None:
    drawn = {row.sample_id: shots(row, n=5, pick="random", seed=7) for row in POOL}
    assert drawn == {row.sample_id: shots(row, n=5, pick="random", seed=7) for row in reversed(POOL)}
    assert len({tuple(value) for value in drawn.values()}) > 40
    assert drawn["toy:3"] != shots(POOL[3], n=5, pick="random", seed=8)
    # the value itself is held, so that another process, or another day, draws the same
    assert drawn["toy:0"] == ["toy:10", "toy:23", "toy:39", "toy:34", "toy:49"]


def test_too_few_rows_are_said() -> None:
    with pytest.raises(ConfigError, match="only 1 rows") as caught:
        shots(POOL[0], pool=POOL[:2], n=2)
    assert caught.value.problems[0].key == "few_shot.n"


def test_how_examples_stand_before_the_question() -> None:
    system, ask = {"role": "system", "content": "S"}, {"role": "user", "content": "Q"}
    example = [{"role": "system", "content": "S"}, {"role": "user", "content": "E"}]
    assert messages_with_shots([system, ask], examples=[(example, "A"), (example, "B")]) == [
        system,
        {"role": "user", "content": "E"},
        {"role": "assistant", "content": "A"},
        {"role": "user", "content": "E"},
        {"role": "assistant", "content": "B"},
        ask,
    ]
    assert text_with_shots("Q:", examples=[("E:", "1"), ("F:\n", "2")]) == "E: 1\n\nF:\n2\n\nQ:"
    assert [answer_text(value) for value in ("a", 1, {"b": "é"}, True)] == ["a", "1", '{"b": "é"}', "true"]


def guide(path: Path, block: dict[str, Any], **config: Any) -> Any:
    return named(jsonl(path / "a.jsonl", [{"q": "x"}]), guide=block, **config)


def test_the_schema_of_a_dataset_keeps_its_order(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"z": {"type": "string"}, "a": {"enum": ["é"]}}}
    inline = dataset_grammar(guide(tmp_path, {"kind": "json_schema", "schema": schema}))
    assert inline is not None
    assert inline.content == '{"type":"object","properties":{"z":{"type":"string"},"a":{"enum":["é"]}}}'
    file = tmp_path / "s.json"
    file.write_text(json.dumps(schema, indent=4))
    assert dataset_grammar(guide(tmp_path, {"kind": "json_schema", "schema": str(file)})) == inline
    assert make_grammar(kind="regex", content="a").grammar_id != make_grammar(kind="choice", content="a").grammar_id


@pytest.mark.parametrize(
    ("block", "key", "says"),
    [
        ({"kind": "json_schema", "schema": {"properties": {"a": {"type": "objekt"}}}}, "guide.schema", "properties.a"),
        ({"kind": "json_schema", "schema": {"$ref": "#/nowhere"}}, "guide.schema", "nowhere"),
        ({"kind": "json_schema", "schema": {"$ref": "http://127.0.0.1:9/x"}}, "guide.schema", "nothing is fetched"),
        ({"kind": "json_schema", "schema": {"pattern": "("}}, "guide.schema", "regex"),
        ({"kind": "json_schema", "schema": "none.json"}, "guide.schema", "does not exist"),
        ({"kind": "regex", "pattern": "(a"}, "guide.pattern", "missing )"),
        ({"kind": "regex", "pattern": ""}, "guide.pattern", "empty"),
        ({"kind": "choice"}, "guide", "choices"),
        ({"kind": "choice", "options": []}, "guide.options", "no options"),
    ],
)
def test_an_invalid_grammar_for_all_is_refused(tmp_path: Path, block: dict[str, Any], key: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        dataset_grammar(guide(tmp_path, block))
    assert caught.value.problems[0].key == key
    assert says in caught.value.problems[0].message


def test_a_broken_schema_file_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text('{\n"type": }')
    with pytest.raises(ConfigError) as caught:
        dataset_grammar(guide(tmp_path, {"kind": "json_schema", "schema": str(file)}))
    assert (caught.value.problems[0].file, caught.value.problems[0].line) == (file, 2)


def test_a_row_of_its_own_grammar_costs_that_row_only(tmp_path: Path) -> None:
    dataset = guide(tmp_path, {"kind": "json_schema", "schema_field": "s"})
    assert dataset_grammar(dataset) is None

    def of(**fields: Any) -> Any:
        return grammar_of(guide=dataset.config.guide, shared=None, fields=fields, choices=[])

    assert of(s={"type": "string"})[0].content == '{"type":"string"}'
    assert of(s='{"type": "string"}')[0].content == '{"type":"string"}'
    for bad in ({"type": 1}, "{", [], None, "true", '{"const": "\\ud800"}'):
        grammar, error = of(s=bad)
        assert grammar is None
        assert error
    pattern = guide(tmp_path, {"kind": "regex", "pattern_field": "p"}).config.guide
    assert grammar_of(guide=pattern, shared=None, fields={"p": "[0-9]+"}, choices=[])[0] == make_grammar(
        kind="regex", content="[0-9]+"
    )
    assert "not a text" in str(grammar_of(guide=pattern, shared=None, fields={"p": 3}, choices=[])[1])
    choice = guide(tmp_path, {"kind": "choice"}, choices="{{ c }}").config.guide
    assert grammar_of(guide=choice, shared=None, fields={}, choices=["b", "a"])[0] == make_grammar(
        kind="choice", content='["b","a"]'
    )
    assert grammar_of(guide=None, shared=None, fields={}, choices=[]) == (None, None)


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ({"kind": "choice", "options": ["a", ""]}, "an option is empty"),
        ({"kind": "choice", "options": ["a", "\ud800"]}, "lone surrogate"),
        ({"kind": "regex", "pattern": "a\ud800"}, "lone surrogate"),
        (
            {"kind": "json_schema", "schema": {"$schema": "http://example.invalid/draft", "type": "object"}},
            "not a valid",
        ),
    ],
)
def test_what_no_engine_could_follow_is_refused_too(tmp_path: Path, block: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        dataset_grammar(guide(tmp_path, block))


@pytest.mark.parametrize(
    ("content", "places"),
    [
        ('{"type": "objekt", "required": 1}', {"type": "`object`", "required": None}),
        ('{"properties": {"a": {"minimum": "1"}, "b": {"type": "strnig"}}}', {"properties.a.minimum": None}),
        ('{"$ref": "#/nowhere"}', {None: None}),
    ],
)
def test_each_fault_of_a_schema_file_has_its_place(
    tmp_path: Path, content: str, places: dict[str | None, str | None]
) -> None:
    file = tmp_path / "s.json"
    file.write_text(content)
    with pytest.raises(ConfigError) as caught:
        dataset_grammar(guide(tmp_path, {"kind": "json_schema", "schema": str(file)}))
    told = {problem.key: problem for problem in caught.value.problems}
    assert len(set(caught.value.problems)) == len(caught.value.problems)
    assert set(places) <= set(told)
    for key, hint in places.items():
        assert told[key].file == file
        assert hint is None or hint in (told[key].suggestion or "")


def test_a_schema_that_is_no_object_and_one_for_a_missing_column(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text("[1, 2]")
    with pytest.raises(ConfigError, match="must be an object"):
        dataset_grammar(guide(tmp_path, {"kind": "json_schema", "schema": str(file)}))
    file.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(ConfigError, match="broken JSON"):
        dataset_grammar(guide(tmp_path, {"kind": "json_schema", "schema": str(file)}))
    per_row = guide(tmp_path, {"kind": "regex", "pattern_field": "p"}).config.guide
    grammar, error = grammar_of(guide=per_row, shared=None, fields={"p": None}, choices=[])
    assert (grammar, error) == (None, "the row has nothing in its column 'p'")
