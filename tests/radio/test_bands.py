"""Every device on every band: against the forecast of one decision at a time, and against closed forms."""

from math import exp, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenes import scene

from fedcell.radio import bands, cost, times


@pytest.mark.parametrize("access", ["block", "own_band", "fdma"])
def test_rates_are_those_of_decisions_on_each_band(access):
    world, observation, decision = scene(3, config={"access": access}, gain=[3e-8, 1e-8, 2e-9])
    power = np.array([0.1, 0.2, 0.3])
    band = np.full(3, 1e6 if access == "block" else 2.5e5)
    rates = bands.rate_bps(world, observation, power, band)
    assert rates.shape == (3, 4 if access == "block" else 1)
    for column in range(rates.shape[1]):
        chosen = decision._replace(power_watt=power, bandwidth_hz=band, block=np.full(3, column))
        np.testing.assert_allclose(1e6 / rates[:, column], times(world, observation, chosen)[1])


def test_hand_worked_on_blocks():
    world, observation, _ = scene(2, config={"access": "block", "outage_threshold_db": 0.0}, gain=[3e-8, 1e-8])
    power = np.full(2, 0.1)
    np.testing.assert_allclose(bands.rate_bps(world, observation, power)[:, 0], [2e6, 1e6])
    assert bands.rate_bps(world, observation, power)[0, 3] == pytest.approx(1e6 * log2(1 + 3 / 5))
    success = bands.success_probability(world, observation, power)
    np.testing.assert_allclose(success[0], [exp(-n / 3) for n in (1, 2, 3, 5)])
    by_band = np.tile(power[:, None], (1, 4))
    np.testing.assert_array_equal(bands.success_probability(world, observation, by_band), success)


def test_uploads_always_survive_without_outage():
    world, observation, _ = scene(2, config={"access": "block"})
    assert (bands.success_probability(world, observation, np.zeros(2)) == 1).all()


# ---------------------------------------------------------------- the power a budget allows


@given(st.floats(1e-4, 1e4), st.floats(1e3, 1e9), st.floats(1e4, 1e8), st.floats(1e-2, 1e8))
def test_affordable_power_spends_the_budget(budget, payload, band, g):
    power = float(cost.affordable_power_watt(budget, payload, band, np.array(g)))
    if budget * band * g <= payload * np.log(2):
        assert power == 0
    elif np.isfinite(power):
        spent = cost.upload_joule(power, cost.upload_s(payload, band * np.log1p(power * g) / np.log(2)))
        assert spent == pytest.approx(budget, rel=1e-12)


def test_affordable_power_grows_with_the_budget_and_has_its_ends():
    power = cost.affordable_power_watt(np.array([-1.0, 0.0, 1e-9, 1.0, 2.0, np.inf]), 1e6, 1e6, np.full(6, 100.0))
    assert power[:3].tolist() == [0, 0, 0]
    assert 0 < power[3] < power[4] < power[5] == np.inf
    assert cost.affordable_power_watt(1.0, 0.0, 1e6, np.array([100.0])).tolist() == [np.inf]
    assert cost.affordable_power_watt(np.inf, 1e6, 1e6, np.array([0.0])).tolist() == [0.0]
