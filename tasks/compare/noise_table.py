"""The noise band in words, for pages and terminals."""

from tasks.compare.noise import Noise
from tasks.report.numbers import DASH


def table(measured: Noise) -> list[dict[str, str]]:
    """The bands, and the texts that differ, by column."""
    heads = [f"at {level.concurrency}" for level in measured.levels]
    rows = [
        {
            "metric": f"{band.dataset}.{band.metric}",
            "arm": band.arm,
            **dict(zip(heads, (_number(value) for value in band.values), strict=True)),
            "change": _number(band.change, signed=True),
            "won / lost": f"{band.won:,} / {band.lost:,}",
            "pairs": f"{band.n_pairs:,}",
            "band": _number(band.band),
        }
        for band in measured.bands
    ]
    texts = [
        {
            "metric": f"{each.dataset}: texts that differ",
            "arm": each.arm,
            **dict.fromkeys(heads, ""),
            "change": "",
            "won / lost": "",
            "pairs": f"{each.n:,}",
            "band": f"{each.differ:,} ({each.differ / each.n:.1%})",
        }
        for each in measured.texts
    ]
    return rows + texts


def _number(value: float | None, *, signed: bool = False) -> str:
    return DASH if value is None else f"{value:{'+' if signed else ''}.3f}"
