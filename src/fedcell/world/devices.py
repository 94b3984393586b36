"""The hardware of the devices, and which of them are switched on."""

import numpy as np

from ..options import Law
from ..rng import SETUP, stream
from ..types import Bools, Devices, Floats
from ..units import dbm_to_watt
from .settings import WorldConfig


def draw_devices(settings: WorldConfig, flops_per_sample: float | Floats, seed: int) -> Devices:
    """Draw every device's limits once; each field has its own stream, so laws can change one by one.

    Args:
        settings: the laws.
        flops_per_sample: of the model, or of each device's own; with `flops_per_cycle` it gives the cycles where the
            law says 0.
        seed: of the run.
    """

    def field(name: str, law: Law) -> Floats:
        return _draw(settings, name, law, seed, SETUP)

    cycles = field("cycles_per_sample", settings.cycles_per_sample)
    return Devices(
        cpu_hz=field("cpu_hz", settings.cpu_hz),
        cycles_per_sample=np.where(cycles == 0, flops_per_sample / settings.flops_per_cycle, cycles),
        capacitance=np.full(settings.n_devices, settings.capacitance),
        power_watt=dbm_to_watt(field("power_dbm", settings.power_dbm)),
        energy_per_round_joule=field("energy_per_round_joule", settings.energy_per_round_joule),
        battery_joule=field("battery_joule", settings.battery_joule),
    )


def redraw_cpu(settings: WorldConfig, devices: Devices, seed: int, round: int) -> Devices:
    """The same devices with this round's CPU clocks; power and energy budgets stay.

    Reference: chen-ch6, A-8
    """
    return devices._replace(cpu_hz=_draw(settings, "cpu_hz", settings.cpu_hz, seed, round))


def switched_on(settings: WorldConfig, seed: int, round: int) -> Bools:
    """Which devices are switched on this round, each with its own probability drawn once."""
    if settings.availability.values == (1.0,):  # whatever is drawn
        return np.ones(settings.n_devices, dtype=np.bool_)
    probability = _draw(settings, "availability", settings.availability, seed, SETUP)
    return np.asarray(stream(seed, round, "world.switched_on").random(settings.n_devices) < probability)


def _draw(settings: WorldConfig, name: str, law: Law, seed: int, round: int) -> Floats:
    return law.draw(stream(seed, round, f"world.{name}"), settings.n_devices)
