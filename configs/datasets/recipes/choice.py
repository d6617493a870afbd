"""Multiple choice questions with four options, from tables of plain facts and from small sums."""

from collections.abc import Callable, Sequence
from typing import Any

from configs.datasets.recipes import facts
from configs.datasets.recipes.draw import Draw

ROWS = 150
SEED = 20_260_103

Question = tuple[str, str, Sequence[str]]
"""The question, the right option, and the wrong ones."""


def _from_table(table: Sequence[tuple[str, str]], wording: str) -> Callable[[Draw], Question]:
    def ask(draw: Draw) -> Question:
        (asked, right), *others = draw.several(table, 4)
        return wording.format(asked), right, [wrong for _, wrong in others]

    return ask


def _from_forms(table: Sequence[tuple[str, ...]], wording: str) -> Callable[[Draw], Question]:
    def ask(draw: Draw) -> Question:
        word, right, *wrong = draw.pick(table)
        return wording.format(word), right, wrong

    return ask


def _analogy(draw: Draw) -> Question:
    (worker, tool), (asked, right), *others = draw.several(facts.WORKERS, 5)
    return f"{worker.capitalize()} is to {tool} as {asked} is to what?", right, [wrong for _, wrong in others]


def _member(draw: Draw) -> Question:
    group, *others = draw.several(tuple(facts.GROUPS), 4)
    article = "an" if group[0] in "aeiou" else "a"
    wrong = [draw.pick(facts.GROUPS[other]) for other in others]
    return f"Which of these is {article} {group}?", draw.pick(facts.GROUPS[group]), wrong


def _odd_one(draw: Draw) -> Question:
    group, other = draw.several(tuple(facts.GROUPS), 2)
    right = draw.pick(facts.GROUPS[other])
    return "Which of these does not belong with the others?", right, draw.several(facts.GROUPS[group], 3)


def _largest(draw: Draw) -> Question:
    rows = sorted(draw.several(tuple(range(len(facts.SIZES))), 4))
    *wrong, right = [draw.pick(facts.SIZES[row]) for row in rows]
    return "Which of these animals is usually the largest?", right, wrong


def _number(wording: str, right: int, draw: Draw) -> Question:
    near = [right + step for step in (-10, -3, -2, -1, 1, 2, 3, 10) if right + step >= 0]
    return wording, str(right), [str(value) for value in draw.several(near, 3)]


def _sum(draw: Draw) -> Question:
    first, second = draw.between(2, 20), draw.between(2, 20)
    return _number(f"What is {first} + {second}?", first + second, draw)


def _product(draw: Draw) -> Question:
    first, second = draw.between(2, 9), draw.between(2, 9)
    return _number(f"What is {first} times {second}?", first * second, draw)


def _series(draw: Draw) -> Question:
    start, step = draw.between(1, 12), draw.pick((1, 2, 3, 5, 10))
    shown = ", ".join(str(start + step * place) for place in range(4))
    return _number(f"Which number comes next: {shown}?", start + 4 * step, draw)


def _calendar(draw: Draw) -> Question:
    kind, names = draw.pick((("day", facts.DAYS), ("month", facts.MONTHS)))
    place, step = draw.between(0, len(names) - 1), draw.pick((1, -1))
    asked, right = names[place], names[(place + step) % len(names)]
    wrong = draw.several([name for name in names if name not in (asked, right)], 3)
    return f"Which {kind} comes right {'after' if step > 0 else 'before'} {asked}?", right, wrong


SUBJECTS: dict[str, Callable[[Draw], Question]] = {
    "capital": _from_table(facts.CAPITALS, "What is the capital of {}?"),
    "opposite": _from_table(facts.OPPOSITES, 'Which word means the opposite of "{}"?'),
    "young": _from_table(facts.YOUNG, "What is a young {} called?"),
    "sound": _from_table(facts.SOUNDS, "Which animal is known to {}?"),
    "colour": _from_table(facts.COLOURS, "What colour is {}?"),
    "use": _from_table(facts.USES, "What would you use to {}?"),
    "plural": _from_forms(facts.PLURALS, 'What is the plural of "{}"?'),
    "past": _from_forms(facts.PASTS, 'What is the past tense of "{}"?'),
    "analogy": _analogy,
    "member": _member,
    "odd_one": _odd_one,
    "largest": _largest,
    "sum": _sum,
    "product": _product,
    "series": _series,
    "calendar": _calendar,
}


def rows() -> list[dict[str, Any]]:
    """The dataset's rows: the subjects in turn, no question twice, the right option at each place equally often."""
    draw = Draw(seed=SEED)
    seen: set[str] = set()
    result: list[dict[str, Any]] = []
    subjects: list[str] = []
    places: list[int] = []
    for number in range(1, ROWS + 1):
        subjects = subjects or draw.shuffled(tuple(SUBJECTS))
        places = places or draw.shuffled(range(4))
        subject, place = subjects.pop(), places.pop()
        question, right, options = _fresh(subject=subject, draw=draw, seen=seen)
        options.insert(place, right)
        result.append(
            {
                "id": f"choice-{number:03d}",
                "question": question,
                "options": options,
                "answer": place,
                "subject": subject,
            }
        )
    return result


def _fresh(*, subject: str, draw: Draw, seen: set[str]) -> tuple[str, str, list[str]]:
    while True:
        question, right, wrong = SUBJECTS[subject](draw)
        key = f"{question} {right}"
        if key not in seen:
            seen.add(key)
            return question, right, draw.shuffled(wrong)
