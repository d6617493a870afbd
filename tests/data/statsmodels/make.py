"""Writes values.json: what statsmodels makes of drawn numbers, for tests/unit/score/test_properties.py.

    python tests/data/statsmodels/make.py      # in an environment that has statsmodels; assay's own has none

Only the reference values are kept, so that the tests need no statsmodels."""

import json
from pathlib import Path

import numpy as np
import statsmodels
import statsmodels.api as sm
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import DescrStatsW

DRAW = np.random.default_rng(20261)


def clustered(rate: bool) -> dict[str, object]:
    """The mean of clustered values: OLS on a constant, cov_type cluster, t with one degree less than clusters."""
    sizes = DRAW.integers(1, 12, size=int(DRAW.integers(3, 25)))
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    own = DRAW.normal(0, 1, size=len(sizes))[clusters]
    values = own + DRAW.normal(0, 1, size=len(clusters))
    values = (values > 0.3).astype(float) if rate else values.round(6)
    found = sm.OLS(values, np.ones(len(values))).fit(cov_type="cluster", cov_kwds={"groups": clusters}, use_t=True)
    lo, hi = found.conf_int()[0]
    case = {"values": values.tolist(), "clusters": clusters.tolist(), "value": found.params[0]}
    return case | {"stderr": found.bse[0], "lo": lo, "hi": hi}


def plain() -> dict[str, object]:
    """Mean, standard error and t interval of independent values."""
    values = DRAW.normal(DRAW.normal(0, 5), DRAW.uniform(0.1, 4), size=int(DRAW.integers(2, 80))).round(6)
    found = DescrStatsW(values)
    lo, hi = found.tconfint_mean()
    return {"values": values.tolist(), "value": found.mean, "stderr": found.std_mean, "lo": lo, "hi": hi}


def wilson() -> dict[str, object]:
    n = int(DRAW.integers(1, 400))
    hits = int(DRAW.integers(0, n + 1))
    lo, hi = proportion_confint(hits, n, method="wilson")
    return {"hits": hits, "n": n, "lo": float(lo), "hi": float(hi)}


def flips() -> dict[str, object]:
    wins, losses = (int(each) for each in DRAW.integers(0, 40, size=2))
    return {"wins": wins, "losses": losses, "p": float(mcnemar([[9, wins], [losses, 9]], exact=True).pvalue)}


def holm() -> dict[str, object]:
    p_values = DRAW.uniform(0, 1, size=int(DRAW.integers(1, 15))) ** 3
    return {"p": p_values.tolist(), "adjusted": multipletests(p_values, method="holm")[1].tolist()}


def main() -> None:
    values = {
        "statsmodels": statsmodels.__version__,
        "clustered": [clustered(rate=n % 2 == 0) for n in range(24)],
        "plain": [plain() for _ in range(12)],
        "wilson": [wilson() for _ in range(30)],
        "mcnemar": [flips() for _ in range(20)],
        "holm": [holm() for _ in range(20)],
    }
    Path(__file__).with_name("values.json").write_text(json.dumps(values) + "\n")


if __name__ == "__main__":
    main()
