"""Decibels against their definition."""

from math import log10

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell.units import db_to_ratio, dbm_to_watt, ratio_to_db, watt_to_dbm


@given(st.floats(1e-20, 1e20))
def test_decibels_are_ten_times_the_decimal_logarithm(ratio: float) -> None:
    assert ratio_to_db(ratio) == pytest.approx(10.0 * log10(ratio), abs=1e-9)
    assert watt_to_dbm(ratio) == pytest.approx(10.0 * log10(ratio) + 30.0, abs=1e-9)


@given(st.floats(-200.0, 200.0))
def test_conversions_undo_each_other(value: float) -> None:
    assert ratio_to_db(db_to_ratio(value)) == pytest.approx(value, abs=1e-9)
    assert watt_to_dbm(dbm_to_watt(value)) == pytest.approx(value, abs=1e-9)


def test_known_powers() -> None:
    np.testing.assert_allclose(dbm_to_watt([0.0, 20.0, 30.0, -174.0]), [1e-3, 0.1, 1.0, 3.981071705534973e-21])
    assert db_to_ratio(3.0) == pytest.approx(1.9952623149688795)


def test_nothing_is_minus_infinity_without_a_warning() -> None:
    assert ratio_to_db(0.0) == -np.inf
