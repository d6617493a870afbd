"""How long a processor quota held this process back."""

from pathlib import Path

from tasks.plan.device import CGROUP, PROC, cgroup_folders

_UNITS_S = {"throttled_usec": 1e-6, "throttled_time": 1e-9}
"""What cgroup v2 and v1 call it."""


class Throttling:
    """The control groups of this process, whose CPU quotas hold it back."""

    def __init__(self, *, proc: Path = PROC, cgroup: Path = CGROUP) -> None:
        folders = cgroup_folders(controller="cpu", proc=proc, cgroup=cgroup)
        self._files = [folder / "cpu.stat" for folder in folders]

    def seconds(self) -> float | None:
        """Seconds that its group, or the one of the group's parents for which it was most, was held back since it
        exists; None where nothing says so."""
        found: list[float] = []
        for file in self._files:
            try:
                lines = file.read_text().splitlines()
            except OSError:
                continue  # the root group has none, nor has a kernel without quotas
            for line in lines:
                name, _, value = line.partition(" ")
                if name in _UNITS_S:
                    found.append(int(value) * _UNITS_S[name])
        return max(found, default=None)
