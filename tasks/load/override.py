"""What `assay bench` and its form change of an experiment's block `benchmark`, as overrides."""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What is asked for in place of the block's own; None or empty: nothing. concurrency: of a closed load, rate: of an
    open one, both: both loads."""

    concurrency: Sequence[int] = ()
    rate: Sequence[float] = ()
    requests: int | None = None
    seconds: float | None = None
    repeats: int | None = None

    def overrides(self) -> list[str]:
        """As `--set` takes them. Raises ConfigError for a size without a load that it could be of."""
        if self.requests is not None and self.seconds is not None:
            raise ConfigError.one("--requests or --seconds, not both: a cell has one size")
        size = {"requests": self.requests, "seconds": self.seconds}
        written = "".join(f", {key}: {value:g}" for key, value in size.items() if value is not None)
        loads = []
        if self.concurrency:
            loads.append(f"{{kind: closed, concurrency: [{', '.join(map(str, self.concurrency))}]{written}}}")
        if self.rate:
            loads.append(f"{{kind: open, rate: [{', '.join(f'{each:g}' for each in self.rate)}]{written}}}")
        if written and not loads:
            raise ConfigError.one(
                "a size belongs to a load: name its --concurrency or --rate too",
                suggestion="or --set benchmark.load.requests=N for the file's own",
            )
        return [
            "benchmark.alone=true",
            *([f"benchmark.load=[{', '.join(loads)}]"] if loads else []),
            *([] if self.repeats is None else [f"benchmark.repeats={self.repeats}"]),
        ]


def numbers(text: str, *, name: str, whole: bool) -> list[float]:
    """`1,8,32` as numbers. Raises ConfigError for what is none."""
    found = []
    for part in text.split(","):
        try:
            value = int(part) if whole else float(part)
        except ValueError:
            value = 0
        if not value > 0:
            raise ConfigError.one(f"must be numbers above 0, as in {name} 1,8,32, not {text!r:.60}", key=name)
        found.append(value)
    return found
