"""Joules that a device really used while it trained: a counter of its CPU, its GPU's power, or a meter of its owner.

RAPL counts what the CPU packages of the machine used, by whatever ran on them. Needs no Flower.
"""

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..errors import BadInput

Meter = Callable[[], float]  # joules so far, counted from any time
METERS = ("", "rapl", "nvidia-smi", "own")  # that an answer may name
RAPL = Path("/sys/class/powercap")
PACKAGES = "intel-rapl:[0-9]"  # AMD's go by the same name
ASK = ("nvidia-smi", "--query-gpu=power.draw", "--format=csv,noheader,nounits")


class Joules(NamedTuple):
    """Energy used, and the name of the meter; 0 and an empty name without a meter."""

    joule: float
    meter: str


class Metering:
    """Measures the energy used since it was made.

    Args:
        own: the owner's meter; None: what the machine has.
        gpu: whether a GPU trains.
        rapl: folder of the CPU's counters.
    """

    def __init__(self, own: Meter | None = None, gpu: bool = False, rapl: Path = RAPL) -> None:
        self.own, self.gpu, self.rapl = own, gpu, rapl
        self.begun_s, self.first = time.perf_counter(), self._read()

    def used(self) -> Joules:
        """Joules since the object was made."""
        name, before = self.first
        again, now = self._read()
        if name != again or not name:
            return Joules(0.0, "")
        if name == "nvidia-smi":  # watts, at both ends
            return Joules(sum(now + before) / 2 * (time.perf_counter() - self.begun_s), name)
        used = [b - a for a, b in zip(before, now, strict=True)]
        if name == "rapl":  # counters wrap around
            used = [one if one >= 0 else one + most for one, most in zip(used, self._ranges(), strict=True)]
        if min(used, default=0.0) < 0:
            raise BadInput(f"meter() went back by {-min(used):g} J: give joules so far, which only grow")
        return Joules(sum(used), name)

    def _read(self) -> tuple[str, list[float]]:
        if self.own is not None:
            return "own", [float(self.own())]
        if self.gpu:
            with suppress(OSError, ValueError, subprocess.SubprocessError):
                said = subprocess.run(ASK, capture_output=True, text=True, check=True, timeout=5).stdout
                return "nvidia-smi", [sum(map(float, said.split()))]
        with suppress(OSError, ValueError):
            if found := self._numbers("energy_uj"):
                return "rapl", found
        return "", []

    def _ranges(self) -> list[float]:
        return self._numbers("max_energy_range_uj")

    def _numbers(self, name: str) -> list[float]:
        return [int((path / name).read_text()) / 1e6 for path in sorted(self.rapl.glob(PACKAGES))]
