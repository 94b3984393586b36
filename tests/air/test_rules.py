"""The rules of sending at once: OBDA by hand, COTAF's precoder by its formula, the scale that an amplifier keeps."""

from math import erfc

import numpy as np
import pytest
import torch
from sent_at_once import AIR, asks, fedavg, sent, silent, some_rows

from fedcell import air
from fedcell.air import Burst, analog, cotaf, obda
from fedcell.air.superposed import superposed
from fedcell.simulate import simulate
from fedcell.world.settings import WorldConfig


def burst(**parts):
    given = {"weights": np.full(3, 1 / 3), "square": np.array([4.0, 16.0, 1.0]), "n_entries": 8, "n_symbols": 4.0}
    return Burst(**{**given, "reach_watt": np.array([2.0, 2.0, 2.0]), **parts})


def test_rules_are_files_that_the_setting_names():
    for name in ("analog", "cotaf", "obda"):
        assert isinstance(air.rule_of(WorldConfig(access="air", air_rule=name)), air.AirRule)


# ---------------------------------------------------------------- COTAF


def test_the_precoder_of_cotaf_is_its_formula():
    """`p_t = P / max_k |u_k|^2`, for unit channels and equal weights; `P` is the energy of all symbols of an update."""
    power_per_symbol = 2.0
    precoder = cotaf.scale(burst()) * (1 / 3) ** 2  # devices send sqrt(p_t) u_k
    assert precoder == pytest.approx(power_per_symbol * 4 / 16.0)


def test_cotaf_takes_the_weakest_channel_and_the_longest_update_wherever_they_are():
    assert cotaf.scale(burst(reach_watt=np.array([2.0, 8.0, 0.5]))) == pytest.approx(0.5 / (16 / 9 / 4))
    assert analog.scale(0.0, burst(reach_watt=np.array([2.0, 8.0, 0.5]))) == pytest.approx(
        min(2 / (4 / 36), 8 / (16 / 36), 0.5 / (1 / 36))
    )


def test_noise_falls_with_the_square_of_updates_unless_the_scale_is_kept(small):
    rows, weights = some_rows(6, 1000), np.full(6, 1 / 6)

    def error(rows, **settings):
        problem = small(AIR | {f"world.{key}": value for key, value in settings.items()})
        return superposed(problem, "fedavg", asks(weights), sent(problem, rows)).uplink

    for rule in ("analog", "cotaf"):
        before, after = (error(size * rows, air_rule=rule) for size in (1.0, 0.1))
        assert after.sums["air_mse"] == pytest.approx(0.01 * before.sums["air_mse"])
        assert after.radio_joule == pytest.approx(before.radio_joule)
    before, after = (error(size * rows, air_full_scale=2.0) for size in (1.0, 0.1))
    assert after.sums["air_mse"] == before.sums["air_mse"]
    assert after.radio_joule == pytest.approx(0.01 * before.radio_joule)
    larger = error(10 * rows, air_full_scale=2.0)  # which full power is not enough for
    assert larger.sums["air_mse"] == pytest.approx(error(10 * rows).sums["air_mse"])


# ---------------------------------------------------------------- OBDA

VOTES = [[0.5, -2.0, 0.1, 0.0], [3.0, -0.1, -0.2, 0.0], [-9.0, -0.1, -0.1, 1.0]]


def test_a_vote_by_hand(small):
    """Signs (+ - + 0), (+ - - 0), (- - - +) add up to (1, -3, -1, 1): a large update has no more say."""
    problem = silent(small(AIR | {"world.n_devices": 3, "world.air_rule": "obda", "world.air_step": 0.25}))
    weights = np.array([0.1, 0.1, 0.7])  # nor has a large weight
    heard = superposed(problem, "fedavg", asks(weights), sent(problem, torch.tensor(VOTES)))
    assert asks(weights)(heard).tolist() == pytest.approx([0.225, -0.225, -0.225, 0.225])


def test_power_of_a_vote_by_hand(small):
    """Two symbols of 2, 1, and 2, 1, and 2, 2 (a zero is not sent), so the third device needs most."""
    problem = small(AIR | {"world.n_devices": 3, "world.air_rule": "obda"})
    played = sent(problem, torch.tensor(VOTES), np.array([1e-9, 1e-9, 1e-9]), np.array([0.1, 0.1, 0.1]))
    heard = superposed(problem, "fedavg", asks(np.full(3, 1 / 3)), played)
    seconds = 2 / problem.world.settings.bandwidth_hz
    assert heard.uplink.radio_joule == pytest.approx(np.array([0.075, 0.075, 0.1]) * seconds)


def test_votes_of_one_device_flip_as_often_as_the_noise_says(small):
    """`Pr(flip) = Q(sqrt(2 eta / sigma^2))` with `eta = p g / 2`."""
    problem = small(AIR | {"world.n_devices": 1, "world.air_rule": "obda", "world.air_step": 1.0})
    noise, n = problem.world.noise_watt_per_hz * problem.world.settings.bandwidth_hz, 40_000
    played = sent(problem, torch.ones(1, n), np.array([1e-12]), np.array([1.5 * noise / 1e-12]))
    votes = asks(np.ones(1))(superposed(problem, "fedavg", asks(np.ones(1)), played))
    chance = erfc((1.5 / 2) ** 0.5) / 2
    assert set(votes.tolist()) == {-1.0, 1.0}
    assert float((votes < 0).float().mean()) == pytest.approx(chance, abs=6 * (chance * (1 - chance) / n) ** 0.5)


def test_fedavg_moves_by_the_step(small):
    problem = silent(small(AIR | {"world.air_rule": "obda", "world.air_step": 0.01}, rounds=1))
    before = problem.learner.initial()
    ((_, after),) = simulate(problem, fedavg())
    moved = (after.params - before).abs()
    assert float(moved.max()) == pytest.approx(0.01, rel=1e-5)
    assert ((moved < 1e-7) | ((moved - 0.01).abs() < 1e-7)).all()


def test_numbers_that_are_not_finite_have_no_sign():
    assert not obda.signs(torch.tensor([[float("inf"), 1.0], [float("nan"), 1.0]])).sum(dim=1).isfinite().any()
