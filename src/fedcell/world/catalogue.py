"""Device classes with their sources: phones, Jetsons, a Raspberry Pi, microcontrollers (`classes.csv`).

A local step of a class takes `a + b * batch` seconds at its highest clock: `a = step_s`, and `b` is the forward and the
backward pass on one sample at a quarter (`SUSTAINED`) of the highest throughput, which is what small networks reach.
"""

from functools import cache
from importlib.resources import as_file, files
from typing import NamedTuple

import numpy as np

from ..errors import BadInput, choose_one
from ..rng import SETUP, stream
from ..tables import File, number, read_lines
from ..types import Floats, Ints

SUSTAINED = 0.25  # of the peak throughput: an assumption for networks of up to some million parameters
BACKWARD = 2.0  # a backward pass costs two forward passes


class DeviceClass(NamedTuple):
    """One kind of device. `load_watt` comes on top of `idle_watt` while it computes at `cpu_hz`."""

    name: str
    cpu_hz: float
    peak_flops_per_s: float
    step_s: float
    load_watt: float
    idle_watt: float
    receive_watt: float
    power_dbm: float
    battery_joule: float
    source: str

    @property
    def flops_per_cycle(self) -> float:
        return SUSTAINED * self.peak_flops_per_s / self.cpu_hz

    @property
    def capacitance(self) -> float:
        """`kappa` such that `kappa f^3` is `load_watt` at the highest clock `f`."""
        return self.load_watt / self.cpu_hz**3

    @property
    def step_cycles(self) -> float:
        return self.step_s * self.cpu_hz


@cache
def classes() -> dict[str, DeviceClass]:
    """Every class by its name."""
    with as_file(files("fedcell.world") / "classes.csv") as path:
        file = File(str(path))
        lines = read_lines(file, DeviceClass._fields)
        numbers = [name for name in DeviceClass._fields if name not in ("name", "source")]
        return {
            line.cells["name"]: DeviceClass(
                name=line.cells["name"],
                source=line.cells["source"],
                **{name: number(file, line, name) for name in numbers},
            )
            for line in lines
        }


def find(name: str, where: str) -> DeviceClass:
    """The class called `name`; `where` names the setting or line that asks, for the message."""
    if name not in classes():
        raise BadInput(f"{where} names the device class {name!r}, which is unknown{choose_one(name, list(classes()))}")
    return classes()[name]


def drawn(names: tuple[str, ...], n_devices: int, seed: int) -> list[DeviceClass]:
    """Draw the class of every device, each of the named ones with equal probability."""
    which: Ints = stream(seed, SETUP, "world.device_class").integers(len(names), size=n_devices)
    found = [find(name, "world.device_class") for name in names]
    return [found[k] for k in which]


def column(of_device: list[DeviceClass], name: str) -> Floats:
    """The field `name` of the class of every device, `[n_devices]`."""
    return np.array([getattr(one, name) for one in of_device], dtype=np.float64)
