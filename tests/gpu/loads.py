"""What the engines are given: token ids drawn anew for every pass, so that no pass finds another's prefixes cached;
and, where the answers count, texts."""

import random
from dataclasses import dataclass, replace
from pathlib import Path

from tasks.engine.protocol import WireRequest, WireSampling

SHORT = 1_000
"""A prompt of fewer tokens counts as a short one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Requests that are sent together. shape: each one's prompt and output, in tokens, in the order of sending.

    at_once: so many are in flight, and the next is sent when one has come back; None: all of them. prompts: the same in
    every pass, in place of drawn ones. expected: what each answer is if it copies its prompt."""

    name: str
    shape: tuple[tuple[int, int], ...]
    at_once: int | None = None
    prompts: tuple[tuple[int, ...], ...] | None = None
    expected: tuple[tuple[int, ...], ...] | None = None

    @property
    def prompt_tokens(self) -> list[int]:
        return [prompt for prompt, _ in self.shape]

    @property
    def output_tokens(self) -> list[int]:
        return [output for _, output in self.shape]

    def smaller(self) -> "Load":
        """A few short requests of the same kind: to try the script."""
        if self.prompts is not None:
            some = self.shape[:4]
            at_once = None if self.at_once is None else min(2, self.at_once)
            return replace(self, shape=tuple((prompt, 24) for prompt, _ in some), at_once=at_once)
        some = self.shape[:2] + self.shape[-2:]
        return Load(name=self.name, shape=tuple((min(prompt, 40 + prompt // 40), 4) for prompt, _ in some))

    def requests(self, *, seed: int, vocabulary: int) -> list[WireRequest]:
        """The requests, drawn ones with other tokens for every seed. Each makes exactly its number of tokens."""
        draw = random.Random(f"{self.name} {seed}")
        return [
            WireRequest(
                request_id=f"{self.name}-{seed}-{index}",
                prompt_token_ids=[draw.randrange(100, vocabulary) for _ in range(prompt)]
                if self.prompts is None
                else list(self.prompts[index]),
                sampling=WireSampling(temperature=0.0, max_tokens=output, ignore_eos=True),
            )
            for index, (prompt, output) in enumerate(self.shape)
        ]


def batch(size: int, *, prompt: int = 32, output: int = 128) -> Load:
    """Equal requests that decode side by side."""
    return Load(name=f"batch of {size}", shape=((prompt, output),) * size)


def mix(name: str, *, long: tuple[int, int], short: tuple[int, int], output: int = 32) -> Load:
    """long and short: how many, and the tokens of each prompt; the long ones are sent first."""
    return Load(name=name, shape=((long[1], output),) * long[0] + ((short[1], output),) * short[0])


def chat(size: int, *, output: int = 64) -> Load:
    """Short prompts of 20 to 200 tokens."""
    draw = random.Random("chat")
    return Load(name="short chat", shape=tuple((draw.randint(20, 200), output) for _ in range(size)))


def documents(size: int, *, shortest: int = 8_000, longest: int = 32_000, output: int = 32) -> Load:
    """Long prompts, evenly spread between the two lengths, in a drawn order."""
    step = (longest - shortest) // max(1, size - 1)
    lengths = [shortest + index * step for index in range(size)]
    random.Random("documents").shuffle(lengths)
    return Load(name="long documents", shape=tuple((length, output) for length in lengths))


# fmt: off
_THINGS = (
    "river", "stone", "copper", "maple", "harbor", "winter", "candle", "garden", "silver", "meadow", "thunder",
    "basket", "lantern", "orchard", "velvet", "compass", "ribbon", "marble", "falcon", "saddle", "hammer", "pepper",
    "cotton", "island", "bridge", "ladder", "mirror", "window", "kettle", "pillow",
)
# fmt: on
_COLOURS = ("red", "blue", "green", "white", "black", "brown", "grey", "pink", "yellow", "orange")


def copying(*, tokenizer: Path, requests: int, at_once: int, output: int = 256) -> Load:
    """Lists of eight lines that stand in the prompt four times, and that SmolLM2-135M goes on writing. tokenizer: its
    tokenizer.json."""
    from tokenizers import Tokenizer

    encoder = Tokenizer.from_file(str(tokenizer))
    prompts, expected = [], []
    for index in range(requests):
        draw = random.Random(f"copying {index}")
        things = draw.sample(_THINGS, 8)
        text = "".join(f"- {thing}: {draw.randint(2, 9)} {draw.choice(_COLOURS)} boxes\n" for thing in things)
        length = len(encoder.encode(text * 4, add_special_tokens=False).ids)
        whole = encoder.encode(text * (8 + output // 32), add_special_tokens=False).ids
        prompts.append(tuple(whole[:length]))
        expected.append(tuple(whole[length : length + output]))
    return Load(
        name=f"{requests} lists, {at_once} at once",
        shape=tuple((len(prompt), output) for prompt in prompts),
        at_once=at_once,
        prompts=tuple(prompts),
        expected=tuple(expected),
    )
