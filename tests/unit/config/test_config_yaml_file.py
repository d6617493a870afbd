"""YAML 1.2, line numbers, and the files that are refused."""

import math
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import ConfigError
from tasks.config.yaml_file import MAX_BYTES, parse_value, read_yaml


def write(folder: Path, content: str | bytes, name: str = "a.yaml") -> Path:
    path = folder / name
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_yaml(path)
    return str(caught.value).replace(f"{path}", path.name)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("off", "off"),
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("y", "y"),
        ("2026-01-31", "2026-01-31"),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        ("=", "="),
        ("true", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("'null'", "null"),
        ('"1"', "1"),
        ("!!str 5", "5"),
        ("012", 12),
        ("-7", -7),
        ("0o17", 15),
        ("0x1F", 31),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-.inf", -math.inf),
        ("[a, 1, {b: off}]", ["a", 1, {"b": "off"}]),
    ],
)
def test_values_follow_the_core_schema_of_yaml_1_2(text: str, value: Any) -> None:
    parsed = parse_value(text)
    assert parsed == value
    assert type(parsed) is type(value)


def test_not_a_number_is_read() -> None:
    assert math.isnan(parse_value(".nan"))


def test_a_version_directive_changes_no_word(tmp_path: Path) -> None:
    assert read_yaml(write(tmp_path, "%YAML 1.1\n---\npolicy: off\n")).data == {"policy": "off"}


def test_keys_are_words_whatever_they_look_like(tmp_path: Path) -> None:
    assert read_yaml(write(tmp_path, "on: 1\ntrue: 2\n3: 4\n")).data == {"on": 1, "true": 2, "3": 4}


def test_every_key_and_entry_has_its_line(tmp_path: Path) -> None:
    file = read_yaml(write(tmp_path, "# a comment\na: 1\nb:\n  - x\n  - c: 2\n    d: [3,\n      4]\n"))
    assert file.line_of(["a"]) == 2
    assert file.line_of(["b"]) == 3
    assert file.line_of(["b", 0]) == 4
    assert file.line_of(["b", 1, "c"]) == 5
    assert file.line_of(["b", 1, "d"]) == 6
    assert file.line_of(["b", 1, "d", 1]) == 7


def test_a_key_that_is_not_there_has_the_line_of_its_parent(tmp_path: Path) -> None:
    file = read_yaml(write(tmp_path, "a:\n  b: 1\n"))
    assert file.line_of(["a", "c", "d"]) == 1
    assert file.line_of(["z"]) is None
    assert file.line_of([]) is None


def test_aliases_repeat_what_they_name(tmp_path: Path) -> None:
    file = read_yaml(write(tmp_path, "a: &x {b: [1]}\nc: *x\nd: &n 5\ne: *n\n"))
    assert file.data == {"a": {"b": [1]}, "c": {"b": [1]}, "d": 5, "e": 5}
    assert file.line_of(["c", "b", 0]) == 2


def test_an_anchor_named_twice_counts_from_there_on(tmp_path: Path) -> None:
    assert read_yaml(write(tmp_path, "a: &x 1\nb: *x\nc: &x 2\nd: *x\n")).data == {"a": 1, "b": 1, "c": 2, "d": 2}


def test_all_duplicate_keys_are_told(tmp_path: Path) -> None:
    assert refusal(write(tmp_path, "a: 1\nb: {c: 1,\n c: 2}\na: 2\n")).splitlines() == [
        "a.yaml:3: b.c: this key stands here twice, first in line 2",
        "a.yaml:4: a: this key stands here twice, first in line 1",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a:\n\tb: 1\n", "a.yaml:2: a tab stands here where YAML takes spaces only"),
        ("a: 1\nb: @x\n", "a.yaml:2: no value may begin with @: put it in quotes"),
        ("a: *x\n", "a.yaml:1: the alias *x has no anchor &x that ends before it"),
        ("a: &x [*x]\n", "a.yaml:1: the alias *x has no anchor &x that ends before it"),
        ("? [a, b]\n: 1\n", "a.yaml:1: a key must be a word, not a list or a mapping"),
        ("a: &x b\n*x : 1\n", "a.yaml:2: a key must be a word, not an alias"),
        ("a: !include other.yaml\n", "a.yaml:1: the tag !include is refused: a config holds plain values only"),
        ("a: 1\nb: \x07\n", "a.yaml:2: holds a control character that YAML does not allow"),
        (b"a: 1\nb: \xff\n", "a.yaml:2: is not UTF-8 text"),
        ("a: " + "9" * 5000 + "\n", "a.yaml:1: holds a number that is too long"),
        ("a: " + "[" * 5000, "a.yaml:1: is nested more than 64 levels deep"),
        ("", "a.yaml: the file is empty"),
        ("# only a comment\n", "a.yaml: the file is empty"),
        ("just words\n", "a.yaml:1: must be `key: value` lines at the top level"),
    ],
)
def test_what_is_no_config_is_refused_at_its_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    assert refusal(write(tmp_path, content)) == message


def test_aliases_that_unfold_without_end_are_refused_at_once(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert refusal(write(tmp_path, "\n".join(lines))) == "a.yaml:6: its aliases unfold to far more than a config can be"


def test_a_long_text_repeated_by_aliases_is_refused(tmp_path: Path) -> None:
    content = f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 50)}]\n"
    assert "unfold to far more" in refusal(write(tmp_path, content))


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    assert read_yaml(write(tmp_path, b"\xef\xbb\xbfa: 1\n")).data == {"a": 1}


def test_a_missing_file_is_told_with_the_nearest_name(tmp_path: Path) -> None:
    write(tmp_path, "a: 1\n", name="quickstart.yaml")
    assert refusal(tmp_path / "quikstart.yaml") == "quikstart.yaml: no such file (did you mean `quickstart.yaml`?)"


def test_a_folder_and_a_missing_folder_are_told(tmp_path: Path) -> None:
    assert "is a folder" in refusal(tmp_path)
    assert "there is no folder" in refusal(tmp_path / "nowhere" / "a.yaml")


def test_a_file_too_large_is_not_read(tmp_path: Path) -> None:
    path = write(tmp_path, b"# " + b"x" * MAX_BYTES)
    assert refusal(path) == f"a.yaml: is {MAX_BYTES + 2} bytes long; a config may have {MAX_BYTES} at most"
