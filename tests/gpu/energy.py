"""Joules of the cards, by NVML's counter, which counts on by itself: read before and after a pass."""

import contextlib
import os
from typing import Any


class Counter:
    """The energy counters of the visible cards. Without a driver, or with a card that has no counter, there is none."""

    def __init__(self) -> None:
        import pynvml

        self._nvml = pynvml
        self._handles: list[Any] = []
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        with contextlib.suppress(pynvml.NVMLError):  # no driver: no figures
            pynvml.nvmlInit()
            every = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
            numbers = range(len(every)) if visible is None else [int(n) for n in visible.split(",") if n.isdigit()]
            self._handles = [every[number] for number in numbers if number < len(every)]

    def read(self, *, cards: int) -> float | None:
        """Joules since the driver was loaded, the first `cards` cards together; None where one of them tells none."""
        if not 0 < cards <= len(self._handles):
            return None
        try:
            return sum(self._nvml.nvmlDeviceGetTotalEnergyConsumption(each) / 1000 for each in self._handles[:cards])
        except self._nvml.NVMLError:
            return None
