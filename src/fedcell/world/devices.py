"""The hardware of the devices, and which of them are switched on.

Each number of a device comes from the device table (`world.device_table`) if that has the column, else from the class
of the device (`world.device_class`, or the column `class`), else from the law of its key.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..errors import BadInput
from ..option_values import checked_column
from ..options import Law, keys
from ..rng import SETUP, stream
from ..tables import File, Line, read_lines, whole_number, within
from ..types import Bools, Devices, Floats
from ..units import dbm_to_watt
from . import catalogue
from .catalogue import BACKWARD, DeviceClass
from .settings import WorldConfig

PLACES = ("x_m", "y_m")  # columns of a device table that are no keys
OTHERS = (*PLACES, "cell", "class")
OF_CLASS = {  # keys that a device class sets
    "cpu_hz": "cpu_hz",
    "capacitance": "capacitance",
    "flops_per_cycle": "flops_per_cycle",
    "step_cycles": "step_cycles",
    "power_dbm": "power_dbm",
    "battery_joule": "battery_joule",
    "receive_watt": "receive_watt",
    "idle_watt": "idle_watt",
}


class Hardware(NamedTuple):
    """Where the numbers of the devices come from."""

    settings: WorldConfig
    seed: int
    lines: tuple[Line, ...]  # of the device table; empty: there is none
    of_device: list[DeviceClass]  # empty: none

    def column(self, name: str, law: Law | float, round: int = SETUP) -> Floats:
        """The numbers of all devices for the key `name`, `[n_devices]`: from the table, the classes or the law."""
        if self.lines and name in self.lines[0].cells:
            return listed(self.settings, self.lines, name)
        if self.of_device and name in OF_CLASS:
            return catalogue.column(self.of_device, OF_CLASS[name])
        if not isinstance(law, Law):
            return np.full(self.settings.n_devices, law)
        return law.draw(stream(self.seed, round, f"world.{name}"), self.settings.n_devices)

    def maybe(self, name: str, law: Law) -> Floats | None:
        """As `column`, but None if the number is 0 for every device."""
        found = self.column(name, law)
        return found if found.any() else None


@lru_cache(maxsize=8)
def hardware(settings: WorldConfig, seed: int) -> Hardware:
    """Read the device table and find the classes; raises BadInput for what does not fit."""
    lines = table_lines(settings)
    if lines and "class" in lines[0].cells:
        path = File(settings.device_table).path
        of_device = [catalogue.find(line.cells["class"], f"{path!r} line {line.number}") for line in lines]
    elif settings.device_class:
        of_device = catalogue.drawn(settings.device_class, settings.n_devices, seed)
    else:
        of_device = []
    return Hardware(settings, seed, lines, of_device)


def table_lines(settings: WorldConfig) -> tuple[Line, ...]:
    """The lines of the device table, one per device; empty without a table."""
    if not settings.device_table:
        return ()
    file = File.of(settings.device_table)
    lines = read_lines(file, known=(*OTHERS, *_laws(settings)))
    if len(lines) != settings.n_devices:
        raise BadInput(
            f"world.device_table = {file.path!r} has {len(lines)} lines but world.n_devices = {settings.n_devices}: "
            "write one line per device"
        )
    if (PLACES[0] in lines[0].cells) != (PLACES[1] in lines[0].cells):
        raise BadInput(f"world.device_table = {file.path!r} has one of the columns x_m and y_m: give both or none")
    return lines


def listed(settings: WorldConfig, lines: tuple[Line, ...], name: str) -> Floats:
    """A column of the device table, checked against the limits of the key that it stands for."""
    file = File.of(settings.device_table)
    if name == "cell":
        return np.array([whole_number(file, line, name, 0.0, settings.n_cells - 1) for line in lines])
    if name in PLACES:
        return np.array([within(file, line, name, -1e9, 1e9) for line in lines])
    return np.array(checked_column(file, lines, name, _laws(settings)[name]))


def _laws(settings: WorldConfig) -> dict[str, Any]:
    """The options of all keys that a table column may replace: laws of devices, and two numbers that all share."""
    found = {key: entry for key, entry, value in keys(settings) if isinstance(value, Law)}
    del found["interference_over_noise"]  # is drawn per block, not per device
    return found | {key: entry for key, entry, _ in keys(settings) if key in ("capacitance", "flops_per_cycle")}


def draw_devices(settings: WorldConfig, flops_per_sample: float | Floats, seed: int) -> Devices:
    """Draw every device's limits once; each field has its own stream, so laws can change one by one.

    Args:
        settings: the laws, the table and the classes.
        flops_per_sample: of the model's forward pass, or one number per device. With `flops_per_cycle` and `backward`
            it gives the cycles of devices whose law says 0.
        seed: of the run.
    """
    of = hardware(settings, seed)
    cycles = of.column("cycles_per_sample", settings.cycles_per_sample)
    flops = flops_per_sample / of.column("flops_per_cycle", settings.flops_per_cycle)
    backward = settings.backward if settings.backward is not None else BACKWARD if of.of_device else 0.0
    return Devices(
        cpu_hz=of.column("cpu_hz", settings.cpu_hz),
        cycles_per_sample=np.where(cycles == 0, flops * (1.0 + backward), cycles),
        capacitance=of.column("capacitance", settings.capacitance),
        power_watt=dbm_to_watt(of.column("power_dbm", settings.power_dbm)),
        energy_per_round_joule=of.column("energy_per_round_joule", settings.energy_per_round_joule),
        battery_joule=of.column("battery_joule", settings.battery_joule),
        step_cycles=of.maybe("step_cycles", settings.step_cycles),
        **{
            name: of.maybe(name, getattr(settings, name))
            for name in ("receive_watt", "idle_watt", "harvest_watt", "charge_watt")
        },
    )


def redraw_cpu(settings: WorldConfig, devices: Devices, seed: int, round: int) -> Devices:
    """The same devices with this round's CPU clocks; power and energy budgets stay.

    Reference: chen-ch6, A-8
    """
    return devices._replace(cpu_hz=hardware(settings, seed).column("cpu_hz", settings.cpu_hz, round))


def switched_on(settings: WorldConfig, seed: int, round: int) -> Bools:
    """Which devices are switched on this round, each with its own probability drawn once."""
    if settings.availability.values == (1.0,) and not settings.device_table:  # whatever is drawn
        return np.ones(settings.n_devices, dtype=np.bool_)
    probability = hardware(settings, seed).column("availability", settings.availability)
    return np.asarray(stream(seed, round, "world.switched_on").random(settings.n_devices) < probability)
