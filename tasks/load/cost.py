"""What a measured cell's answers cost, by the prices of the block `benchmark`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from schemas.benchmark import Prices
from schemas.metric import Aggregate
from tasks.load.curves import of_time
from tasks.load.energy import CellEnergy
from tasks.load.readings import Row, Window, window_of
from tasks.load.shares import Counted, Scores, counted, without

_JOULES_OF_KWH = 3.6e6
_SECONDS_OF_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bill:
    """What was to pay, by part. unmeasured: parts that have a price, and no measure to take it of."""

    parts: dict[str, float]
    unmeasured: list[str]


def cost_metrics(
    cell: Row,
    *,
    prices: Prices,
    requests: Iterable[Row],
    device_count: int,
    energy: CellEnergy | None = None,
    scores: Scores | None = None,
) -> list[Aggregate]:
    """The cost of a million output tokens, of a thousand requests, of a right answer; each with its parts.

    Devices are paid for the whole window, busy or not, and energy likewise; both less the share that requests had which
    are not measured. Tokens are paid for those that answered requests read and made. Energy that has a price and was
    not measured is left out and named in the details. Nothing where no price is set, or none has anything to be of.

    cell: a row of `cells`. requests: rows of `requests`, of which the cell's count. device_count: GPUs that the engine
    works on; 1 on a CPU. energy: as `cell_energy` gives it."""
    window = window_of(cell)
    found = counted(requests, cell_id=cell["cell_id"], scores=scores)
    if window is None or not found.answered:
        return []
    pay = _Payment(prices=prices, counted=found, window=window, device_count=device_count, energy=energy)
    tokens = [row["output_tokens"] for row in found.answered]
    n = len(found.answered)
    made: list[Aggregate] = []

    def add(name: str, per: float | None, unit: str, *, of: Sequence[Row], left_out: Sequence[Row] = ()) -> None:
        bill = pay.bill(of, left_out)
        if bill is None or not bill.parts or not per:
            return
        made.append(
            Aggregate(
                scope="run",
                name=f"perf.{name}",
                arm=cell["arm"],
                value=sum(bill.parts.values()) / per,
                unit=f"{prices.currency}/{unit}",
                direction="lower",
                n=len(of),
                n_failed=len(found.failed),
                method=f"price of {', '.join(bill.parts)}",
                cell_id=cell["cell_id"],
                details={
                    "seconds": window.seconds,
                    "parts": {part: cost / per for part, cost in bill.parts.items()},
                    **({"unmeasured": bill.unmeasured} if bill.unmeasured else {}),
                    **({"unscored": len(left_out)} if left_out else {}),
                },
            )
        )

    add(
        "cost_per_million_output_tokens",
        None if None in tokens else sum(tokens) / 1e6,
        "Mtok",
        of=found.answered,
    )
    add("cost_per_1000_requests", n / 1000, "1000 requests", of=found.answered)
    right = sum(score for _, score in found.scored)
    add("cost_per_correct", right, "correct answer", of=[row for row, _ in found.scored], left_out=found.unscored)
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class _Payment:
    prices: Prices
    counted: Counted
    window: Window
    device_count: int
    energy: CellEnergy | None

    def bill(self, answers: Sequence[Row], left_out: Sequence[Row]) -> _Bill | None:
        """For these answers. left_out: others that have their share in the window. None where tokens have a price and
        were not counted."""
        prices, window = self.prices, self.window
        parts: dict[str, float] = {}
        unmeasured: list[str] = []
        if prices.device_hour is not None:
            time = without(of_time(self.device_count), self.counted, window, left_out=left_out)
            parts["device time"] = prices.device_hour * time / _SECONDS_OF_HOUR
        if prices.kwh is not None:
            if self.energy is None:
                unmeasured.append("energy")
            else:
                joules = without(self.energy.curve, self.counted, window, left_out=left_out)
                parts["energy"] = prices.kwh * joules / _JOULES_OF_KWH
        for part, price, column in (
            ("prompt tokens", prices.prompt_mtok, "prompt_tokens"),
            ("output tokens", prices.output_mtok, "output_tokens"),
        ):
            if price is None:
                continue
            tokens = [row[column] for row in answers]
            if None in tokens:
                return None
            parts[part] = price * sum(tokens) / 1e6
        return _Bill(parts=parts, unmeasured=unmeasured)
