"""One fact hidden in pages of invented records, among facts much like it, and a question for it at the end."""

from collections.abc import Sequence
from typing import Any

from configs.datasets.recipes.draw import Draw

ROWS = 100
SEED = 20_260_104
CHARACTERS_PER_TOKEN = 5.25
"""Of this filler, under SmolLM2's tokenizer: a row's length in tokens is aimed at without loading one."""

FIRST_LENGTHS = (500, 800, 1200, 700, 2500, 600, 3500, 1000)
"""Of the first rows, in tokens: all sizes in few rows, so that a short run meets short and long prompts alike."""
LENGTHS = (500, 1500, 700, 3000, 900, 600, 2000, 1200, 4500, 800, 1000, 6000)
"""Of the rows after those, over and over. Most are short: the file stays small."""
DEPTHS = (0.5, 0.9, 0.1, 0.7, 0.3)
"""How far into the text the fact stands, over and over, so that depth and length do not go together."""

COLOURS = ("blue", "green", "grey", "white", "yellow", "brown", "silver", "purple", "orange", "black")
PLACES = ("archive", "cabinet", "locker", "gate", "vault", "workshop", "cellar", "library", "garage", "greenhouse")

SUBJECTS = (
    "the night porter", "our librarian", "the younger gardener", "a visiting engineer", "the head cook",
    "the museum guide", "a retired captain", "the station clerk", "the choir leader", "an old clockmaker",
    "the ferry pilot", "a travelling botanist",
)  # fmt: skip
VERBS = (
    "cleaned", "described", "repaired", "measured", "painted", "inspected", "moved", "photographed", "sketched",
    "polished", "catalogued", "admired",
)  # fmt: skip
OBJECTS = (
    "the brass telescope", "a row of wooden benches", "the long corridor", "several faded maps", "the stone fountain",
    "a pair of copper kettles", "the tall bookcase", "the garden wall", "an unfinished model ship",
    "the stained window", "a drawer full of seeds", "the winding staircase",
)  # fmt: skip
TIMES = (
    "Early in the morning", "After lunch", "Late in the evening", "During the first snowfall",
    "Before the market opened", "While the rain lasted", "On a quiet Sunday", "At the end of the season",
    "Shortly before noon", "In the last week of May",
)  # fmt: skip
ENDS = (
    "and wrote a short note about it", "without saying a word", "while two neighbours looked on",
    "and then went home along the canal", "as had been agreed in the spring", "with more patience than usual",
    "because nobody else had the time", "and left the door ajar", "to the surprise of the whole committee",
    "although the light was already poor",
)  # fmt: skip
REMARKS = (
    "Nothing else of importance happened that day.", "The weather stayed mild for the rest of the week.",
    "Nobody asked why it had taken so long.", "The committee thanked everyone involved.",
    "A small lamp was left burning near the entrance.", "Most visitors did not notice the difference.",
    "The matter was not mentioned again.", "Fresh bread was served in the kitchen afterwards.",
)  # fmt: skip


def rows() -> list[dict[str, Any]]:
    """The dataset's rows; `length` is the aimed number of tokens of `text`, `depth` the fact's place in it."""
    rest = [LENGTHS[index % len(LENGTHS)] for index in range(ROWS - len(FIRST_LENGTHS))]
    return _rows(lengths=[*FIRST_LENGTHS, *rest], draw=Draw(seed=SEED))


def rows_of_length(*, tokens: int, count: int, seed: int) -> list[dict[str, Any]]:
    """Rows whose texts all have about `tokens` tokens, the fact at every depth in turn."""
    return _rows(lengths=[tokens] * count, draw=Draw(seed=seed))


def _rows(*, lengths: Sequence[int], draw: Draw) -> list[dict[str, Any]]:
    result = []
    for index, length in enumerate(lengths):
        depth = DEPTHS[index % len(DEPTHS)]
        colour, *others = draw.several(COLOURS, 3)
        thing, *things = draw.several(PLACES, 3)
        places = [f"{colour} {thing}", f"{others[0]} {thing}", f"{colour} {things[0]}", f"{others[1]} {things[1]}"]
        codes = _codes(count=len(places), draw=draw)
        fact, *decoys = [
            f"The access code for the {place} is {code}." for place, code in zip(places, codes, strict=True)
        ]
        result.append(
            {
                "id": f"needle-{index + 1:03d}",
                "text": _text(fact=fact, decoys=decoys, length=length, depth=depth, draw=draw),
                "place": places[0],
                "code": codes[0],
                "length": length,
                "depth": depth,
            }
        )
    return result


def _codes(*, count: int, draw: Draw) -> list[str]:
    codes: list[str] = []
    while len(codes) < count:
        code = str(draw.between(1000, 9999))
        if code not in codes:
            codes.append(code)
    return codes


def _text(*, fact: str, decoys: list[str], length: int, depth: float, draw: Draw) -> str:
    """Sentences up to the length, the fact at its depth, the decoys at the depths that DEPTHS has beside it."""
    characters = length * CHARACTERS_PER_TOKEN
    free_depths = draw.several([other for other in DEPTHS if other != depth], len(decoys))
    hidden = sorted([(depth, fact), *zip(free_depths, decoys, strict=True)])
    sentences: list[str] = []
    written = 0
    while written < characters:
        if hidden and written >= hidden[0][0] * characters:
            sentences.append(hidden.pop(0)[1])
        else:
            sentences.append(_sentence(draw))
        written += len(sentences[-1]) + 1
    return " ".join(sentences)


def _sentence(draw: Draw) -> str:
    if draw.share() < 0.2:
        return draw.pick(REMARKS)
    return f"{draw.pick(TIMES)} {draw.pick(SUBJECTS)} {draw.pick(VERBS)} {draw.pick(OBJECTS)} {draw.pick(ENDS)}."
