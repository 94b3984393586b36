"""What becomes of devices: hand-worked cases, a plain scalar reference, and properties."""

from math import exp, inf, log2
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scenes import scene

from fedcell.errors import ContractError
from fedcell.radio import mark_invalid, transmit
from fedcell.rng import stream
from fedcell.types import Decision, Observation, Outcome, Uplink, World, WorldState
from fedcell.world import settle

D, T, E, LOST = Outcome.DELIVERED, Outcome.LATE, Outcome.ENERGY, Outcome.OUTAGE


def sent(seed: int = 0, **changes: Any) -> Uplink:
    return transmit(*scene(1, **changes), seed)


def costs(uplink: Uplink) -> list[float]:
    """compute s, upload s, compute J, radio J, bits of the first device."""
    return [float(column[0]) for column in uplink[:5]]


# Unless changed: computing 1 s and 0.1 J, sending 0.5 s and 0.05 J, 1e6 bit.
HAND_WORKED = [
    ({}, D, [1.0, 0.5, 0.1, 0.05, 1e6], 1.5),
    ({"deadline_s": 1.5}, D, [1.0, 0.5, 0.1, 0.05, 1e6], 1.5),
    ({"deadline_s": 1.5 * (1 - 1e-10)}, D, [1.0, 0.5, 0.1, 0.05, 1e6], 1.5),
    ({"deadline_s": 1.25}, T, [1.0, 0.25, 0.1, 0.025, 5e5], 1.25),
    ({"deadline_s": 0.5}, T, [0.5, 0.0, 0.05, 0.0, 0.0], 0.5),
    ({"energy": 0.15}, D, [1.0, 0.5, 0.1, 0.05, 1e6], 1.5),
    ({"energy": 0.12}, E, [1.0, 0.2, 0.1, 0.02, 4e5], 1.5),
    ({"battery": 0.04, "energy": 9.0}, E, [0.4, 0.0, 0.04, 0.0, 0.0], 1.5),
    ({"energy": 0.12, "deadline_s": 1.4}, E, [1.0, 0.2, 0.1, 0.02, 4e5], 1.4),
    ({"energy": 0.12, "deadline_s": 1.1}, T, [1.0, 0.1, 0.1, 0.01, 2e5], 1.1),  # the deadline comes first
    ({"power_watt": 0.0, "deadline_s": 3.0}, T, [1.0, 2.0, 0.1, 0.0, 0.0], 3.0),
    ({"gain": 0.0, "deadline_s": 3.0}, T, [1.0, 2.0, 0.1, 0.2, 0.0], 3.0),
    ({"gain": 0.0, "deadline_s": 3.0, "energy": 0.2}, E, [1.0, 1.0, 0.1, 0.1, 0.0], 3.0),
    ({"bandwidth_hz": 0.0}, LOST, [1.0, 0.0, 0.1, 0.0, 0.0], 1.0),
    ({"bandwidth_hz": 0.0, "energy": 0.05}, E, [0.5, 0.0, 0.05, 0.0, 0.0], 1.0),
    ({"gain": 1e-300}, LOST, [1.0, 0.0, 0.1, 0.0, 0.0], 1.0),
    ({"payload_bit": 0.0, "power_watt": 0.0}, D, [1.0, 0.0, 0.1, 0.0, 0.0], 1.0),
    ({"samples": 0.0}, D, [0.0, 0.5, 0.0, 0.05, 1e6], 0.5),
    ({"response_s": 0.3, "deadline_s": 0.4}, D, [1.0, 0.5, 0.1, 0.05, 1e6], 0.3),
    ({"response_s": 3.0, "deadline_s": 2.5}, T, [1.0, 0.25, 0.1, 0.025, 5e5], 2.5),
    ({"response_s": 0.0, "deadline_s": 2.5}, D, [1.0, 0.5, 0.1, 0.05, 1e6], 0.0),
    ({"response_s": 0.3, "energy": 0.12}, E, [1.0, 0.2, 0.1, 0.02, 4e5], 0.3),
    ({"round_s": 7.0}, D, [1.0, 0.5, 0.1, 0.05, 1e6], 7.0),
    ({"config": {"clock": "deadline", "deadline_s": 4.0}, "deadline_s": 4.0}, D, [1.0, 0.5, 0.1, 0.05, 1e6], 4.0),
]


@pytest.mark.parametrize(("changes", "outcome", "cost", "round_s"), HAND_WORKED)
def test_hand_worked(changes: dict[str, Any], outcome: Outcome, cost: list[float], round_s: float) -> None:
    uplink = sent(**changes)
    assert Outcome(uplink.outcome[0]) is outcome
    assert costs(uplink) == pytest.approx(cost, rel=1e-9)
    assert uplink.round_s == pytest.approx(round_s)


def test_unselected_devices_cost_nothing_whatever_their_entries() -> None:
    made = scene(3, selected=[True, False, False], power_watt=[0.1, 99.0, -5.0], cpu_hz=[1e9, 0.0, 9e9], block=77)
    uplink = transmit(*made, 0)
    assert uplink.outcome.tolist() == [Outcome.DELIVERED, Outcome.IDLE, Outcome.IDLE]
    for column in uplink[:5]:
        assert column[1:].tolist() == [0.0, 0.0]


def test_an_empty_round_takes_no_time() -> None:
    uplink = transmit(*scene(3, selected=False, response_s=4.0), 0)
    assert uplink.round_s == 0.0
    assert not uplink.outcome.any()
    assert not uplink.delivered.any()


def test_a_round_lasts_as_long_as_its_slowest_selected_device() -> None:
    made = scene(3, steps=[5, 10, 50], selected=[True, True, False])
    assert transmit(*made, 0).round_s == pytest.approx(2.5)


def test_a_broken_contract_is_refused() -> None:
    with pytest.raises(ContractError, match="power_watt of device 0"):
        sent(power_watt=2.0)


def test_interference_counts_on_resource_blocks_only() -> None:
    on_block = transmit(*scene(2, config={"access": "block"}, block=[0, 3]), 0)
    np.testing.assert_allclose(on_block.upload_s, [0.5, 1.0 / log2(1 + 3e-9 / 5e-9)])
    own_band = transmit(*scene(2, block=[0, 3]), 0)
    np.testing.assert_allclose(own_band.upload_s, [0.5, 0.5])


def test_fixed_noise_does_not_shrink_with_the_band() -> None:
    uplink = transmit(*scene(2, config={"access": "fdma", "noise_watt": 1e-9}, bandwidth_hz=5e5), 0)
    np.testing.assert_allclose(uplink.upload_s, [1.0, 1.0])


def test_outage_has_its_probability_and_costs_the_whole_upload() -> None:
    n = 4000
    made = {"config": {"outage_threshold_db": 3.0}, "mean_gain": 3e-8}
    uplink = transmit(*scene(n, **made), 5)
    chance = exp(-(10**0.3) * 1e-9 / (0.1 * 3e-8))
    assert uplink.delivered.mean() == pytest.approx(chance, abs=4 * (chance * (1 - chance) / n) ** 0.5)
    assert set(uplink.outcome) == {Outcome.DELIVERED, Outcome.OUTAGE}
    np.testing.assert_allclose(uplink.radio_joule, 0.05)
    assert (uplink.sent_bit == 1e6).all()
    expected = stream(5, 0, "outage").random(n) < chance
    np.testing.assert_array_equal(uplink.delivered, expected)
    np.testing.assert_array_equal(transmit(*scene(n, **made), 5).outcome, uplink.outcome)
    assert (transmit(*scene(n, round=1, **made), 5).outcome != uplink.outcome).any()


def test_outage_counts_the_interference_of_the_block() -> None:
    """Blocks differ by a factor of 5 in disturbance; 300 rounds tell their success rates apart."""
    config = {"access": "block", "outage_threshold_db": 0.0}
    hits = np.mean([transmit(*scene(2, config=config, block=[0, 3], round=r), 1).delivered for r in range(300)], axis=0)
    assert hits == pytest.approx([exp(-1 / 3), exp(-5 / 3)], abs=0.1)


def test_outage_by_the_fading_that_sets_the_rate() -> None:
    """SINR 3 (4.8 dB) of the first device passes 4 dB, SINR 2 (3 dB) does not, whatever the mean gain says."""
    config = {"outage_threshold_db": 4.0, "outage": "same_fading"}
    for mean_gain in (1e-12, 1.0):
        uplink = transmit(*scene(2, config=config, gain=[3e-8, 2e-8], mean_gain=mean_gain), 5)
        assert uplink.outcome.tolist() == [D, LOST]
    on_block = transmit(*scene(2, config=config | {"access": "block"}, block=[0, 3]), 5)
    assert on_block.outcome.tolist() == [D, LOST]


def test_who_else_is_selected_does_not_change_a_devices_luck() -> None:
    config = {"outage_threshold_db": 3.0}
    everyone = transmit(*scene(200, config=config), 3).delivered
    half = np.arange(200) % 2 == 0
    some = transmit(*scene(200, config=config, selected=half), 3).delivered
    np.testing.assert_array_equal(some, everyone & half)


def test_outage_comes_after_energy_and_deadline() -> None:
    config = {"outage_threshold_db": 90.0}  # certain
    assert sent(config=config).outcome[0] == LOST
    assert sent(config=config, deadline_s=1.2).outcome[0] == T
    assert sent(config=config, energy=0.12).outcome[0] == E


def test_mark_invalid_touches_delivered_devices_only() -> None:
    uplink = transmit(*scene(4, selected=[True, True, True, False], steps=[5, 5, 50, 5], deadline_s=2.0), 0)
    marked = mark_invalid(uplink, np.array([1, 2, 3]))
    assert marked.outcome.tolist() == [D, Outcome.INVALID, T, Outcome.IDLE]
    assert uplink.outcome.tolist() == [D, D, T, Outcome.IDLE]
    assert mark_invalid(uplink, np.array([], dtype=np.int64)).outcome.tolist() == uplink.outcome.tolist()


# ---------------------------------------------------------------- against a plain scalar reference


def played(
    cycles: float, f: float, p: float, gain: float, band: float, bits: float, deadline: float, budget: float
) -> tuple[Outcome, float, float]:
    """(outcome, joules of computing, of sending), by asking which comes first: the end, the deadline, no energy."""
    deadline, budget = deadline * (1 + 1e-9), budget * (1 + 1e-9)  # the tolerance of the contract
    compute_s, compute_watt = cycles / f, 1e-28 * f**3
    rate = band * log2(1 + p * gain / (band * 1e-15)) if band > 0 else 0.0
    upload_s = 0.0 if bits == 0 else bits / rate if rate > 0 else inf
    if upload_s == inf and deadline == inf:
        upload_s = 0.0
    end_s = compute_s + upload_s
    if compute_watt * compute_s > budget:
        empty_s = budget / compute_watt
    else:
        empty_s = compute_s + (budget - compute_watt * compute_s) / p if p > 0 else inf
    assume(deadline == inf or abs(empty_s - deadline) > 1e-6 * deadline)  # a tie may go either way
    stop_s = min(end_s, deadline, empty_s)
    outcome = E if empty_s == stop_s < min(end_s, deadline) else T if deadline < end_s else D
    if rate == 0 and bits > 0 and outcome is D:
        outcome = LOST
    return outcome, compute_watt * min(stop_s, compute_s), p * max(stop_s - compute_s, 0.0)


devices = st.fixed_dictionaries(
    {
        "steps": st.integers(1, 40),
        "samples": st.floats(0.0, 100.0),
        "cpu_hz": st.floats(1e8, 2e9),
        "power_watt": st.one_of(st.just(0.0), st.floats(1e-3, 1.0)),
        "gain": st.one_of(st.just(0.0), st.floats(1e-12, 1e-6)),
        "bandwidth_hz": st.one_of(st.just(0.0), st.floats(1e3, 1e6)),
        "payload_bit": st.one_of(st.just(0.0), st.floats(1.0, 1e8)),
        "energy": st.one_of(st.just(inf), st.floats(1e-3, 3.0)),
        "battery": st.one_of(st.just(inf), st.floats(1e-3, 3.0)),
    }
)
deadlines = st.one_of(st.just(inf), st.floats(1e-3, 100.0))


def scene_of(rows: list[dict[str, Any]], **changes: Any) -> tuple[World, Observation, Decision]:
    return scene(len(rows), **{name: [row[name] for row in rows] for name in rows[0]}, **changes)


@given(rows=st.lists(devices, min_size=1, max_size=5), deadline=deadlines)
def test_against_a_plain_scalar(rows: list[dict[str, Any]], deadline: float) -> None:
    uplink = transmit(*scene_of(rows, deadline_s=deadline), 0)
    for k, row in enumerate(rows):
        cycles = row["steps"] * row["samples"] * 1e7
        outcome, compute, radio = played(
            cycles,
            row["cpu_hz"],
            row["power_watt"],
            row["gain"],
            row["bandwidth_hz"],
            row["payload_bit"],
            deadline,
            min(row["energy"], row["battery"]),
        )
        assert Outcome(uplink.outcome[k]) is outcome
        assert uplink.compute_joule[k] == pytest.approx(compute, rel=1e-6, abs=2e-7)
        assert uplink.radio_joule[k] == pytest.approx(radio, rel=1e-6, abs=2e-7)


@given(
    rows=st.lists(devices, min_size=1, max_size=6),
    deadline=deadlines,
    response=st.one_of(st.none(), st.floats(0.0, 50.0)),
    chosen=st.integers(0, 63),
    seed=st.integers(0, 9),
)
def test_invariants(
    rows: list[dict[str, Any]], deadline: float, response: float | None, chosen: int, seed: int
) -> None:
    selected = [bool(chosen >> k & 1) for k in range(len(rows))]
    config = {"outage_threshold_db": 0.0}
    made = scene_of(rows, deadline_s=deadline, response_s=response, selected=selected, config=config)
    world, observation, decision = made
    uplink = transmit(*made, seed)
    on, got = decision.selected, uplink.delivered
    spent = uplink.compute_joule + uplink.radio_joule
    budget = np.minimum(observation.devices.energy_per_round_joule, observation.battery_joule)

    assert all(np.isfinite(column).all() and (column >= 0).all() for column in uplink[:6])
    assert np.isfinite(uplink.round_s)
    assert (spent <= budget * (1 + 1e-12)).all()
    broke = uplink.outcome == E
    np.testing.assert_allclose(spent[broke], budget[broke], rtol=1e-12)
    assert (uplink.sent_bit[got] == decision.payload_bit[got]).all()
    assert (uplink.sent_bit <= decision.payload_bit).all()
    assert ((uplink.outcome == Outcome.IDLE) == ~on).all()
    assert (spent[~on] == 0).all()
    busy = uplink.compute_s + uplink.upload_s if response is None else np.where(on, response, 0.0)
    assert (busy[got] <= deadline * (1 + 1e-9)).all()
    assert uplink.round_s <= deadline
    assert uplink.round_s >= (busy[got].max(initial=0.0) if deadline == inf else 0.0)

    state = WorldState(observation.store, None, observation.battery_joule, 0.0)
    after = settle(world, state, uplink)
    assert (after.battery_joule >= 0).all()
    assert (after.battery_joule <= observation.battery_joule).all()
    assert after.clock_s == uplink.round_s
