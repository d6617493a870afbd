"""Finding the JSON in an answer."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.guide.extract import extract_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "found", "how"),
    [
        (' {"a": 1}\n', '{"a": 1}', "whole"),
        ("12", "12", "whole"),
        ('Sure!\n```json\n{"a": "```"}\n', '{"a": "```"}', "balanced"),
        ('Sure!\n```json\n{"a": 1}\n```', '{"a": 1}', "fence"),
        ('```python\nx = {}\n```\n```JSON\n{"a": 1}\n```', '{"a": 1}', "fence"),
        ('```json\n{"a": 1}', '{"a": 1}', "fence"),
        ('```\nno\n```\nthen {"a": 1}', '{"a": 1}', "balanced"),
        ('use { to open: {"a": "}"} {"b": 2}', '{"a": "}"}', "balanced"),
        ("see [1]: {}", "{}", "balanced"),
        ("only [1, 2] here", "[1, 2]", "balanced"),
        ('{"a": {"b": 1}, "c', None, None),
        ('{"a": {"b": 1}, oops} {"c": 2}', '{"c": 2}', "balanced"),
        ("", None, None),
        ("none at all", None, None),
        ("[" * 100_000, None, None),
    ],
)
def test_extract(text: str, found: str | None, how: str | None) -> None:
    result = extract_json(text)
    if found is None:
        assert result is None
    else:
        assert result is not None
        assert (result.text, result.how) == (found, how)
        assert text[result.start : result.end] == found


def test_prefer_array() -> None:
    text = 'Items: [{"a": 1}, {"a": 2}]'
    array, single = extract_json(text, prefer="array"), extract_json(text)
    assert array is not None
    assert array.text == '[{"a": 1}, {"a": 2}]'
    assert single is not None
    assert single.text == '{"a": 1}'


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(st.text(max_size=5), JSON, max_size=3))
def test_an_object_among_words_is_found_whole(value: dict[str, object]) -> None:
    text = f"The answer: {json.dumps(value)} as you asked."
    found = extract_json(text)
    assert found is not None
    assert json.loads(found.text) == value


@pytest.mark.parametrize("text", ['{"a":' * 20_000, "{" * 100_000, '{"' * 50_000, "[{" * 50_000, "```json\n" * 5_000])
def test_hostile_answers_take_no_time(text: str) -> None:
    started = time.perf_counter()
    assert extract_json(text) is None
    assert time.perf_counter() - started < 2
