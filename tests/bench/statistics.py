"""How fast a paired bootstrap is, beside a plain loop in numpy. Not a test: `python -m tests.bench.statistics`.

10,000 replicates of the mean difference over 10,000 samples: shares (every difference its own number), rights and
wrongs (three different numbers), and 2,000 clusters of 5. At most 2 s each; the control draws one replicate at a time,
and takes what drawing costs. Also the peak memory of a bootstrap over a million samples, which is drawn in chunks.
"""

import json
import resource
import time
from collections.abc import Callable

import numpy as np

from tasks.score.stats.bootstrap import REPLICATES, bootstrap

SAMPLES = 10_000
LIMIT_S = 2.0
MANY = 1_000_000
FEW_REPLICATES = 50


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def plain(values: list[float]) -> float:
    """The control: the standard deviation of the means, one replicate at a time."""
    array = np.asarray(values)
    random = np.random.default_rng(0)
    means = [array[random.integers(0, len(array), len(array))].mean() for _ in range(REPLICATES)]
    return float(np.std(means, ddof=1))


def main() -> None:
    random = np.random.default_rng(1)
    shares = (random.random(SAMPLES) - random.random(SAMPLES)).tolist()
    rights = random.choice([-1.0, 0.0, 1.0], p=[0.04, 0.9, 0.06], size=SAMPLES).tolist()
    clusters = [index // 5 for index in range(SAMPLES)]
    bootstrap(shares[:100])  # imports
    found = {
        "shares_s": seconds(lambda: bootstrap(shares)),
        "rights_s": seconds(lambda: bootstrap(rights)),
        "clusters_s": seconds(lambda: bootstrap(shares, clusters=clusters, expanded=True)),
        "plain_loop_s": seconds(lambda: plain(shares)),
    }
    many = random.random(MANY).tolist()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    bootstrap(many, replicates=FEW_REPLICATES)
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(json.dumps({**{name: round(value, 3) for name, value in found.items()}, "million_samples_mb": round(memory)}))
    slow = [name for name in ("shares_s", "rights_s", "clusters_s") if found[name] > LIMIT_S]
    if slow:
        raise SystemExit(f"slower than {LIMIT_S} s: {', '.join(slow)}")


if __name__ == "__main__":
    main()
