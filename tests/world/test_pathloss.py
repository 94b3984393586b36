"""Urban macro and power law against numbers worked out by hand from the standard's tables."""

from math import exp, log10, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell.world import pathloss
from fedcell.world.pathloss import (
    breakpoint_m,
    power_law_gain,
    uma_los_db,
    uma_los_probability,
    uma_nlos_db,
    uma_shadowing_db,
)

RADIO = (2.4e9, 25.0, 1.5)  # carrier, station height, device height
BY_HAND = [  # d2D, LOS dB, NLOS dB, Pr(LOS)
    (10.0, 66.562780, 76.137876, 1.0),
    (18.0, 67.973133, 78.643177, 1.0),
    (100.0, 79.861021, 99.760388, 0.34767084),
    (300.0, 90.130117, 118.002036, 0.06803635),
    (400.0, 93.178590, 122.861969, 0.04666947),
    (1000.0, 109.071057, 138.388910, 0.01800013),
    (5000.0, 137.025254, 165.700160, 0.00360000),
]


@pytest.mark.parametrize(("distance", "los", "nlos", "chance"), BY_HAND)
def test_urban_macro_by_hand(distance: float, los: float, nlos: float, chance: float) -> None:
    d = np.array([distance])
    assert uma_los_db(d, *RADIO)[0] == pytest.approx(los, abs=1e-6)
    assert uma_nlos_db(d, *RADIO)[0] == pytest.approx(nlos, abs=1e-6)
    assert uma_los_probability(d)[0] == pytest.approx(chance, abs=1e-8)


@given(
    d=st.floats(1.0, 5000.0),
    ghz=st.floats(0.5, 30.0),
    station=st.floats(5.0, 40.0),
    device=st.floats(1.1, 13.0),
)
def test_urban_macro_against_a_plain_scalar(d: float, ghz: float, station: float, device: float) -> None:
    d3 = sqrt(d**2 + (station - device) ** 2)
    d_bp = 4 * (station - 1) * (device - 1) * ghz * 1e9 / 299792458
    if d <= d_bp:
        los = 28 + 22 * log10(d3) + 20 * log10(ghz)
    else:
        los = 28 + 40 * log10(d3) + 20 * log10(ghz) - 9 * log10(d_bp**2 + (station - device) ** 2)
    nlos = max(los, 13.54 + 39.08 * log10(d3) + 20 * log10(ghz) - 0.6 * (device - 1.5))
    chance = 1.0 if d <= 18 else 18 / d + exp(-d / 63) * (1 - 18 / d)
    at = np.array([d])
    assert uma_los_db(at, ghz * 1e9, station, device)[0] == pytest.approx(los)
    assert uma_nlos_db(at, ghz * 1e9, station, device)[0] == pytest.approx(nlos)
    assert uma_los_probability(at)[0] == pytest.approx(chance)


def test_line_of_sight_is_continuous_at_the_breakpoint() -> None:
    d_bp = breakpoint_m(*RADIO)
    assert d_bp == pytest.approx(384.2658377, abs=1e-6)
    below, above = uma_los_db(np.array([d_bp, np.nextafter(d_bp, np.inf)]), *RADIO)
    assert above == pytest.approx(below, abs=1e-9)
    slope = np.diff(uma_los_db(np.array([d_bp / 1.01, d_bp, d_bp * 1.01]), *RADIO))
    assert slope[1] / slope[0] == pytest.approx(40 / 22, rel=0.01)


def test_high_devices_nearby_lose_no_less_without_line_of_sight() -> None:
    near = np.array([10.0])
    assert uma_nlos_db(near, 2.4e9, 25.0, 13.0)[0] == uma_los_db(near, 2.4e9, 25.0, 13.0)[0]


def test_loss_grows_and_line_of_sight_gets_rarer_with_distance() -> None:
    d = np.geomspace(1.0, 5000.0, 300)
    assert (np.diff(uma_los_db(d, *RADIO)) > 0).all()
    assert (np.diff(uma_nlos_db(d, *RADIO)) > 0).all()
    assert (np.diff(uma_los_probability(d)) <= 0).all()
    assert (uma_los_probability(d)[d <= 18] == 1).all()


def test_shadowing_deviation() -> None:
    np.testing.assert_array_equal(uma_shadowing_db(np.array([True, False])), [4.0, 6.0])


def test_power_law() -> None:
    np.testing.assert_allclose(power_law_gain(np.array([1.0, 10.0, 100.0]), 1e-3, 2.0), [1e-3, 1e-5, 1e-7])
    assert power_law_gain(np.array([50.0]), 1.0, 3.5)[0] == pytest.approx(1 / 50**3.5)


def test_losses_of_fixed_distances_are_computed_once_and_others_anew():
    """Equal to the formulas, whatever happens to the array; nothing is left once it is gone."""
    radio, other = (2.4e9, 25.0, 1.5), (3.5e9, 25.0, 1.5)
    distance_m = np.linspace(10.0, 900.0, 50).copy()
    before = len(pathloss._KNOWN)
    free = pathloss.uma_losses(distance_m, radio)
    distance_m *= 2.0
    moved = pathloss.uma_losses(distance_m, radio)
    assert not np.array_equal(free.los_db, moved.los_db), "an array that can be written to is not trusted"
    assert len(pathloss._KNOWN) == before
    distance_m.flags.writeable = False
    first, again = pathloss.uma_losses(distance_m, radio), pathloss.uma_losses(distance_m, radio)
    assert again is first
    for found, carrier in ((first, radio), (pathloss.uma_losses(distance_m, other), other)):
        np.testing.assert_array_equal(found.los_probability, pathloss.uma_los_probability(distance_m))
        np.testing.assert_array_equal(found.los_db, pathloss.uma_los_db(distance_m, *carrier))
        np.testing.assert_array_equal(found.nlos_db, pathloss.uma_nlos_db(distance_m, *carrier))
    assert len(pathloss._KNOWN) == before + 2
    del distance_m
    assert len(pathloss._KNOWN) == before
