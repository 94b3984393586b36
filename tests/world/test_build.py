"""The world through the rounds: what is fixed, what changes, what a round costs it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell.errors import BadInput, ContractError
from fedcell.options import Law
from fedcell.types import Observation, Store, Stream, Uplink, World, WorldState
from fedcell.world import build_world, observe, settle, start, static_stream
from fedcell.world.channel import interference_watt
from fedcell.world.settings import WorldConfig

RICH = WorldConfig(
    n_devices=12,
    fading="exponential",
    interference_over_noise=Law((1.0, 9.0), "uniform"),
    interference="redraw",
    availability=Law((0.3, 0.9), "uniform"),
    response="exponential",
    response_rate=Law((0.5, 2.0), "uniform"),
    geometry="redraw_hardware",
)
DRAWN = ("gain", "mean_gain", "interference_watt", "available", "response_s")


def store_of(*sizes: int) -> Store:
    return Store(np.zeros((len(sizes), max(sizes)), dtype=np.int64), np.array(sizes, dtype=np.int64))


def seen(settings: WorldConfig, seed: int = 1, round: int = 0) -> Observation:
    world = build_world(settings, static_stream(store_of(*[3] * settings.n_devices)), 100, 1e6, seed)
    return observe(world, start(world, seed), seed, round)[0]


def drawn(observation: Observation) -> dict[str, Any]:
    arrays = {name: getattr(observation, name) for name in DRAWN}
    arrays |= {"place": observation.topology.position_m} | observation.devices._asdict()
    return arrays


def changed(a: Observation, b: Observation) -> set[str]:
    left, right = drawn(a), drawn(b)
    return {name for name in left if not np.array_equal(left[name], right[name])}


def idle_uplink(n: int, compute: Any = 0.0, radio: Any = 0.0, round_s: float = 0.0) -> Uplink:
    zero = np.zeros(n)
    return Uplink(zero, zero, zero + compute, zero + radio, zero, np.zeros(n, dtype=np.int64), round_s)


def test_a_world_carries_its_budgets() -> None:
    settings = WorldConfig(n_devices=4, bits_per_parameter=33.0, topology="cells", n_cells=2, n_blocks=7)
    world = build_world(settings, static_stream(store_of(1, 1, 1, 1)), 1000, 1e6, seed=0)
    assert world.payload_bit == 33_000.0
    assert world.noise_watt_per_hz == pytest.approx(10**-17.4 * 1e-3)
    assert (world.n_devices, world.n_cells, len(world.interference_watt)) == (4, 2, 7)


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(BadInput, match=r"world\.radius_m"):
        build_world(WorldConfig(radius_m=-1.0), static_stream(store_of(1)), 1, 1.0, 0)


def test_a_stream_for_other_devices_is_refused() -> None:
    world = build_world(WorldConfig(n_devices=3), static_stream(store_of(1, 1)), 1, 1.0, 0)
    with pytest.raises(ContractError, match="stores for 2 devices and the world has 3"):
        start(world, 0)


def test_the_same_seed_sees_the_same_world_and_another_does_not() -> None:
    assert changed(seen(RICH, 1, 3), seen(RICH, 1, 3)) == set()
    assert changed(seen(RICH, 1, 3), seen(RICH, 2, 3)) >= {*DRAWN, "place", "cpu_hz"}


@pytest.mark.parametrize(
    ("setting", "moved"),
    [
        ({"cpu_hz": Law((2e9,))}, {"cpu_hz"}),
        ({"power_dbm": Law((3.0,))}, {"power_watt"}),
        ({"fading": "none"}, {"gain"}),
        ({"los": "static"}, {"gain", "mean_gain"}),
        ({"availability": Law((0.0,))}, {"available"}),
        ({"response_rate": Law((9.0,))}, {"response_s"}),
        ({"interference_over_noise": Law((9.0,))}, {"interference_watt"}),
        ({"n_blocks": 3}, {"interference_watt"}),
        ({"radius_m": 100.0}, {"place", "gain", "mean_gain"}),
        ({"battery_joule": Law((5.0,))}, {"battery_joule"}),
        ({"access": "block"}, set()),
    ],
)
def test_a_setting_moves_only_what_it_is_about(setting: dict[str, Any], moved: set[str]) -> None:
    assert changed(seen(RICH, 1, 3), seen(replace(RICH, **setting), 1, 3)) == moved


@pytest.mark.parametrize(
    ("geometry", "moved"),
    [("static", set()), ("redraw", {"place"}), ("redraw_hardware", {"place", "cpu_hz"})],
)
def test_geometry_says_what_is_drawn_anew(geometry: str, moved: set[str]) -> None:
    settings = WorldConfig(geometry=geometry, pathloss="power_law", battery_joule=Law((1.0, 2.0), "uniform"))
    gains = {"gain", "mean_gain"} if moved else set()
    assert changed(seen(settings, 1, 0), seen(settings, 1, 1)) == moved | gains


@pytest.mark.parametrize("interference", ["static", "redraw"])
def test_interference_is_that_of_its_law_in_every_round(interference: str) -> None:
    settings = replace(RICH, interference=interference)
    for round in (0, 4):
        found = seen(settings, 1, round).interference_watt
        np.testing.assert_array_equal(found, interference_watt(settings, 1, round))


def test_mean_gain_leaves_out_the_fading() -> None:
    settings = WorldConfig(n_devices=6, pathloss="power_law", fading="exponential")
    first, second = seen(settings, 1, 0), seen(settings, 1, 1)
    np.testing.assert_array_equal(first.mean_gain, second.mean_gain)
    np.testing.assert_allclose(first.mean_gain, 1e-3 / first.topology.distance_m**2)
    assert (first.gain != second.gain).all()


def test_arrivals_reach_the_stores_and_the_state() -> None:
    def arrive(seed: int, round: int, store: Store, memory: Any) -> tuple[Store, Any]:
        return store._replace(size=store.size + 1), memory + round

    stream = Stream(lambda seed: (Store(np.zeros((2, 9), dtype=np.int64), np.array([0, 4])), 10), arrive)
    world = build_world(WorldConfig(n_devices=2), stream, 1, 1.0, 0)
    state = start(world, 0)
    for round in range(3):
        observation, state = observe(world, state, 0, round)
    assert state.memory == 13
    assert observation.store.size.tolist() == state.store.size.tolist() == [3, 7]


def test_a_static_stream_changes_nothing() -> None:
    stream = static_stream(store_of(2, 5))
    store, memory = stream.start(0)
    assert stream.arrive(0, 4, store, memory) == (store, memory)
    assert store.size.tolist() == [2, 5]


def test_availability_needs_power_charge_and_data() -> None:
    world = build_world(WorldConfig(n_devices=4), static_stream(store_of(1, 0, 2, 3)), 1, 1.0, 0)
    state = start(world, 0)._replace(battery_joule=np.array([1.0, 1.0, 0.0, np.inf]))
    assert observe(world, state, 0, 0)[0].available.tolist() == [True, False, False, True]
    off = world._replace(settings=WorldConfig(n_devices=4, availability=Law((0.0,))))
    assert not observe(off, state, 0, 0)[0].available.any()


def world_with(batteries: list[float]) -> tuple[World, WorldState]:
    n = len(batteries)
    world = build_world(WorldConfig(n_devices=n), static_stream(store_of(*[1] * n)), 1, 1.0, 0)
    return world, start(world, 0)._replace(battery_joule=np.array(batteries))


def test_settling_empties_batteries_and_moves_the_clock() -> None:
    world, state = world_with([5.0, 5.0, np.inf, 0.3])
    uplink = idle_uplink(4, compute=np.array([1.0, 4.0, 7.0, 0.1]), radio=np.array([0.5, 2.0, 7.0, 0.2]), round_s=2.5)
    after = settle(world, state, uplink)
    assert after.battery_joule.tolist() == [3.5, 0.0, np.inf, 0.0]
    assert settle(world, after, uplink).clock_s == 5.0
    assert state.battery_joule.tolist() == [5.0, 5.0, np.inf, 0.3]  # the state before is left as it was


@given(battery=st.floats(1e-6, 1e6), share=st.floats(0.0, 1.0), part=st.floats(0.0, 1.0))
def test_a_battery_spent_exactly_is_empty_and_never_negative(battery: float, share: float, part: float) -> None:
    world, state = world_with([battery])
    compute = battery * part
    assert settle(world, state, idle_uplink(1, compute, battery - compute)).battery_joule[0] == 0.0
    left = settle(world, state, idle_uplink(1, compute * share)).battery_joule[0]
    assert left == pytest.approx(battery - compute * share, abs=1e-9 * battery)
    assert left >= 0.0


def test_a_trace_is_read_when_the_world_is_built(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("1.25\n")
    settings = WorldConfig(n_devices=3, response="trace", response_trace=str(path))
    world = build_world(settings, static_stream(store_of(1, 1, 1)), 1, 1.0, 0)
    path.unlink()
    response = observe(world, start(world, 0), 0, 0)[0].response_s
    assert response is not None
    assert response.tolist() == [1.25] * 3
