"""What a measured cell took of power, processor and memory, and what that is for a token, a request, a right answer.

Energy is told twice where both are offered: by the device's counter, and by its power over time. They can differ by
some percent; the counter is the one that is divided.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from schemas.metric import Aggregate
from tasks.load.curves import Curve, of_counter, of_power, together, total
from tasks.load.readings import CPU, Readings, Row, Series, Window, window_of
from tasks.load.shares import Counted, Scores, Shares, counted, shared, without

SHORT_S = 30.0
"""Counters and power are means over up to a second, and are told in steps of 0.1 s: below half a minute both ends weigh
too much in the whole."""
GAP_S = 2.0
"""Power between two readings further apart than this is not known; a counter goes on counting."""
Direction = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellEnergy:
    """What the devices drew in a cell's window. counter, integral: joules up to each moment, None without such a source
    for each device. instantaneous: whether the integral is over power of the moment or over means. n_counter, n_power:
    readings that they rest on."""

    window: Window
    devices: list[str]
    counter: Curve | None
    integral: Curve | None
    instantaneous: bool
    n_counter: int
    n_power: int

    @property
    def curve(self) -> Curve:
        """The counter's, else the integral's; one of the two is there."""
        found = self.integral if self.counter is None else self.counter
        if found is None:
            raise ValueError("no source of energy")
        return found

    @property
    def source(self) -> str:
        return "power over time" if self.counter is None else "energy counter"

    @property
    def joules(self) -> float:
        return total(self.curve, self.window)


def cell_energy(cell: Row, *, readings: Readings, devices: Collection[str] | None = None) -> CellEnergy | None:
    """What the devices drew while the cell was measured. None without a source for each of them, or without a window.

    cell: a row of `cells`. devices: those that the engine works on, where they shall not be found by
    `Readings.devices`."""
    window, own = window_of(cell), readings.devices(devices)
    if window is None or not own:
        return None
    counted_by = [readings.series(device, "energy_j", window) for device in own]
    powers = [_power(readings, device, window) for device in own]
    counters = [None if each is None else of_counter(each, window) for each in counted_by]
    known = [each for each in counters if each is not None]
    drawn = [each for each, _ in powers if each is not None]
    counter = together(known) if len(known) == len(own) else None
    integral = together([of_power(each, window) for each in drawn]) if len(drawn) == len(own) else None
    if counter is None and integral is None:
        return None
    return CellEnergy(
        window=window,
        devices=own,
        counter=counter,
        integral=integral,
        instantaneous=all(instantaneous for _, instantaneous in powers),
        n_counter=sum(len(each.times) for each in counted_by if each is not None),
        n_power=sum(len(each.times) for each in drawn),
    )


def _power(readings: Readings, device: str, window: Window) -> tuple[Series | None, bool]:
    for column in ("power_instant_w", "power_w"):
        series = readings.series(device, column, window)
        if series is not None and series.longest_gap_s <= GAP_S:
            return series, column == "power_instant_w"
    return None, False


def energy_shares(
    cell: Row, *, readings: Readings, requests: Iterable[Row], devices: Collection[str] | None = None
) -> Shares | None:
    """The energy of each of the cell's requests (`energy_allocated_j`), warm-up and cool-down too where they ran in its
    window. Adds up to the cell's energy with what was drawn while nothing ran. None where no energy was measured."""
    energy = cell_energy(cell, readings=readings, devices=devices)
    if energy is None:
        return None
    own = [row for row in requests if row["cell_id"] == cell["cell_id"]]
    return shared(energy.curve, own, energy.window)


def energy_metrics(
    cell: Row,
    *,
    readings: Readings,
    requests: Iterable[Row],
    scores: Scores | None = None,
    devices: Collection[str] | None = None,
) -> list[Aggregate]:
    """Energy, power, processor and memory of a cell. A number without a source is not there.

    requests: rows of `requests`, of which the cell's count. scores: for the energy of a right answer. devices: as
    `cell_energy` takes them."""
    window = window_of(cell)
    if window is None:
        return []
    made = _Maker(cell, seconds=window.seconds)
    energy = cell_energy(cell, readings=readings, devices=devices)
    if energy is not None:
        made.details |= {"devices": len(energy.devices)}
        _whole(made, energy, readings)
        _each(made, energy, counted(requests, cell_id=cell["cell_id"], scores=scores))
    _use(made, readings, window, readings.devices(devices))
    return made.found


class _Maker:
    def __init__(self, cell: Row, *, seconds: float) -> None:
        self.found: list[Aggregate] = []
        self.details: dict[str, Any] = {"seconds": seconds} | ({"short_window": True} if seconds < SHORT_S else {})
        self._cell = cell

    def add(
        self,
        name: str,
        value: float,
        unit: str,
        *,
        n: int,
        method: str,
        n_failed: int = 0,
        direction: Direction = "lower",
        more: Mapping[str, Any] | None = None,
    ) -> None:
        self.found.append(
            Aggregate(
                scope="run",
                name=f"perf.{name}",
                arm=self._cell["arm"],
                value=value,
                unit=unit,
                direction=direction,
                n=n,
                n_failed=n_failed,
                method=method,
                cell_id=self._cell["cell_id"],
                details=self.details | dict(more or {}),
            )
        )


def _whole(made: _Maker, energy: CellEnergy, readings: Readings) -> None:
    window = energy.window
    power = "instantaneous" if energy.instantaneous else "average"
    if energy.counter is not None:
        by_counter = total(energy.counter, window)
        method = "energy counters of the devices, linear between readings"
        made.add("energy_counter_j", by_counter, "J", n=energy.n_counter, method=method, more=_beside(energy, readings))
    if energy.integral is not None:
        by_power = total(energy.integral, window)
        method = f"{power} power of the devices over time, trapezoids"
        made.add("energy_integral_j", by_power, "J", n=energy.n_power, method=method)
        if energy.counter is not None and by_counter > 0:
            method = "energy by power over time / energy by counter"
            made.add("energy_ratio", by_power / by_counter, "", n=energy.n_power, method=method)
    mean = total(energy.integral or energy.curve, window) / window.seconds
    n = energy.n_counter if energy.integral is None else energy.n_power
    method = "energy counter / time" if energy.integral is None else f"mean over time of {power} power"
    made.add("power_w", mean, "W", n=n, method=method, more=_reasons(energy, readings))
    highest = _highest_power(energy, readings)
    if highest is not None:
        value, n = highest
        method = "highest reading, all devices together" if energy.integral else "highest between two readings"
        made.add("power_max_w", value, "W", n=n, method=method)


def _each(made: _Maker, energy: CellEnergy, requests: Counted) -> None:
    """Energy for a token, a request, a right answer: of the whole window, less what other requests had of it."""
    if not requests.answered:
        return
    window, curve = energy.window, energy.curve
    joules, n_failed = without(curve, requests, window), len(requests.failed)
    told = {"others_j": energy.joules - joules} if requests.others else {}
    tokens = [row["output_tokens"] for row in requests.answered]
    n = len(requests.answered)
    if None not in tokens and sum(tokens) > 0:
        method = f"{energy.source} / output tokens"
        made.add(
            "joules_per_output_token", joules / sum(tokens), "J/token", n=n, n_failed=n_failed, method=method, more=told
        )
    method = f"{energy.source} / answered requests"
    made.add("joules_per_request", joules / n, "J/request", n=n, n_failed=n_failed, method=method, more=told)
    right = sum(score for _, score in requests.scored)
    if right > 0:
        scored = without(curve, requests, window, left_out=requests.unscored)
        told = {"right": right, "unscored": len(requests.unscored)}
        made.add(
            "joules_per_correct",
            scored / right,
            "J/correct answer",
            n=len(requests.scored),
            n_failed=n_failed,
            method=f"{energy.source} / sum of scores",
            more=told,
        )


def _use(made: _Maker, readings: Readings, window: Window, devices: list[str]) -> None:
    """Processor, memory and the share of time in which the devices worked."""
    rows = [(device, readings.rows(device, window)) for device in devices if device != CPU]
    busy = [_mean([row["utilization"] for row in own if row["utilization"] is not None]) for _, own in rows]
    known = [each for each in busy if each is not None]
    n = sum(len(own) for _, own in rows)
    if known and len(known) == len(rows):
        share = float(np.mean(known))
        made.add("gpu_utilization", share, "share", n=n, method="mean of readings and devices", direction="higher")
    used = _together([own for _, own in rows], "memory_bytes")
    if used:
        made.add("gpu_memory_peak_bytes", max(used), "bytes", n=len(used), method="highest reading, all devices")
    machine = readings.rows(CPU, window)
    cores = [row["process_cpu"] for row in machine if row["process_cpu"] is not None]
    if cores:
        made.add("engine_cpu_cores", float(np.mean(cores)), "cores", n=len(cores), method="mean of readings")
    sizes = [row["process_rss_bytes"] for row in machine if row["process_rss_bytes"] is not None]
    if sizes:
        made.add("engine_rss_peak_bytes", max(sizes), "bytes", n=len(sizes), method="highest reading")


def _beside(energy: CellEnergy, readings: Readings) -> dict[str, float]:
    """The processors' energy, where the devices are GPUs: it is not in the cell's."""
    if CPU in energy.devices:
        return {}
    series = readings.series(CPU, "energy_j", energy.window)
    curve = None if series is None else of_counter(series, energy.window)
    return {} if curve is None else {"cpu_j": total(curve, energy.window)}


def _reasons(energy: CellEnergy, readings: Readings) -> dict[str, dict[str, float]]:
    """Share of the readings in which a clock was lowered, by reason. A GPU at its power cap is one that works, and the
    cap a setting: that disturbs nothing, and it is told here alone."""
    seen = [
        row["throttle"]
        for device in energy.devices
        for row in readings.rows(device, energy.window)
        if row.get("throttle") is not None
    ]
    names = sorted({name for reasons in seen for name in reasons})
    return (
        {"throttled": {name: sum(name in reasons for reasons in seen) / len(seen) for name in names}} if names else {}
    )


def _highest_power(energy: CellEnergy, readings: Readings) -> tuple[float, int] | None:
    """The highest, and over how many readings: by power, else by what the counter grew between two of them."""
    window = energy.window
    if energy.integral is not None:
        column = "power_instant_w" if energy.instantaneous else "power_w"
        powers = _together([readings.rows(device, window) for device in energy.devices], column)
        return (max(powers), len(powers)) if powers else None
    series = [readings.series(device, "energy_j", window) for device in energy.devices]
    moments = np.unique(np.concatenate([each.times for each in series if each is not None]))
    inside = moments[(moments >= 0.0) & (moments <= window.seconds)]
    # Closer readings than half a second differ by few of a counter's steps.
    kept = [float(moment) for moment in _apart(inside, 0.5)]
    if len(kept) < 2:
        return None
    means = np.diff(energy.curve(np.asarray(kept))) / np.diff(kept)
    return float(means.max()), len(means)


def _apart(moments: Iterable[float], least_s: float) -> Iterator[float]:
    last = -np.inf
    for moment in moments:
        if moment - last >= least_s:
            yield moment
            last = moment


def _together(devices: list[list[Row]], column: str) -> list[float]:
    """The sum over all devices, of each moment in which each of them has a value."""
    sums: dict[Any, list[float]] = {}
    for rows in devices:
        for row in rows:
            if row.get(column) is not None:
                sums.setdefault(row["ts"], []).append(row[column])
    return [sum(values) for values in sums.values() if len(values) == len(devices)]


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None
