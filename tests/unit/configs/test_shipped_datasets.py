"""The shipped datasets: made by their seeds, byte for byte, and right in themselves."""

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from ruamel.yaml import YAML

import configs
from configs.datasets import make
from configs.datasets.recipes import choice, facts, needle
from configs.datasets.recipes.draw import Draw
from schemas.dataset import Dataset
from schemas.source import JsonlSource

CONFIGS = Path(configs.__file__ or "").parent
NAMES = tuple(make.RECIPES)
SIZES = {"arithmetic": 300, "extract": 150, "choice": 150, "needle": 100}


def shipped_rows(name: str) -> list[dict[str, Any]]:
    text = (CONFIGS / "datasets" / "data" / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def shipped_config(name: str) -> Dataset:
    text = (CONFIGS / "datasets" / f"{name}.yaml").read_text(encoding="utf-8")
    return Dataset.model_validate(YAML(typ="safe").load(text))


def order_schema() -> dict[str, Any]:
    config = shipped_config("extract")
    assert config.guide is not None
    assert isinstance(config.guide.schema_, str)
    schema: dict[str, Any] = json.loads((CONFIGS / config.guide.schema_).read_text(encoding="utf-8"))
    return schema


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_makes_the_file_byte_for_byte(name: str, tmp_path: Path) -> None:
    make.write(folder=tmp_path)
    assert (tmp_path / f"{name}.jsonl").read_bytes() == (make.FOLDER / f"{name}.jsonl").read_bytes()


def test_check_finds_a_changed_and_a_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert make.main(["--into", str(tmp_path)]) == 0
    assert make.main(["--check", "--into", str(tmp_path)]) == 0
    (tmp_path / "choice.jsonl").unlink()
    with (tmp_path / "extract.jsonl").open("ab") as file:
        file.write(b"\n")
    capsys.readouterr()
    assert make.main(["--check", "--into", str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "arithmetic.jsonl ok",
        "extract.jsonl differs from its seed",
        "choice.jsonl differs from its seed",
        "needle.jsonl ok",
    ]


def test_the_files_are_what_the_checkout_ships() -> None:
    assert make.main(["--check"]) == 0
    assert sum(path.stat().st_size for path in make.FOLDER.glob("*.jsonl")) < 1_400_000


def test_draws_rest_on_the_one_guaranteed_sequence() -> None:
    ours, plain = Draw(seed=7), random.Random(7)
    assert [ours.share() for _ in range(3)] == [plain.random() for _ in range(3)]
    assert [Draw(seed=7).between(1, 6), Draw(seed=7).pick("abcdef")] == [2, "b"]
    assert sorted(Draw(seed=1).shuffled(range(50))) == list(range(50))
    drawn = Draw(seed=2)
    assert Counter(drawn.between(3, 5) for _ in range(3000)).keys() == {3, 4, 5}


@pytest.mark.parametrize("name", NAMES)
def test_yaml_fits_its_rows(name: str) -> None:
    config, rows = shipped_config(name), shipped_rows(name)
    assert isinstance(config.source, JsonlSource)
    data = (CONFIGS / "datasets" / config.source.path).read_bytes()
    assert config.source.revision == f"sha256:{hashlib.sha256(data).hexdigest()}"
    assert config.license == "Apache-2.0"
    assert config.description
    assert config.guide is not None
    assert config.id_field == "id"
    assert len(rows) == SIZES[name]
    assert len({row["id"] for row in rows}) == len(rows)
    templates = [*(message.content for message in config.prompt.messages or []), config.target or ""]
    used = set(re.findall(r"{{ *(\w+)", " ".join(templates)))
    assert used
    assert all(used - {"option"} <= row.keys() for row in rows)


SOLUTIONS: dict[str, Callable[..., float]] = {
    "gain": lambda a, b: a + b,
    "loss": lambda a, b: a - b,
    "packed": lambda a, b: a * b,
    "shared": lambda a, b: a / b,
    "more": lambda a, b: a - b,
    "journey": lambda a, b: a + b,
    "gain_loss": lambda a, b, c: a - b + c,
    "gain_twice": lambda a, b, c: a + b + c,
    "packed_less": lambda a, b, c: a * b - c,
    "change": lambda a, b, c: c - a * b,
    "shared_after_gain": lambda a, b, c: (a + b) / c,
    "double": lambda a, b: a * (1 + b),
}


def test_arithmetic_solved_again_from_the_question_alone() -> None:
    for row in shipped_rows("arithmetic"):
        numbers = [int(digits) for digits in re.findall(r"\d+", row["question"])]
        assert SOLUTIONS[row["story"]](*numbers) == row["answer"], row
        assert isinstance(row["answer"], int)
        assert row["answer"] >= 0


def test_arithmetic_is_varied() -> None:
    rows = shipped_rows("arithmetic")
    assert len({row["question"] for row in rows}) == len(rows)
    assert {row["steps"] for row in rows[:60]} == {1, 2}
    assert {row["story"] for row in rows[:60]} == SOLUTIONS.keys()
    without_numbers_and_names = {re.sub(r"\d+|\b[A-Z]\w+\b", "_", row["question"]) for row in rows}
    assert len(without_numbers_and_names) > 150


def test_arithmetic_guide_takes_a_worked_answer() -> None:
    guide = shipped_config("arithmetic").guide
    assert guide is not None
    assert guide.pattern is not None
    for right in ("6 + 3 = 9\nAnswer: 9", "4 * 5 = 20\n20 - 2 = 18\nAnswer: 18"):
        assert re.fullmatch(guide.pattern, right)
    for wrong in ("9", "Answer: 9", "6 + 3 = 9", "6 + 3 = 9\nAnswer: nine"):
        assert not re.fullmatch(guide.pattern, wrong)


def test_extract_targets_validate_and_stand_in_the_text() -> None:
    validator = jsonschema_rs.validator_for(order_schema())
    rows = shipped_rows("extract")
    assert len({row["text"] for row in rows}) == len(rows)
    for row in rows:
        order, text = row["order"], row["text"]
        assert [error.message for error in validator.iter_errors(order)] == []
        assert order["customer"]["name"] in text
        assert order["customer"]["city"] in text
        assert f"{order['total']:.2f}" in text
        year, month, day = order["date"].split("-")
        assert order["date"] in text or (year in text and re.search(rf"\b{int(day)}\b", text))
        assert 1 <= int(month) <= 12
        assert all(f"{item['quantity']} x {item['name']}" in text for item in order["items"])
        assert text.count(" x ") == len(order["items"])
        assert order["kind"] in text.lower() or (order["kind"] == "shipment" and "shipped" in text.lower())
    assert Counter(row["order"]["kind"] for row in rows) == {"order": 50, "invoice": 50, "shipment": 50}
    assert {len(row["order"]["items"]) for row in rows[:60]} >= {1, 2}


def test_order_schema_refuses_what_it_should() -> None:
    validator = jsonschema_rs.validator_for(order_schema())
    right = shipped_rows("extract")[0]["order"]
    broken = [
        right | {"kind": "bill"},
        right | {"date": "8 April 2023"},
        right | {"total": "303.00"},
        right | {"items": []},
        right | {"note": "none"},
        right | {"customer": {"name": "Sunrise Cafe"}},
    ]
    assert validator.is_valid(right)
    assert not any(validator.is_valid(order) for order in broken)


def test_choice_options_are_distinct_and_the_right_place_is_balanced() -> None:
    rows = shipped_rows("choice")
    for row in rows:
        assert len({option.lower() for option in row["options"]}) == 4
        assert row["answer"] in range(4)
    assert len({row["question"] + row["options"][row["answer"]] for row in rows}) == len(rows)
    assert set(Counter(row["answer"] for row in rows).values()) <= {37, 38}
    assert Counter(row["answer"] for row in rows[:60]) == {0: 15, 1: 15, 2: 15, 3: 15}
    assert {row["subject"] for row in rows[:60]} == choice.SUBJECTS.keys()


def test_choice_answers_checked_against_the_facts() -> None:
    sums: dict[str, Callable[..., int]] = {
        r"What is (\d+) \+ (\d+)\?": lambda a, b: a + b,
        r"What is (\d+) times (\d+)\?": lambda a, b: a * b,
        r"Which number comes next: (\d+), (\d+), (\d+), (\d+)\?": lambda a, b, c, d: d + (d - c),
    }
    group_of = {member: group for group, members in facts.GROUPS.items() for member in members}
    capitals = dict(facts.CAPITALS)
    solved: Counter[str] = Counter()
    for row in shipped_rows("choice"):
        right, wrong = row["options"][row["answer"]], [o for i, o in enumerate(row["options"]) if i != row["answer"]]
        for pattern, solve in sums.items():
            if found := re.fullmatch(pattern, row["question"]):
                assert right == str(solve(*map(int, found.groups())))
                solved["sums"] += 1
        if row["subject"] == "member":
            assert re.fullmatch(rf"Which of these is an? {group_of[right]}\?", row["question"])
            assert group_of[right] not in {group_of[option] for option in wrong}
            solved["member"] += 1
        if row["subject"] == "odd_one":
            assert len({group_of[option] for option in wrong}) == 1
            assert group_of[right] != group_of[wrong[0]]
            solved["odd_one"] += 1
        if row["subject"] == "capital":
            assert row["question"] == f"What is the capital of {next(k for k, v in capitals.items() if v == right)}?"
            solved["capital"] += 1
    assert min(solved[subject] for subject in ("sums", "member", "odd_one", "capital")) >= 9


@pytest.mark.parametrize("table", ["CAPITALS", "OPPOSITES", "YOUNG", "SOUNDS", "COLOURS", "USES", "WORKERS"])
def test_no_two_facts_of_a_table_share_a_side(table: str) -> None:
    asked, right = zip(*getattr(facts, table), strict=True)
    assert len(set(asked)) == len(asked)
    assert len(set(right)) == len(right)


def test_groups_share_no_member() -> None:
    members = [member for group in facts.GROUPS.values() for member in group]
    assert len(set(members)) == len(members)


def test_needle_fact_occurs_once_at_its_depth() -> None:
    for row in shipped_rows("needle"):
        fact = f"The access code for the {row['place']} is {row['code']}."
        assert row["text"].count(fact) == 1
        assert row["text"].count(row["code"]) == 1
        codes = re.findall(r"\d+", row["text"])
        assert len(set(codes)) == len(codes) == 4
        assert row["text"].count(f" {row['place']} ") == 1
        place = row["text"].index(fact) / len(row["text"])
        assert row["depth"] - 0.03 < place < row["depth"] + 0.08, row["id"]


def test_needle_lengths_cover_500_to_6000_tokens() -> None:
    rows = shipped_rows("needle")
    assert [row["length"] for row in rows[:8]] == [500, 800, 1200, 700, 2500, 600, 3500, 1000]
    assert {row["length"] for row in rows} >= {500, 1000, 2000, 3000, 4500, 6000}
    for row in rows:
        assert abs(len(row["text"]) / needle.CHARACTERS_PER_TOKEN - row["length"]) < 40, row["id"]
    assert len({(row["length"], row["depth"]) for row in rows}) > 50
