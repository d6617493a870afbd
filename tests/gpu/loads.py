"""What the engines are given: token ids drawn anew for every pass, so that no pass finds another's prefixes cached."""

import random
from dataclasses import dataclass

from tasks.engine.protocol import WireRequest, WireSampling

SHORT = 1_000
"""A prompt of fewer tokens counts as a short one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Requests that are sent together. shape: each one's prompt and output, in tokens, in the order of sending."""

    name: str
    shape: tuple[tuple[int, int], ...]

    @property
    def prompt_tokens(self) -> list[int]:
        return [prompt for prompt, _ in self.shape]

    @property
    def output_tokens(self) -> list[int]:
        return [output for _, output in self.shape]

    def smaller(self) -> "Load":
        """A few short requests of the same kind: to try the script."""
        some = self.shape[:2] + self.shape[-2:]
        return Load(name=self.name, shape=tuple((min(prompt, 40 + prompt // 40), 4) for prompt, _ in some))

    def requests(self, *, seed: int, vocabulary: int) -> list[WireRequest]:
        """The requests, with other tokens for every seed. Each makes exactly its number of tokens."""
        draw = random.Random(f"{self.name} {seed}")
        return [
            WireRequest(
                request_id=f"{self.name}-{seed}-{index}",
                prompt_token_ids=[draw.randrange(100, vocabulary) for _ in range(prompt)],
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
