"""Drawn channels: their laws by Monte Carlo, and what is fixed against what changes."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedcell.options import Law
from fedcell.types import Floats
from fedcell.world.channel import fading, interference_watt, mean_gain
from fedcell.world.pathloss import uma_los_db, uma_los_probability, uma_nlos_db
from fedcell.world.settings import WorldConfig

N = 40_000


@pytest.mark.parametrize("distance", [15.0, 60.0, 200.0])
def test_line_of_sight_and_shadowing_have_their_laws(distance: float) -> None:
    """The loss in dB is a mixture of two normal laws, so its distribution function is known exactly."""
    settings = WorldConfig()
    loss_db = -10 * np.log10(mean_gain(settings, np.full(N, distance), seed=5, round=0))
    radio = (settings.carrier_hz, settings.station_height_m, settings.device_height_m)
    at = np.array([distance])
    chance, los, nlos = uma_los_probability(at)[0], uma_los_db(at, *radio)[0], uma_nlos_db(at, *radio)[0]

    def mixture(x: Floats) -> Any:
        return chance * stats.norm.cdf(x, los, 4.0) + (1 - chance) * stats.norm.cdf(x, nlos, 6.0)

    assert stats.kstest(loss_db, mixture).pvalue > 1e-3
    if distance < 18:
        assert loss_db.std() == pytest.approx(4.0, rel=0.02)


def test_far_away_shadowing_is_that_of_no_line_of_sight() -> None:
    loss_db = -10 * np.log10(mean_gain(WorldConfig(), np.full(N, 5000.0), seed=5, round=0))
    middle = loss_db[np.abs(loss_db - np.median(loss_db)) < 18]  # leaves out the 0.4 % with line of sight
    assert middle.std() == pytest.approx(6.0, rel=0.03)


def test_static_line_of_sight_is_drawn_once() -> None:
    d = np.linspace(20, 400, 30)
    once, anew = WorldConfig(los="static"), WorldConfig(los="redraw")
    np.testing.assert_array_equal(mean_gain(once, d, 1, 0), mean_gain(once, d, 1, 9))
    assert (mean_gain(anew, d, 1, 0) != mean_gain(anew, d, 1, 9)).all()
    assert (mean_gain(once, d, 1, 0) != mean_gain(once, d, 2, 0)).all()


def test_power_law_gain_has_no_shadowing() -> None:
    settings = WorldConfig(pathloss="power_law", reference_gain_db=-30.0, exponent=2.0)
    np.testing.assert_allclose(mean_gain(settings, np.array([1.0, 20.0]), 0, 0), [1e-3, 1e-3 / 400])


def test_fading_is_exponential_with_mean_one_or_absent() -> None:
    drawn = fading(WorldConfig(fading="exponential"), N, 3, 0)
    assert stats.kstest(drawn, "expon").pvalue > 1e-3
    assert drawn.mean() == pytest.approx(1.0, abs=0.02)
    assert (fading(WorldConfig(), 5, 3, 0) == 1.0).all()


def test_interference_is_a_multiple_of_the_noise_of_a_block() -> None:
    law = Law((1e2, 1e5), "uniform")
    density = 10 ** (-174 / 10) * 1e-3
    by_band = interference_watt(WorldConfig(interference_over_noise=law, bandwidth_hz=1e6, n_blocks=500), 1, 0)
    multiple = by_band / (1e6 * density)
    assert by_band.shape == (500,)
    assert multiple.min() >= 1e2
    assert multiple.max() <= 1e5
    assert multiple.mean() == pytest.approx(5e4, rel=0.1)
    fixed = interference_watt(WorldConfig(interference_over_noise=law, noise_watt=2e-13, n_blocks=500), 1, 0)
    np.testing.assert_allclose(fixed / 2e-13, multiple)


def test_interference_is_fixed_or_redrawn_and_zero_by_default() -> None:
    once = WorldConfig(interference_over_noise=Law((1.0, 9.0), "uniform"))
    anew = WorldConfig(interference_over_noise=Law((1.0, 9.0), "uniform"), interference="redraw")
    np.testing.assert_array_equal(interference_watt(once, 1, 0), interference_watt(once, 1, 5))
    assert (interference_watt(anew, 1, 0) != interference_watt(anew, 1, 5)).all()
    assert (interference_watt(WorldConfig(n_blocks=3), 1, 0) == np.zeros(3)).all()
