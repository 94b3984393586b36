"""Signal, noise, rate and outage against plain scalars and Monte Carlo."""

from math import exp, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell.radio.rate import noise_watt, rate_bps, sinr, success_probability

positive = st.floats(1e-12, 1e3)


@given(power=positive, gain=positive, band=st.floats(1.0, 1e9), interference=st.floats(0.0, 1e3))
def test_rate_against_shannon(power: float, gain: float, band: float, interference: float) -> None:
    quality = power * gain / (band * 4e-21 + interference)
    assert sinr(power, gain, noise_watt(band, 4e-21), interference) == pytest.approx(quality)
    if 1e-6 < quality < 1e12:
        assert rate_bps(band, sinr(power, gain, noise_watt(band, 4e-21), interference)) == pytest.approx(
            band * log2(1 + quality), rel=1e-9
        )


def test_noise_grows_with_the_band_unless_fixed() -> None:
    band = np.array([0.0, 1.0, 1e6])
    np.testing.assert_allclose(noise_watt(band, 4e-21), [0.0, 4e-21, 4e-15])
    np.testing.assert_array_equal(noise_watt(band, 4e-21, 1e-13), [1e-13] * 3)


@pytest.mark.parametrize("fixed", [None, 1e-13])
def test_no_band_has_no_rate(fixed: float | None) -> None:
    band, power = np.array([0.0, 1e6]), np.array([0.1, 0.0])
    assert rate_bps(band, sinr(power, np.array([1e-9, 1e-9]), noise_watt(band, 4e-21, fixed))).tolist() == [0.0, 0.0]


def test_a_faint_signal_keeps_its_digits() -> None:
    assert rate_bps(1e6, 1e-18) == pytest.approx(1e6 * 1e-18 / np.log(2), rel=1e-12)


def test_success_probability_is_the_share_of_fading_above_the_threshold() -> None:
    fading = np.random.default_rng(0).standard_exponential(400_000)
    power, gain, noise, interference, threshold = 0.2, 1e-9, 3e-11, 1e-11, 2.0
    share = np.mean(power * gain * fading / (noise + interference) >= threshold)
    chance = success_probability(power, gain, noise, interference, threshold)
    assert chance == pytest.approx(exp(-threshold * 4e-11 / 2e-10))
    assert chance == pytest.approx(share, abs=0.003)


def test_success_needs_power_and_is_certain_without_disturbance() -> None:
    power = np.array([0.0, 1e-320, 1.0, 1.0])
    noise = np.array([1e-13, 1e-13, 0.0, 1e-13])
    assert success_probability(power, 1e-9, noise, 0.0, 1.0)[:3].tolist() == [0.0, 0.0, 1.0]
    assert success_probability(np.linspace(0, 1, 9), 1e-12, 1e-13, 0.0, 1.0).argsort().tolist() == list(range(9))
