import time
from pathlib import Path

import pytest
from dataset_helpers import jsonl, named
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import ConfigError
from tasks.dataset.template import check_templates, compile_template, native, render


def refused(text: str, **fields: object) -> str:
    with pytest.raises(ConfigError) as caught:
        render(compile_template(text, key="prompt.text"), fields)
    assert caught.value.problems[0].key == "prompt.text"
    return str(caught.value)


@given(st.text())
@settings(max_examples=30, deadline=None)
def test_a_field_arrives_unchanged(text: str) -> None:
    assert render(compile_template("{{ t }}"), {"t": text}) == text
    assert native(compile_template("{{ t }}"), {"t": text}) == text


def test_what_a_template_says_is_what_is_sent() -> None:
    assert render(compile_template("<b>{{ t }}</b>\n"), {"t": "a & <i>"}) == "<b>a & <i></b>\n"
    assert render(compile_template("{{ d | tojson }}"), {"d": {"b": "<é>", "a": 1}}) == '{"b": "<é>", "a": 1}'
    assert (
        render(compile_template("{% for x in l %}{{ loop.index }}/{{ loop.length }}{{ x }} {% endfor %}"), {"l": "ab"})
        == "1/2a 2/2b "
    )


def test_a_lone_field_keeps_its_type() -> None:
    fields = {"n": 29, "o": {"p": [1, {"q": None}]}, "z": 0}
    assert native(compile_template(" {{ n }} "), fields) == 29
    assert native(compile_template("{{ o.p }}"), fields) == [1, {"q": None}]
    assert native(compile_template("{{ o['p'][1].q }}"), fields) is None
    assert native(compile_template("{{ z }}"), fields) == 0
    assert native(compile_template("{{ n }}!"), fields) == "29!"
    assert native(compile_template("{{ n + 1 }}"), fields) == "30"
    with pytest.raises(ConfigError, match="undefined"):
        native(compile_template("{{ o.x }}"), fields)


def test_an_undefined_field_names_the_nearest_column() -> None:
    message = refused("{{ qestion }}", question="x", answer="y")
    assert "'qestion'" in message
    assert "did you mean 'question'?" in message


def test_a_syntax_error_has_its_line() -> None:
    with pytest.raises(ConfigError) as caught:
        compile_template("one\ntwo {{ x }\n", file=Path("d.yaml"), key="target")
    assert "line 2" in str(caught.value)
    assert str(caught.value).startswith("d.yaml: target: ")
    with pytest.raises(ConfigError, match="No filter named 'nope'"):
        compile_template("{{ x | nope }}")


@pytest.mark.parametrize(
    "text",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in many %}{% for b in many %}{% for c in many %}{% endfor %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% set n = namespace(x='ab') %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
        "{% set n = namespace(x='ab') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
        "{% set n = namespace(x=9) %}{% for i in range(60) %}{% set n.x = n.x * n.x %}{% endfor %}",
        "{% set n = namespace(x='aa') %}{% for i in range(60) %}{% set n.x = n.x.replace('a', 'aa') %}{% endfor %}",
        "{% set n = namespace(x='aa') %}{% for i in range(60) %}{% set n.x = n.x | replace('a', 'aa') %}{% endfor %}",
        "{{ 'a' * 999999999999 }}",
        "{{ [0] * 999999999999 }}",
        "{{ 9 ** 99999999 }}",
        "{{ 'a'.ljust(999999999999) }}",
        "{{ 'a' | center(999999999999) }}",
        "{{ '{:>999999999}'.format(1) }}",
        "{{ '{:>{}}'.format(1, 999999999) }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '%*d' % (999999999, 1) }}",
        "{{ '%999999999d' | format(1) }}",
        "{% for i in range(99999) %}{{ 'a' * 100 }}{% endfor %}",
        "{{ ''.__class__.__mro__ }}",
        "{{ x.__init__.__globals__ }}",
        "{% include '/etc/passwd' %}",
        "{{ l.append(1) }}",
        "{{ lipsum(n=100000) }}",
    ],
)
def test_a_hostile_template_ends(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.dataset.sandbox.TIME_LIMIT_S", 0.3)
    start = time.monotonic()
    with pytest.raises(ConfigError):
        render(compile_template(text), {"x": compile_template, "l": [], "many": list(range(2000))})
    assert time.monotonic() - start < 5


def test_large_numbers_and_long_texts_are_no_attack() -> None:
    fields = {"price": 250_000_000, "long": "é" * 1_000_000}
    assert render(compile_template("{{ '{:,}'.format(price) }} {{ '%d' % price }}"), fields) == "250,000,000 250000000"
    text = "{% macro m(n) %}{{ n }}{% endmacro %}{{ m(price) }}{{ long }}{{ long | replace('é', 'e') | length }}"
    assert len(render(compile_template(text), fields)) == 9 + 1_000_000 + 7
    assert refused("{{ long }}{{ long }}{{ long }}{{ long }}{{ long }}", **fields).endswith("characters")


def test_columns_are_checked_before_anything_is_loaded(tmp_path: Path) -> None:
    dataset = named(
        jsonl(tmp_path / "a.jsonl", [{"q": "x"}]),
        prompt={"messages": [{"role": "user", "content": "{{ questoin }}{% for i in range(2) %}{{ i }}{% endfor %}"}]},
        target="{{ answer }}",
        choices=["{{ a }}", "{{ d }}"],
        guide={"kind": "regex", "pattern_field": "patern"},
        cluster="sorce",
        id_field="id",
    )
    columns = ["question", "answer", "a", "b", "c", "pattern", "source", "id"]
    with pytest.raises(ConfigError) as caught:
        check_templates(dataset, columns)
    found = {problem.key: problem for problem in caught.value.problems}
    assert set(found) == {"prompt.messages.0.content", "choices.1", "guide.pattern_field", "cluster"}
    assert "'question'" in (found["prompt.messages.0.content"].suggestion or "")
    assert "'pattern'" in (found["guide.pattern_field"].suggestion or "")
    assert "'source'" in (found["cluster"].suggestion or "")


@pytest.mark.parametrize(
    "operation", ["n.x + n.x", "n.x ~ n.x", "n.x * 2", "n.x.replace('a', 'aa')", "n.x | replace('a', 'aa')"]
)
def test_a_value_is_stopped_before_it_fills_the_memory(operation: str) -> None:
    text = "{% set n = namespace(x='aa') %}{% for i in range(26) %}{% set n.x = " + operation + " %}{% endfor %}"
    with pytest.raises(ConfigError, match="a value is longer"):
        render(compile_template(text), {})
