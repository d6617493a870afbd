"""By simulation: how often each verdict says something where there is nothing to say.

The claim is made on the verdict itself. With margin 0 and nothing between the two, `better` or `worse` is an alarm;
with a true loss of exactly the margin, everything but `undecided` is one. At the 5 % level either has to come to 3 to
6 %. Right and wrong answers are counted out exactly; everything else is drawn, with a fixed seed. In the fast suite the
draws are fewer, and the bounds are wider by what so few draws leave open: the numbers of alarms that a rate of 3 % and
one of 6 % each go beyond once in a hundred times.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from scipy import stats as reference

from tasks.load.verdict import verdict
from tasks.score.stats.holm import holm
from tasks.score.stats.paired import paired, tango
from tasks.score.stats.verdict import decide

LEAST, MOST = 0.03, 0.06
FAST, SLOW = 600, 6000
CHANCE = 0.01
REPLICATES = 1000

Random = np.random.Generator
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class World:
    """Many draws of two arms between which nothing differs on average: (draws, samples) each."""

    draw: Callable[[Random, int], tuple[Array, Array]]
    clusters: list[int] | None = None
    averaged: bool = False
    method: str
    losses: tuple[float, ...] = field(default=(0.0,))
    """True losses that are tried, each with itself as the margin."""


def shares(samples: int) -> Callable[[Random, int], tuple[Array, Array]]:
    """One answer a sample, scored as the share of five fields that are right."""

    def draw(random: Random, draws: int) -> tuple[Array, Array]:
        chance = random.beta(2, 1, size=(draws, samples))
        return random.binomial(5, chance) / 5, random.binomial(5, chance) / 5

    return draw


def repeated(samples: int, repeats: int) -> Callable[[Random, int], tuple[Array, Array]]:
    """Right or wrong, each sample asked several times: most samples are easy or hard."""

    def draw(random: Random, draws: int) -> tuple[Array, Array]:
        chance = random.beta(0.5, 0.5, size=(draws, samples))
        return random.binomial(repeats, chance) / repeats, random.binomial(repeats, chance) / repeats

    return draw


def in_clusters(sizes: list[int], repeats: int) -> Callable[[Random, int], tuple[Array, Array]]:
    """Every cluster leans to one arm or the other, by chance; its samples are asked `repeats` times."""
    where = np.repeat(np.arange(len(sizes)), sizes)

    def draw(random: Random, draws: int) -> tuple[Array, Array]:
        lean = random.normal(0, 0.12, size=(draws, len(sizes)))[:, where]
        hard = random.uniform(0.3, 0.7, size=(draws, len(where)))
        ours, theirs = (np.clip(hard + sign * lean, 0, 1) for sign in (1, -1))
        return random.binomial(repeats, ours) / repeats, random.binomial(repeats, theirs) / repeats

    return draw


def ids(sizes: list[int]) -> list[int]:
    return [cluster for cluster, size in enumerate(sizes) for _ in range(size)]


EQUAL, MILD, UNEQUAL = [6] * 15, list(range(3, 23)), [1, 2, 3, 5, 8, 13, 20] * 5
FEW, FEW_UNEQUAL = [12] * 6, [4, 6, 8, 10, 12, 14, 16, 18]
WORLDS = {
    "shares, 60 samples": World(draw=shares(60), method="paired_t", losses=(0.0, 0.05)),
    "repeats: 50 samples, 4 each": World(draw=repeated(50, 4), averaged=True, method="paired_t", losses=(0.0, 0.05)),
    "repeats: 200 samples, 2 each": World(draw=repeated(200, 2), averaged=True, method="paired_t"),
    "repeats: 20 samples, 8 each": World(draw=repeated(20, 8), averaged=True, method="paired_t"),
    "15 equal clusters": World(draw=in_clusters(EQUAL, 1), clusters=ids(EQUAL), method="cluster_bootstrap"),
    "20 clusters of 3 to 22": World(draw=in_clusters(MILD, 1), clusters=ids(MILD), method="cluster_bootstrap"),
    "35 clusters of 1 to 20": World(draw=in_clusters(UNEQUAL, 1), clusters=ids(UNEQUAL), method="cluster_bootstrap"),
    "15 equal clusters, 4 repeats": World(
        draw=in_clusters(EQUAL, 4), clusters=ids(EQUAL), averaged=True, method="cluster_bootstrap", losses=(0.0, 0.05)
    ),
    "6 equal clusters": World(draw=in_clusters(FEW, 1), clusters=ids(FEW), method="t_clustered_unequal"),
    "8 clusters of 4 to 18, 4 repeats": World(
        draw=in_clusters(FEW_UNEQUAL, 4), clusters=ids(FEW_UNEQUAL), averaged=True, method="t_clustered_unequal"
    ),
}


def check(rate: float, *, draws: int, what: str) -> None:
    """Between 3 and 6 %, give or take what so few draws leave open."""
    print(f"{what:60s} {rate:7.2%} of {draws}")
    least, most = LEAST * draws, MOST * draws
    if draws < SLOW:
        least, most = reference.binom.ppf(CHANCE, draws, LEAST), reference.binom.ppf(1 - CHANCE, draws, MOST)
    assert least <= round(rate * draws, 6) <= most, f"{what}: {rate:.2%}"


def alarms(world: World, *, loss: float, draws: int) -> Iterator[bool]:
    ours, theirs = world.draw(np.random.default_rng(20), draws)
    for candidate, baseline in zip((ours - loss).tolist(), theirs.tolist(), strict=True):
        found = paired(
            candidate=candidate,
            baseline=baseline,
            clusters=world.clusters,
            averaged=world.averaged,
            replicates=REPLICATES,
        )
        assert found.method.startswith(world.method)
        word = decide(effect=found.effect, lo=found.lo, hi=found.hi, margin=loss, n=found.n).word
        yield word != "undecided"


CASES = [(name, loss) for name, world in WORLDS.items() for loss in world.losses]


@pytest.mark.parametrize(("name", "loss"), CASES)
def test_drawn(name: str, loss: float) -> None:
    rate = sum(alarms(WORLDS[name], loss=loss, draws=FAST)) / FAST
    check(rate, draws=FAST, what=f"{name}, margin {loss:g}")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "loss"), CASES)
def test_drawn_often(name: str, loss: float) -> None:
    rate = sum(alarms(WORLDS[name], loss=loss, draws=SLOW)) / SLOW
    check(rate, draws=SLOW, what=f"{name}, margin {loss:g}")


def right_or_wrong(*, n: int, wins: float, losses: float, margin: float) -> float:
    """The chance of an alarm, over all tables of n pairs that are not out of the question."""
    total = 0.0
    chances = [wins, losses, 1 - wins - losses]
    for won in range(n + 1):
        if reference.binom.pmf(won, n, wins) < 1e-7:
            continue
        for lost in range(n + 1 - won):
            chance = float(reference.multinomial.pmf([won, lost, n - won - lost], n, chances))
            if chance < 1e-8:
                continue
            lo, hi = tango(wins=won, losses=lost, n=n)
            word = decide(effect=(won - lost) / n, lo=lo, hi=hi, margin=margin, n=n).word
            total += chance * (word != "undecided")
    return total


@pytest.mark.parametrize(
    ("n", "flips", "margin"), [(50, 0.1, 0.0), (100, 0.1, 0.0), (100, 0.1, 0.02), (100, 0.2, 0.0), (300, 0.05, 0.02)]
)
def test_right_and_wrong_counted_out(n: int, flips: float, margin: float) -> None:
    rate = right_or_wrong(n=n, wins=(flips - margin) / 2, losses=(flips + margin) / 2, margin=margin)
    check(rate, draws=SLOW, what=f"counted out: right or wrong, n={n}, {flips:.0%} flips, margin {margin:g}")


def test_with_hardly_a_flip_there_is_hardly_an_alarm() -> None:
    """Under about five flips the method can only be careful: most tables cannot tell anything at all."""
    assert right_or_wrong(n=50, wins=0.02, losses=0.02, margin=0.0) < LEAST


RATIOS: dict[str, tuple[int, Callable[[Random, tuple[int, int]], Array]]] = {
    "5 repeats, lognormal noise": (5, lambda random, size: np.exp(random.normal(0, 0.05, size))),
    "7 repeats, lognormal noise": (7, lambda random, size: np.exp(random.normal(0, 0.05, size))),
    "8 repeats, long tails": (8, lambda random, size: np.exp(0.02 * random.standard_t(3, size))),
    "12 repeats, slow outliers": (12, lambda random, size: 1 + 0.1 * random.exponential(size=size)),
    "20 repeats, lognormal noise": (20, lambda random, size: np.exp(random.normal(0, 0.05, size))),
}


def ratio_rate(name: str, *, draws: int, loss: float = 0.0, in_turns: bool = False) -> float:
    repeats, noise = RATIOS[name]
    random = np.random.default_rng(21)
    ours, theirs = noise(random, (draws, repeats)) * (1 + loss), noise(random, (draws, repeats))
    said = 0
    for candidate, baseline in zip(ours.tolist(), theirs.tolist(), strict=True):
        found = verdict(
            candidate=candidate, baseline=baseline, direction="lower", paired=in_turns, margin=loss, alike=0.0
        )
        said += found.word != "undecided"
    return said / draws


WAYS = [(name, in_turns) for name in RATIOS for in_turns in (False, True)]


@pytest.mark.parametrize(("name", "in_turns"), WAYS)
def test_performance(name: str, in_turns: bool) -> None:
    rate = ratio_rate(name, draws=FAST, in_turns=in_turns)
    check(rate, draws=FAST, what=f"speed, {name}, {'pairs' if in_turns else 'two runs'}, margin 0")


@pytest.mark.parametrize("draws", [FAST, pytest.param(SLOW, marks=pytest.mark.slow)])
def test_performance_at_the_margin(draws: int) -> None:
    name = "7 repeats, lognormal noise"
    check(ratio_rate(name, draws=draws, loss=0.05), draws=draws, what=f"speed, {name}, margin 0.05")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "in_turns"), WAYS)
def test_performance_often(name: str, in_turns: bool) -> None:
    rate = ratio_rate(name, draws=SLOW, in_turns=in_turns)
    check(rate, draws=SLOW, what=f"speed, {name}, {'pairs' if in_turns else 'two runs'}, margin 0")


@pytest.mark.parametrize("draws", [FAST, pytest.param(SLOW, marks=pytest.mark.slow)])
def test_several_metrics(draws: int) -> None:
    """Holm: the chance that any of four metrics is called different, p below 0.05, is that of one alone, or less."""
    any_alarm = 0
    draw = shares(40)
    for trial in range(draws):
        ours, theirs = draw(np.random.default_rng(trial), 4)
        rows = zip(ours.tolist(), theirs.tolist(), strict=True)
        adjusted = holm([paired(candidate=one, baseline=two).p_value for one, two in rows])
        any_alarm += any(p is not None and p < 0.05 for p in adjusted)
    check(any_alarm / draws, draws=draws, what="any of four metrics, Holm")
