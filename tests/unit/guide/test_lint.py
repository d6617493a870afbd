"""The lint of a schema against real backends: what each gets silently wrong is found and named, and nothing else."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from jsonschema.validators import validator_for
from typer.testing import CliRunner

from flows.cli import app
from flows.commands.grammar import lint_schema
from flows.commands.grammar_report import print_lint
from schemas.errors import ConfigError
from tasks.guide.backends import Backends
from tasks.guide.backends.instances import compact
from tasks.guide.lint.asking import Asking
from tasks.guide.lint.blame import unwanted
from tasks.guide.lint.edit import everywhere, nodes, without
from tasks.guide.lint.lint import lint
from tasks.guide.lint.merge import merge
from tasks.guide.lint.model import BackendLint, Finding
from tasks.guide.lint.notes import slow_note
from tasks.guide.lint.probes import probes
from tasks.guide.lint.shrink import shrink
from tasks.guide.lint.texts import FORMATS, of_pattern
from tasks.guide.lint.verdicts import Verdicts

OPEN = {"type": "object"}
A = {"properties": {"a": {"type": "integer"}}, "required": ["a"]}
B = {"properties": {"b": {"type": "string"}}, "required": ["b"]}
ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1, "maximum": 99},
        "state": {"enum": ["open", "closed"]},
        "lines": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["id", "state", "lines"],
    "additionalProperties": False,
}


def one(backends: Backends, schema: dict[str, Any], name: str, **options: Any) -> BackendLint:
    return lint(schema, backends=backends, names=[name], **options).backends[0]


def shown(found: BackendLint, kind: str, path: str) -> Finding:
    matching = [finding for finding in found.findings if (finding.kind, finding.path) == (kind, path)]
    assert len(matching) == 1, [(finding.kind, finding.path, finding.instance) for finding in found.findings]
    return matching[0]


SILENT: list[tuple[str, str, dict[str, Any], str, str, str]] = [
    ("siblings of anyOf", "xgrammar", {**OPEN, **A, "anyOf": [B]}, "under-constrained", "/required", '{"b":""}'),
    ("siblings of oneOf", "xgrammar", {**OPEN, **A, "oneOf": [B]}, "under-constrained", "/required", '{"b":""}'),
    ("siblings of allOf", "xgrammar", {**OPEN, **A, "allOf": [B]}, "under-constrained", "/required", '{"b":""}'),
    ("required, undeclared", "xgrammar", {**OPEN, "required": ["a"]}, "over-constrained", "/required", '{"a":0}'),
    ("required, dropped", "xgrammar", {"type": "object", "required": ["a"]}, "under-constrained", "/required", "{}"),
    ("uniqueItems, untyped", "xgrammar", {"uniqueItems": True, "items": {"type": "integer"}}, "under-constrained",
     "/uniqueItems", "[0,0]"),
    ("multipleOf, untyped", "xgrammar", {"multipleOf": 5}, "under-constrained", "/multipleOf", "1"),
    ("multipleOf below 0", "guidance", {"type": "integer", "multipleOf": 5}, "over-constrained", "/multipleOf", "-10"),
    ("uniqueItems", "outlines", {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True},
     "under-constrained", "/uniqueItems", "[true,true]"),
    ("multipleOf", "outlines", {"type": "integer", "multipleOf": 5}, "under-constrained", "/multipleOf", "1"),
    ("patternProperties", "lm-format-enforcer", {"type": "object", "patternProperties": {"^x": {"type": "integer"}}},
     "under-constrained", "/patternProperties/^x/type", '{"x":[]}'),
]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "name", "schema", "kind", "path", "instance"), SILENT, ids=[each[0] for each in SILENT]
)
def test_what_a_backend_gets_silently_wrong(
    grammar_backends: Backends, what: str, name: str, schema: dict[str, Any], kind: str, path: str, instance: str
) -> None:
    found = one(grammar_backends, schema, name)
    assert found.verdict == "silently wrong", what
    finding = shown(found, kind, path)
    assert len(str(finding.instance)) <= len(instance)
    value = json.loads(str(finding.instance))
    assert validator_for(schema)(schema).is_valid(value) is (kind == "over-constrained")
    compiled = grammar_backends.compile(backend=name, content=compact(schema))
    taken = grammar_backends.match(compiled, text=str(finding.instance), masks=True)
    assert taken.accepted is (kind == "under-constrained")
    if finding.rewrite is not None:  # it is right on the instance now, and says the truth about what it allows
        again = grammar_backends.compile(backend=name, content=compact(finding.rewrite.schema))
        assert grammar_backends.match(again, text=str(finding.instance)).accepted is (kind == "over-constrained")
        if finding.rewrite.exact:
            assert validator_for(schema)(finding.rewrite.schema).is_valid(value) is (kind == "over-constrained")


@pytest.mark.parametrize("name", ["xgrammar", "guidance"])
def test_a_backend_that_is_right_is_called_so(grammar_backends: Backends, name: str) -> None:
    found = one(grammar_backends, ORDER, name)
    assert (found.verdict, found.unknown, found.cut) == ("right", 0, False)
    assert found.valid > 10 and found.invalid > 20
    assert [finding.kind for finding in found.findings] == ["order"]
    assert found.mask_us["p50"] <= found.mask_us["p99"] <= found.mask_us["max"]


def test_open_objects_that_a_backend_closes_are_a_note(grammar_backends: Backends) -> None:
    found = one(grammar_backends, {"type": "object", **A}, "xgrammar")
    assert found.verdict == "right"
    assert "closed" in {finding.kind for finding in found.findings}


def test_a_refusal_comes_with_a_way_out(grammar_backends: Backends) -> None:
    tags = {"type": "object", "properties": {"t": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}}}
    found = one(grammar_backends, tags, "xgrammar")
    assert (found.verdict, found.valid) == ("refused", 0)
    assert found.avoid is not None and "drop uniqueItems (/properties/t/uniqueItems)" in found.avoid.words
    assert found.avoid.exact is False
    assert grammar_backends.compile(backend="xgrammar", content=compact(found.avoid.schema)).status == "accepted"
    joined = one(grammar_backends, {"type": "object", "allOf": [A, B]}, "xgrammar")
    assert joined.verdict == "refused"
    assert joined.avoid is not None and joined.avoid.exact is True and "allOf" in joined.avoid.words


@pytest.mark.slow
def test_what_makes_compiling_slow_is_named(model_dir: Path) -> None:
    with Backends(model=model_dir, names=["xgrammar"]) as backends:
        found = one(backends, {"type": "string", "maxLength": 50000}, "xgrammar")
    slow = shown(found, "slow", "/maxLength")
    assert slow.rewrite is not None and slow.instance is None


def test_the_same_seed_gives_the_same_report(grammar_backends: Backends) -> None:
    schema = {"type": "object", **A, "anyOf": [B]}
    first, second = (one(grammar_backends, schema, "xgrammar", seed=7) for _ in range(2))
    assert first.findings == second.findings
    assert (first.valid, first.invalid) == (second.valid, second.invalid)


def test_given_instances_are_asked_with(grammar_backends: Backends) -> None:
    schema = {"type": "object", "properties": {"s": {"type": "string"}}, "additionalProperties": False}
    rare = {"s": "x" * 50}
    texts = {probe.text for probe in probes(Verdicts(schema, grammar_id="g"), seed=0, given=[rare])}
    assert compact(rare) in texts
    assert compact(rare) not in {probe.text for probe in probes(Verdicts(schema, grammar_id="g"), seed=0)}


def test_a_time_limit_is_said(grammar_backends: Backends) -> None:
    found = one(grammar_backends, ORDER, "xgrammar", limit_s=0.005)
    assert found.cut


def test_probes_are_of_both_kinds_and_as_the_validator_says() -> None:
    found = probes(Verdicts(ORDER, grammar_id="p"), seed=0)
    second = validator_for(ORDER)(ORDER)
    assert all(second.is_valid(probe.value) is probe.valid for probe in found)
    broken = {keyword for probe in found for keyword in probe.keywords}
    properties = "/properties"
    assert {
        "/required",
        "/additionalProperties",
        "/type",
        f"{properties}/id/minimum",
        f"{properties}/id/maximum",
        f"{properties}/state/enum",
        f"{properties}/lines/minItems",
        f"{properties}/lines/maxItems",
        f"{properties}/lines/items/type",
        f"{properties}/note/anyOf",
    } <= broken


def test_what_the_validator_could_not_judge_is_no_probe() -> None:
    endless = "a" * 60
    schema = {"type": "string", "pattern": "^(?=(a+)+$)(a|aa)+\\1c$|^aa$"}  # it gives up after so many steps back
    verdicts = Verdicts(schema, grammar_id="t")
    assert not verdicts.judged(endless) and not verdicts.valid(endless) and verdicts.keywords(endless) == ()
    assert verdicts.judged("aa") and verdicts.judged("b") and not verdicts.valid("b")
    asked = probes(verdicts, seed=0, given=[endless, "aa"])
    assert "aa" in [probe.value for probe in asked] and endless not in [probe.value for probe in asked]


def test_masks_that_could_not_be_timed_again_are_not_called_faster(grammar_backends: Backends) -> None:
    verdicts = Verdicts({"type": "string", "maxLength": 5}, grammar_id="t")
    asking = Asking(backends=grammar_backends, backend="xgrammar", whitespace=None, until=time.monotonic() + 60)
    compiled = asking.compile(verdicts.schema)
    (note,) = slow_note(asking, verdicts, compiled=compiled, spent=[20_000.0], timed=[])
    assert (note.kind, note.path, note.words, note.rewrite) == ("slow", "", "a mask takes 20 ms (p99)", None)


def test_a_keyword_behind_a_reference_is_named_where_it_stands() -> None:
    schema = {"$defs": {"n": {"type": "integer", "minimum": 3}}, "properties": {"a": {"$ref": "#/$defs/n"}}}
    assert Verdicts(schema, grammar_id="r").keywords({"a": 1}) == ("/$defs/n/minimum",)


def test_shrinking_ends_at_the_smallest() -> None:
    value = {"a": [1, {"b": "hello", "c": [7, 7, 7]}], "d": {"e": 12}}
    assert shrink(value, shows=lambda each: "7" in compact(each)) == {"a": [{"c": [7]}]}


@pytest.mark.parametrize("pattern", ["^[A-Z]{2}\\d+$", "(foo|ba[rz])", "^\\w+@x\\.y$", "^[^a-z ]{3}$", "a*", "^.{5}$"])
def test_texts_of_a_pattern_are_of_it(pattern: str) -> None:
    made = of_pattern(pattern)
    assert made and all(Verdicts({"pattern": pattern}, grammar_id="t").valid(text) for text in made)


@pytest.mark.parametrize("name", FORMATS)
def test_texts_of_a_format_are_of_it(name: str) -> None:
    judge = Verdicts({"type": "string", "format": name}, grammar_id="f")
    assert all(judge.valid(text) for text in FORMATS[name])


def test_merging_keeps_both() -> None:
    made = merge({"minimum": 1, "type": "number", "not": {"const": 4}}, {"minimum": 3, "type": "integer", "not": {}})
    assert made == {"minimum": 3, "type": "integer", "not": {"const": 4}, "allOf": [{"not": {}}]}


def test_keywords_are_not_taken_for_properties_names() -> None:
    schema = {"properties": {"pattern": {"type": "string", "pattern": "a"}}, "pattern": "b"}
    assert [part.pointer for part in nodes(schema)] == ["", "/properties/pattern"]
    assert everywhere(schema, frozenset(["pattern"])) == {"properties": {"pattern": {"type": "string"}}}
    assert without(schema, "/properties/pattern", "type") == {
        "properties": {"pattern": {"pattern": "a"}},
        "pattern": "b",
    }


def test_the_fewest_unwanted_keywords() -> None:
    schema = {"uniqueItems": True, "not": {"const": 1}, "minItems": 1}
    assert unwanted(schema, accepted=lambda made: not {"uniqueItems", "not"} & made.keys()) == {"uniqueItems", "not"}
    assert unwanted(schema, accepted=lambda made: False) is None


def test_the_report_says_it_all(grammar_backends: Backends, capsys: pytest.CaptureFixture[str]) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "multipleOf": 5}}, "required": ["n", "a"]}
    print_lint(lint(schema, backends=grammar_backends, names=["xgrammar", "guidance"]), name="mine.json")
    printed = capsys.readouterr().out
    assert "mine.json: vLLM" in printed and "tokens of single bytes, seed 0" in printed
    assert "refused  The provided JSON schema contains features not supported by xgrammar." in printed
    assert "instead  drop multipleOf (/properties/n/multipleOf) and validate the answers after (allows more)" in printed
    assert "over-constrained  /properties/n/multipleOf: rejects what multipleOf allows" in printed


@pytest.mark.slow
def test_the_command_prints_and_has_an_exit_code(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"type": "object", "required": ["a"]}')
    ran = CliRunner().invoke(app, ["grammar", "lint", str(file), "--backends", "xgrammar,guidance"])
    assert ran.exit_code == 1, ran.output
    assert "silently wrong" in ran.output and "under-constrained  /required" in ran.output
    assert "spell the required a in properties at the top" in ran.output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{\n  'a': 1}", "schema.json:2: broken JSON"),
        ("[]", "a guided answer's schema is an object"),
        ('{"type": "strnig"}', "(did you mean `string`?)"),
        ('{"$ref": "https://example.com/x.json"}', "example.com"),
    ],
)
def test_a_schema_that_is_none_is_refused_at_once(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "schema.json"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        lint_schema(
            schema=str(file), backends=[], model=None, instances=None, whitespace=None, seed=0, limit_s=1, as_json=False
        )
    assert message in str(refused.value)


def test_instances_that_are_broken_are_refused_with_their_line(tmp_path: Path) -> None:
    schema, instances = tmp_path / "s.json", tmp_path / "i.jsonl"
    schema.write_text("{}")
    instances.write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(ConfigError, match=r"i\.jsonl:2: broken JSON"):
        lint_schema(
            schema=str(schema), backends=[], model=None, instances=instances, whitespace=None, seed=0, limit_s=1,
            as_json=False,
        )  # fmt: skip


def test_an_unknown_backend_is_named_with_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text("{}")
    ran = CliRunner().invoke(app, ["grammar", "lint", str(file), "--backends", "xgramar"])
    assert isinstance(ran.exception, ConfigError)
    assert "there is no backend `xgramar`" in str(ran.exception) and "xgrammar" in str(ran.exception)
