"""Word problems of one or two steps whose answer is a whole number."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from configs.datasets.recipes.draw import Draw

ROWS = 300
SEED = 20_260_101

PEOPLE = (
    ("Mara", "she"), ("Jonas", "he"), ("Amina", "she"), ("Tobias", "he"), ("Lucia", "she"), ("Henrik", "he"),
    ("Priya", "she"), ("Mateo", "he"), ("Ingrid", "she"), ("Kofi", "he"), ("Yuki", "she"), ("Omar", "he"),
    ("Nadia", "she"), ("Pavel", "he"), ("Rosa", "she"), ("Emil", "he"),
)  # fmt: skip
THINGS = (
    "marbles", "pencils", "stickers", "apples", "buttons", "shells", "postcards", "coins", "stamps", "walnuts",
    "beads", "crayons", "lemons", "candles",
)  # fmt: skip
HOLDERS = ("boxes", "bags", "baskets", "jars", "trays", "crates")


@dataclass(frozen=True)
class Story:
    """A kind of problem: its numbers in the order in which every wording names them, and what they make."""

    name: str
    steps: int
    numbers: Callable[[Draw], tuple[int, ...]]
    solve: Callable[..., int]
    wordings: tuple[str, ...]


def _two(low: int, high: int) -> Callable[[Draw], tuple[int, ...]]:
    return lambda draw: (draw.between(low, high), draw.between(low, high))


def _less(low: int, high: int) -> Callable[[Draw], tuple[int, ...]]:
    def numbers(draw: Draw) -> tuple[int, ...]:
        part = draw.between(low, high - 1)
        return draw.between(part + 1, high), part

    return numbers


def _shares(draw: Draw) -> tuple[int, ...]:
    people = draw.between(2, 6)
    return people * draw.between(2, 9), people


def _shares_after_gain(draw: Draw) -> tuple[int, ...]:
    people, each, gained = draw.between(2, 5), draw.between(3, 8), draw.between(1, 5)
    return people * each - gained, gained, people


def _packed_less(draw: Draw) -> tuple[int, ...]:
    holders, each = draw.between(2, 6), draw.between(3, 9)
    return holders, each, draw.between(1, 5)


def _price_change(draw: Draw) -> tuple[int, ...]:
    count, price = draw.between(2, 5), draw.between(2, 6)
    return count, price, count * price + draw.between(1, 9)


def _bus(draw: Draw) -> tuple[int, ...]:
    first = draw.between(10, 30)
    return first, draw.between(2, 9), draw.between(2, 9)


STORIES = (
    Story("gain", 1, _two(2, 20), lambda a, b: a + b, (
        "{name} has {a} {thing}. A friend gives {name} {b} more. How many {thing} does {name} have now?",
        "There were {a} {thing} in {name}'s drawer, and {b} more were put in. How many {thing} are in the drawer now?",
        "On Monday {name} found {a} {thing}. On Tuesday {he} found {b}. How many {thing} did {name} find in all?",
    )),
    Story("loss", 1, _less(2, 20), lambda a, b: a - b, (
        "{name} had {a} {thing} and gave {b} of them away. How many {thing} are left?",
        "Of the {a} {thing} on the table, {b} fell to the floor. How many {thing} are still on the table?",
        "{name} started the week with {a} {thing} and lost {b}. How many {thing} does {he} still have?",
    )),
    Story("packed", 1, _two(2, 9), lambda a, b: a * b, (
        "{name} fills {a} {holder} with {b} {thing} each. How many {thing} is that in all?",
        "There are {a} {holder}, and each holds {b} {thing}. How many {thing} are there altogether?",
        "A shop sells {thing} in {a} {holder} of {b}. How many {thing} does the shop have?",
    )),
    Story("shared", 1, _shares, lambda a, b: a // b, (
        "{name} shares {a} {thing} equally among {b} children. How many {thing} does each child get?",
        "{a} {thing} are put into {b} equal piles. How many {thing} are in each pile?",
        "A set of {a} {thing} is split evenly between {b} teams. How many {thing} does one team receive?",
    )),
    Story("more", 1, _less(2, 20), lambda a, b: a - b, (
        "{name} has {a} {thing} and {other} has {b}. How many more {thing} does {name} have than {other}?",
        "{name} counted {a} {thing}, {other} counted {b}. By how many is {name}'s count larger?",
    )),
    Story("journey", 1, _two(2, 15), lambda a, b: a + b, (
        "{name} walks {a} kilometres in the morning and {b} kilometres in the afternoon. How many kilometres is that?",
        "A train needs {a} minutes to the first stop and {b} minutes from there to the next. "
        "How many minutes does the whole ride take?",
    )),
    Story("gain_loss", 2, _bus, lambda a, b, c: a - b + c, (
        "A bus carries {a} people. At a stop {b} get off and {c} get on. How many people are on the bus now?",
        "{name} had {a} {thing}. {he_start} sold {b} and then bought {c}. How many {thing} does {name} have now?",
    )),
    Story("gain_twice", 2, lambda draw: (draw.between(2, 12), draw.between(2, 9), draw.between(2, 9)),
          lambda a, b, c: a + b + c, (
        "{name} picked {a} {thing} on Friday, {b} on Saturday and {c} on Sunday. How many {thing} were picked in all?",
        "{name} has {a} {thing}, {other} has {b}, and their neighbour has {c}. How many {thing} do all three have?",
    )),
    Story("packed_less", 2, _packed_less, lambda a, b, c: a * b - c, (
        "{name} buys {a} {holder} with {b} {thing} each and then gives {c} {thing} away. How many {thing} are left?",
        "In {a} {holder} there are {b} {thing} each, but {c} {thing} turn out broken. How many {thing} are whole?",
    )),
    Story("change", 2, _price_change, lambda a, b, c: c - a * b, (
        "{name} buys {a} notebooks at {b} dollars each and pays with {c} dollars. How many dollars does {he} get back?",
        "Tickets: {a} seats at {b} dollars apiece. {name} had {c} dollars before. How many dollars are left?",
    )),
    Story("shared_after_gain", 2, _shares_after_gain, lambda a, b, c: (a + b) // c, (
        "{name} had {a} {thing}, got {b} more and divided all of them equally among {c} friends. "
        "How many {thing} did each friend get?",
        "A basket with {a} {thing} is topped up with {b}. All are then split evenly between {c} families. "
        "How many {thing} does one family get?",
    )),
    Story("double", 2, lambda draw: (draw.between(2, 12), 2), lambda a, b: a + b * a, (
        "{name} has {a} {thing}. {other} has {b} times as many. How many {thing} do they have together?",
        "{name} read {a} pages on Monday and {b} times as many on Tuesday. How many pages did {he} read in both days?",
    )),
)  # fmt: skip


def rows() -> list[dict[str, Any]]:
    """The dataset's rows: every story equally often, in a drawn order, no question twice."""
    draw = Draw(seed=SEED)
    seen: set[str] = set()
    result: list[dict[str, Any]] = []
    order = [story for _ in range(ROWS // len(STORIES)) for story in draw.shuffled(STORIES)]
    for number, story in enumerate(order, start=1):
        question, answer = _fresh(story=story, draw=draw, seen=seen)
        result.append(
            {
                "id": f"arithmetic-{number:03d}",
                "question": question,
                "answer": answer,
                "steps": story.steps,
                "story": story.name,
            }
        )
    return result


def _fresh(*, story: Story, draw: Draw, seen: set[str]) -> tuple[str, int]:
    while True:
        numbers = story.numbers(draw)
        (name, he), (other, _) = draw.several(PEOPLE, 2)
        question = draw.pick(story.wordings).format(
            name=name, he=he, he_start=he.capitalize(), other=other, thing=draw.pick(THINGS),
            holder=draw.pick(HOLDERS), **dict(zip("abc", numbers, strict=False)),
        )  # fmt: skip
        if question not in seen:
            seen.add(question)
            return question, story.solve(*numbers)
