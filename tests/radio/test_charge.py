"""Charge that comes and goes: conserved, and as its closed forms say."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenes import scene

from fedcell.errors import BadInput
from fedcell.options import Law
from fedcell.radio import most_steps, transmit
from fedcell.tables import File
from fedcell.types import Outcome, Store, Uplink, WorldState
from fedcell.world import build_world, observe, settle, start, static_stream
from fedcell.world.energy import gained_joule, on_now, plugged_s, sun_s
from fedcell.world.settings import WorldConfig

TRACE = "device,clock_s,on,plugged\n0,0,1,0\n0,3600,1,1\n0,7200,0,1\n0,9000,1,0\n1,0,1,1\n"


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 1000))
def test_energy_is_conserved_over_ten_thousand_rounds(seed: int) -> None:
    """Charge = first charge + what was gained and fitted in - what was paid, up to rounding."""
    rng, n = np.random.default_rng(seed), 5
    config = WorldConfig(
        n_devices=n,
        battery_joule=Law((50.0, 500.0), "uniform"),
        idle_watt=Law((0.0, 0.02), "uniform"),
        harvest_watt=Law((0.0, 0.2), "uniform"),
        harvest="day",
    )
    store = Store(np.zeros((n, 1), dtype=np.int64), np.ones(n, dtype=np.int64))
    world = build_world(config, static_stream(store), 10, 1e6, seed)
    full = world.devices.battery_joule
    state, paid, gained = start(world, seed), np.zeros(n), np.zeros(n)
    for _ in range(10_000):
        before, length_s = state.battery_joule, float(rng.exponential(30.0))
        work = np.minimum(rng.exponential(1.0, n), before)
        idle = np.minimum(world.devices.idle_watt * length_s, before - work)
        uplink = _uplink(work, length_s)._replace(idle_joule=idle)
        offered = gained_joule(config, world.devices, state.clock_s, length_s)
        state = settle(world, state, uplink)
        paid += work + idle
        gained += np.minimum(offered, full - np.maximum(before - work - idle, 0.0))
        assert (state.battery_joule >= 0).all()
        assert (state.battery_joule <= full * (1 + 1e-12)).all()
    assert state.battery_joule == pytest.approx(full + gained - paid, rel=1e-9, abs=1e-9 * float(paid.max()))
    assert gained.max() > 10 * full.max()  # batteries were filled many times over


def _uplink(work: np.ndarray, round_s: float) -> Uplink:
    zero = np.zeros(len(work))
    return Uplink(zero, zero, 0.25 * work, 0.75 * work, zero, np.zeros(len(work), dtype=np.int64), round_s)


def test_a_played_round_pays_what_its_row_says() -> None:
    """Through `transmit` and `settle`, with a way down and standing by, also if a battery ends in it."""
    world, observation, decision = scene(3, config={"downlink": "broadcast"}, battery=[5.0, 0.12, 0.5])
    devices = observation.devices._replace(
        receive_watt=np.full(3, 0.1), idle_watt=np.full(3, 0.2), battery_joule=np.full(3, 5.0)
    )
    world = world._replace(model_bit=1e6, devices=devices)
    observation = observation._replace(devices=devices)
    uplink = transmit(world, observation, decision, seed=1)
    state = settle(world, WorldState(observation.store, None, observation.battery_joule, 0.0), uplink)
    assert state.battery_joule + uplink.spent_joule == pytest.approx(observation.battery_joule)
    assert uplink.outcome[1] == Outcome.ENERGY
    assert uplink.columns["idle_joule"] == pytest.approx(uplink.idle_joule.sum())


def test_plans_leave_charge_for_standing_by() -> None:
    world, observation, decision = scene(1, battery=[1.0], deadline_s=20.0, energy=np.inf)
    free = most_steps(world, observation, decision)
    devices = observation.devices._replace(idle_watt=np.array([0.03]))
    kept = most_steps(world, observation._replace(devices=devices), decision)
    assert 1 <= kept[0] < free[0]
    uplink = transmit(world, observation._replace(devices=devices), decision._replace(steps=kept), seed=1)
    assert uplink.compute_joule[0] + uplink.radio_joule[0] <= 1.0 - 0.03 * 20.0 + 1e-9
    more = transmit(world, observation._replace(devices=devices), decision._replace(steps=kept + 1), seed=1)
    assert more.compute_joule[0] + more.radio_joule[0] > 1.0 - 0.03 * 20.0


def test_the_sun_is_the_integral_of_its_half_sine() -> None:
    fine = np.linspace(0, 3 * 86400, 400_001)
    sine = np.maximum(np.sin(2 * np.pi * (fine - 21600) / 86400), 0)
    numeric = np.concatenate([[0], np.cumsum((sine[1:] + sine[:-1]) / 2 * np.diff(fine))])
    for at in (0, 30_000, 43_200, 64_800, 100_000, 200_000, 259_199):
        ours = sun_s(at) - sun_s(0.0)
        assert ours == pytest.approx(float(np.interp(at, fine, numeric)), abs=2.0)


def trace(tmp_path: Path, **changes: object) -> WorldConfig:
    path = tmp_path / "states.csv"
    path.write_text(TRACE)
    return replace(WorldConfig(n_devices=2, traces=File.of(str(path)), charge_watt=Law((10.0,))), **changes)


def test_traces_switch_devices_and_charge_them(tmp_path: Path) -> None:
    config = trace(tmp_path, trace_period_s=10_000.0)
    fine = np.arange(0.0, 35_000.0, 1.0) + 0.5
    plugged = ((fine % 10_000 >= 3600) & (fine % 10_000 < 9000)).astype(float)
    for begin, end in ((0, 3600), (3000, 8000), (500, 34_000), (19_999, 20_001), (7000, 7000)):
        expected = plugged[(fine > begin) & (fine < end)].sum()
        assert plugged_s(config, begin, end) == pytest.approx([expected, end - begin], abs=1e-6)
    assert [bool(on_now(config, t)[0]) for t in (0, 7199, 7200, 8999, 9000, 17_300)] == [
        True,
        True,
        False,
        False,
        True,
        False,
    ]
    assert on_now(replace(config, start_s=7200.0), 0.0).tolist() == [False, True]


def test_a_device_that_is_off_is_not_available_and_comes_back_charged(tmp_path: Path) -> None:
    config = trace(tmp_path, battery_joule=Law((100.0,)))
    store = Store(np.zeros((2, 1), dtype=np.int64), np.ones(2, dtype=np.int64))
    world = build_world(config, static_stream(store), 10, 1e6, 1)
    empty = start(world, 1)._replace(battery_joule=np.zeros(2))
    assert not observe(world, empty, 1, 0)[0].available.any()
    later = settle(world, empty._replace(clock_s=3600.0), _uplink(np.zeros(2), 5.0))
    assert later.battery_joule.tolist() == [50.0, 50.0]
    assert observe(world, later, 1, 1)[0].available.all()
    assert observe(world, later._replace(clock_s=8000.0), 1, 1)[0].available.tolist() == [False, True]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0,0,2,0", "line 2: on = 2: write a finite number from 0 to 1"),
        ("0,0,1,0.5", "line 2: plugged = 0.5: write a whole number from 0 to 1"),
        ("0,90000,1,0", r"line 2: clock_s = 90000 is after world\.trace_period_s = 86400"),
    ],
)
def test_bad_states_are_refused_with_their_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(f"device,clock_s,on,plugged\n{line}\n")
    with pytest.raises(BadInput, match=message):
        on_now(WorldConfig(n_devices=1, traces=File.of(str(path))), 0.0)
