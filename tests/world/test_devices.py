"""Hardware: each limit from its own law and its own stream."""

from typing import Any

import numpy as np
import pytest

from fedcell.options import Law
from fedcell.world.devices import draw_devices, redraw_cpu, switched_on
from fedcell.world.settings import WorldConfig


def spread(low: float, high: float) -> Law:
    return Law((low, high), "uniform")


LAWS: dict[str, Any] = {
    "cpu_hz": spread(0.5e9, 0.9e9),
    "cycles_per_sample": spread(1e6, 2e6),
    "power_dbm": spread(0.0, 10.0),
    "energy_per_round_joule": spread(1.0, 2.0),
    "battery_joule": spread(10.0, 20.0),
}


def test_limits_follow_their_laws() -> None:
    devices = draw_devices(WorldConfig(n_devices=400, capacitance=2e-28, **LAWS), 1.0, seed=0)
    for name, low, high in [
        ("cpu_hz", 0.5e9, 0.9e9),
        ("cycles_per_sample", 1e6, 2e6),
        ("power_watt", 1e-3, 1e-2),
        ("energy_per_round_joule", 1.0, 2.0),
        ("battery_joule", 10.0, 20.0),
    ]:
        drawn = getattr(devices, name)
        assert drawn.shape == (400,)
        assert low <= drawn.min() < low + 0.05 * (high - low)
        assert high - 0.05 * (high - low) < drawn.max() <= high
    assert (devices.capacitance == 2e-28).all()


def test_power_is_uniform_in_dbm() -> None:
    devices = draw_devices(WorldConfig(n_devices=20_000, power_dbm=spread(20.0, 30.0)), 1.0, seed=0)
    assert 10 * np.log10(devices.power_watt * 1e3).mean() == pytest.approx(25.0, abs=0.1)


@pytest.mark.parametrize("changed", list(LAWS))
def test_changing_one_law_leaves_the_others_alone(changed: str) -> None:
    before = draw_devices(WorldConfig(), 1e6, seed=3)
    after = draw_devices(WorldConfig(**{changed: LAWS[changed]}), 1e6, seed=3)
    field = {"power_dbm": "power_watt"}.get(changed, changed)
    for name in before._fields:
        assert np.array_equal(getattr(before, name), getattr(after, name)) == (name != field)


def test_no_cycles_means_those_of_the_model() -> None:
    devices = draw_devices(WorldConfig(flops_per_cycle=4.0), flops_per_sample=1e6, seed=0)
    assert (devices.cycles_per_sample == 2.5e5).all()
    mixed = WorldConfig(n_devices=50, cycles_per_sample=Law((0.0, 7.0), "choice"))
    assert set(draw_devices(mixed, 100.0, seed=0).cycles_per_sample) == {7.0, 100.0}


def test_redrawn_hardware_is_the_cpu_only() -> None:
    settings = WorldConfig(**LAWS)
    devices = draw_devices(settings, 1.0, seed=0)
    first, second = redraw_cpu(settings, devices, 0, 0), redraw_cpu(settings, devices, 0, 1)
    assert (first.cpu_hz != second.cpu_hz).all()
    assert (first.cpu_hz != devices.cpu_hz).all()
    for name in devices._fields[1:]:
        np.testing.assert_array_equal(getattr(first, name), getattr(devices, name))


def test_devices_are_switched_on_with_their_own_probability() -> None:
    settings = WorldConfig(n_devices=30, availability=spread(0.0, 1.0))
    share = np.mean([switched_on(settings, 2, round) for round in range(600)], axis=0)
    assert share.std() > 0.2  # far more than 600 tosses of one coin would spread
    assert share.mean() == pytest.approx(0.5, abs=0.2)
    assert switched_on(WorldConfig(), 2, 0).all()
    assert not switched_on(WorldConfig(availability=Law((0.0,))), 2, 0).any()
