"""How often a slow-down is seen, and how often one is seen that is not there: `python -m tests.bench.detection`.

Not a test. Each trial draws the repeats of a baseline and of a candidate that is slower by a known share, both with
noise of one spread (normal on logarithms), and asks `tasks.load.verdict.verdict`. First as two runs, then as two arms
of one run, measured in turns while the machine gets 3 % slower. n needed: the median over undecided trials.
"""

import argparse
import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tasks.load.verdict import Verdict, verdict

SPREADS = (0.005, 0.01, 0.015, 0.03, 0.05)
SLOWER = (0.0, 0.02, 0.05, 0.1)
REPEATS = (3, 5, 10)
TRIALS = 2000
DRIFT = 0.03
WORDS = ("worse", "better", "same", "undecided")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """spread: the standard deviation from repeat to repeat, as a share; slower: the true slow-down."""

    spread: float
    slower: float
    repeats: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What trials of one case came to. shares: of each word; n_needed: None where nothing is undecided, or mostly no
    number would decide."""

    shares: dict[str, float]
    n_needed: float | None


def trials(case: Case, *, paired: bool, trials: int = TRIALS, seed: int = 1) -> Iterator[Verdict]:
    """The verdicts of so many trials. paired: as arms of one run that drifts by DRIFT from its first cell to its last,
    measured A B B A."""
    random = np.random.default_rng(seed)
    noise = random.normal(0, case.spread, size=(2, trials, case.repeats))
    noise[0] += np.log1p(case.slower)
    if paired:
        places = np.arange(2 * case.repeats).reshape(case.repeats, 2)
        places[1::2] = places[1::2, ::-1]
        noise += (DRIFT * places.T / (2 * case.repeats - 1))[:, None, :]
    times = 40 * np.exp(noise)
    for candidate, baseline in zip(times[0].tolist(), times[1].tolist(), strict=True):
        yield verdict(candidate=candidate, baseline=baseline, direction="lower", paired=paired)


def seen(case: Case, *, paired: bool, number: int = TRIALS) -> Seen:
    """Over so many trials."""
    found = list(trials(case, paired=paired, trials=number))
    counts = Counter(each.word for each in found)
    needed = [np.inf if each.n_needed is None else each.n_needed for each in found if each.word == "undecided"]
    median = statistics.median(needed) if needed else None
    return Seen(
        shares={word: counts[word] / len(found) for word in WORDS},
        n_needed=None if median is None or median == np.inf else median,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=TRIALS)
    number = parser.parse_args().trials
    for paired, title in ((False, "two runs"), (True, f"two arms of one run, in turns, {DRIFT:.0%} of drift")):
        print(f"\n{title}, {number:,} trials each")
        print(f"{'spread':>7} {'slower':>7} {'repeats':>7}  {'  '.join(f'{word:>9}' for word in WORDS)}  n needed")
        for spread in SPREADS:
            for slower in SLOWER:
                for repeats in REPEATS:
                    found = seen(Case(spread=spread, slower=slower, repeats=repeats), paired=paired, number=number)
                    shares = "  ".join(f"{found.shares[word]:9.1%}" for word in WORDS)
                    needed = "-" if found.n_needed is None else f"{found.n_needed:g}"
                    print(f"{spread:7.1%} {slower:7.0%} {repeats:7}  {shares}  {needed:>8}")


if __name__ == "__main__":
    main()
