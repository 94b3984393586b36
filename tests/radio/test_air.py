"""Sending at once: symbols, seconds, who is silent, who is late, and the station's antennas."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell import radio
from fedcell.methods.parts.resources import plan
from fedcell.radio import air
from fedcell.simulate import SIMULATED
from fedcell.types import Snapshot
from fedcell.world import start

AIR = {"world.access": "air", "world.fading": "exponential"}


def observed(problem, round=0):
    before = Snapshot(round, problem.learner.whole(), None, start(problem.world, problem.seed))
    return SIMULATED.observe(problem, before)[0]


def everyone(problem, observation, **parts):
    decision = plan(problem, observation, np.ones(problem.world.n_devices, dtype=bool), 2, 8.0)
    return decision._replace(**parts)


@pytest.mark.parametrize(("numbers", "symbols"), [(0, 0), (1, 1), (2, 1), (651, 326)])
def test_two_numbers_make_a_symbol(small, numbers, symbols):
    world = small(AIR | {"world.bits_per_parameter": "16"}).world
    assert air.symbols(world, np.array([16.0 * numbers])) == [symbols]
    assert air.upload_s(world, np.array([16.0 * numbers])) == [symbols / 1e6]


# ---------------------------------------------------------------- who is silent


def outcomes(problem, rounds):
    for round in range(rounds):
        observation = observed(problem, round)
        yield observation, radio.transmit(problem.world, observation, everyone(problem, observation), problem.seed)


def test_a_threshold_silences_the_share_that_rayleigh_fading_says(small):
    problem, n = small(AIR | {"world.n_devices": "50", "world.air_threshold": "0.4"}), 50 * 60
    heard = sum(int(uplink.delivered.sum()) for _, uplink in outcomes(problem, 60))
    share = np.exp(-0.4)
    assert heard / n == pytest.approx(share, abs=5 * (share * (1 - share) / n) ** 0.5)


def test_a_level_silences_the_share_that_rayleigh_fading_says(small):
    changes = {"world.n_devices": "50", "world.air_snr_db": "10", "world.radius_m": "1200", "world.los": "static"}
    problem = small(AIR | changes)
    noise, heard, chances = problem.world.noise_watt_per_hz * 1e6, 0, []
    for observation, uplink in outcomes(problem, 60):
        arrives = observation.devices.power_watt * observation.gain
        assert ((arrives >= 10 * noise) == uplink.delivered).all()
        heard += int(uplink.delivered.sum())
        chances.append(np.exp(-10 * noise / (observation.devices.power_watt * observation.mean_gain)))
    mean, spread = np.sum(chances), np.sum(np.multiply(chances, np.subtract(1, chances))) ** 0.5
    assert 0.1 < mean / (50 * 60) < 0.9
    assert heard == pytest.approx(mean, abs=5 * spread)


def test_the_silent_spend_nothing_on_sending(small):
    problem = small(AIR | {"world.air_threshold": "1", "world.n_devices": "30"})
    uplink = next(outcomes(problem, 1))[1]
    assert set(uplink.letters) == {"D", "O"}
    assert (uplink.radio_joule[~uplink.delivered] == 0).all()
    assert (uplink.compute_joule > 0).all()
    assert not uplink.sent_bit.any()


# ---------------------------------------------------------------- seconds


def test_all_wait_for_the_last_of_their_cell(small):
    changes = {"world.topology": "cells", "world.n_cells": "2", "world.cycles_per_sample": "1e6..1e8"}
    problem = small(AIR | changes)
    observation = observed(problem)
    decision = everyone(problem, observation)
    uplink = radio.transmit(problem.world, observation, decision, problem.seed)
    sending = np.ceil(problem.learner.n_params / 2) / 1e6
    assert uplink.upload_s == pytest.approx(sending)
    assert uplink.round_s == pytest.approx(uplink.compute_s.max() + sending)
    assert uplink.delivered.all()
    assert uplink.radio_joule == pytest.approx(decision.power_watt * sending)


def test_nobody_waits_for_who_is_late(small):
    problem = small(AIR | {"world.cycles_per_sample": "1e6..1e8"})
    observation = observed(problem)
    decision = everyone(problem, observation)
    free = radio.transmit(problem.world, observation, decision, problem.seed)
    ends = free.compute_s + free.upload_s
    deadline_s = float(np.median(ends))
    uplink = radio.transmit(problem.world, observation, decision._replace(deadline_s=deadline_s), problem.seed)
    assert (uplink.delivered == (ends <= deadline_s)).all()
    assert uplink.letters.count("T") == 3
    assert (uplink.radio_joule[~uplink.delivered] == 0).all()
    assert uplink.round_s == deadline_s


def test_the_way_down_comes_first(small):
    problem = small(AIR | {"world.downlink": "unicast", "world.receive_watt": "0.1"})
    observation = observed(problem)
    down = radio.downlink.download(problem.world, observation, everyone(problem, observation))
    uplink = radio.transmit(problem.world, observation, everyone(problem, observation), problem.seed)
    assert uplink.round_s == pytest.approx((down.seconds + uplink.compute_s).max() + uplink.upload_s.max())


def test_who_cannot_pay_for_full_power_does_not_send(small):
    problem = small(AIR)
    observation = observed(problem)
    free = radio.transmit(problem.world, observation, everyone(problem, observation), problem.seed)
    budget = float(np.median(free.spent_joule))
    decision = everyone(problem, observation, budget_joule=budget)
    uplink = radio.transmit(problem.world, observation, decision, problem.seed)
    assert (uplink.delivered == (free.spent_joule <= budget * (1 + 1e-9))).all()
    assert (uplink.radio_joule[~uplink.delivered] == 0).all()
    assert (uplink.spent_joule <= budget * (1 + 1e-9)).all()


def test_most_steps_keep_to_the_deadline(small):
    problem = small(AIR | {"world.cycles_per_sample": "1e6", "world.deadline_s": "0.05"})
    observation = observed(problem)
    decision = everyone(problem, observation)
    most = radio.most_steps(problem.world, observation, decision)
    kept = radio.transmit(problem.world, observation, decision._replace(steps=most), problem.seed)
    late = radio.transmit(problem.world, observation, decision._replace(steps=most + 1), problem.seed)
    assert kept.delivered.all()
    assert not late.delivered.any()


# ---------------------------------------------------------------- antennas


def test_one_antenna_is_the_gain_of_the_round(small):
    problem = small(AIR)
    observation = observed(problem)
    gain = air.combined_gain(problem.world, observation, everyone(problem, observation), problem.seed)
    assert (gain == observation.gain).all()


def test_the_first_antenna_has_the_gain_of_the_round(small):
    problem = small(AIR | {"world.antennas": "3"})
    channel = air.channels(problem.world, observed(problem), problem.seed)
    assert np.abs(channel[:, 0]) ** 2 == pytest.approx(observed(problem).gain)


def test_further_antennas_fade_around_the_mean_gain(small):
    problem = small(AIR | {"world.antennas": "1024"})
    observation = observed(problem)
    power = np.abs(air.channels(problem.world, observation, problem.seed)[:, 1:]) ** 2
    fading = (power / observation.mean_gain[:, None]).ravel()
    assert fading.mean() == pytest.approx(1, abs=5 / len(fading) ** 0.5)
    assert (fading > 0.7).mean() == pytest.approx(np.exp(-0.7), abs=5 * 0.5 / len(fading) ** 0.5)


def test_without_fading_all_antennas_receive_the_same_power(small):
    problem = small({"world.access": "air", "world.antennas": "4"})
    channel = air.channels(problem.world, observed(problem), problem.seed)
    assert np.abs(channel) ** 2 == pytest.approx(np.tile(observed(problem).gain[:, None], 4))


def test_a_device_without_power_leaves_the_antennas_to_others(small):
    problem = small(AIR | {"world.antennas": "3"})
    observation = observed(problem)
    decision = everyone(problem, observation)
    off = np.arange(6) == 2
    alone = air.combined_gain(
        problem.world, observation, decision._replace(selected=decision.selected & ~off), problem.seed
    )
    weak = decision._replace(power_watt=np.where(off, 0.0, decision.power_watt))
    gain = air.combined_gain(problem.world, observation, weak, problem.seed)
    assert gain[~off] == pytest.approx(alone[~off])
    uplink = radio.transmit(problem.world, observation, weak, problem.seed)
    assert uplink.letters == "DDODDD"
    nobody = decision._replace(power_watt=np.zeros(6))
    assert radio.transmit(problem.world, observation, nobody, problem.seed).letters == "OOOOOO"


def test_antennas_add_up_for_one_device():
    a = np.array([[3.0, 4j, -12.0]])
    assert abs(a[0] @ air.combiner(a).conj()) == pytest.approx(13)


@given(seed=st.integers(0, 2**32 - 1), n_devices=st.integers(1, 12), antennas=st.integers(1, 8))
def test_a_combination_is_a_unit_vector_and_no_worse_than_the_best_antenna(seed, n_devices, antennas):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((n_devices, antennas)) + 1j * rng.standard_normal((n_devices, antennas))
    f = air.combiner(a)
    assert np.linalg.norm(f) == pytest.approx(1)
    assert np.abs(a @ f.conj()).min() >= np.abs(a).min(axis=0).max() * (1 - 1e-12)


def test_two_devices_share_antennas_as_well_as_a_grid_finds():
    rng = np.random.default_rng(3)
    a = rng.standard_normal((2, 2)) + 1j * rng.standard_normal((2, 2))
    angle, phase = np.meshgrid(np.linspace(0, np.pi / 2, 400), np.linspace(0, 2 * np.pi, 400))
    grid = np.stack([np.cos(angle), np.sin(angle) * np.exp(1j * phase)], axis=-1).reshape(-1, 2)
    best = np.abs(grid.conj() @ a.T).min(axis=1).max()
    assert np.abs(a @ air.combiner(a).conj()).min() >= 0.9 * best
