"""Energy of the processors by their own counters (RAPL), where the kernel shows them and this user may read them."""

import functools
from collections.abc import Callable
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")


class _Package:
    """One package's counter, which begins again at 0 when it is full: within minutes on a busy server. It must be read
    at least once in that time."""

    def __init__(self, folder: Path) -> None:
        self._energy = folder / "energy_uj"
        self._range_uj = int((folder / "max_energy_range_uj").read_text())
        self._last_uj = self._total_uj = int(self._energy.read_text())

    def joules(self) -> float:
        now = int(self._energy.read_text())
        self._total_uj += (now - self._last_uj) % (self._range_uj + 1)
        self._last_uj = now
        return self._total_uj / 1e6


def _packages(powercap: Path) -> list[_Package]:
    """Empty where one of them cannot be read: a part of the energy would pass for the whole.

    `psys` counts the whole board, the packages included, and the parts of a package (`core`, `uncore`, `dram`) lie in
    folders of two numbers; neither is added."""
    found = []
    for folder in sorted(powercap.glob("intel-rapl:*")):
        try:
            if folder.name.count(":") == 1 and (folder / "name").read_text().startswith("package"):
                found.append(_Package(folder))
        except OSError:
            return []  # since 2020 kernels keep it from users other than root
    return found


@functools.cache
def package_energy(powercap: Path) -> Callable[[], float | None]:
    """A reading in joules that only grows, over all packages; of None where there is nothing to read.

    One for the whole process: a counter that another telemetry goes on with must not fall back to what it was."""
    packages = _packages(powercap)

    def read() -> float | None:
        try:
            return sum(package.joules() for package in packages) if packages else None
        except OSError:
            return None  # one that was readable and is no longer (a processor went offline)

    return read
