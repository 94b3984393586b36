"""Decibels and physical constants. Everything else in fedcell is linear SI."""

import numpy as np
from numpy.typing import ArrayLike

from .types import Floats

LIGHT_SPEED_M_PER_S = 299_792_458.0


def db_to_ratio(value_db: ArrayLike) -> Floats:
    """Linear power ratio of a value in dB: `10 ** (value_db / 10)`.

    >>> float(db_to_ratio(30.0))
    1000.0
    """
    return np.asarray(10.0 ** (np.asarray(value_db, dtype=np.float64) / 10.0))


def ratio_to_db(ratio: ArrayLike) -> Floats:
    """Value in dB of a linear power ratio, `-inf` for zero.

    >>> float(ratio_to_db(1000.0))
    30.0
    """
    with np.errstate(divide="ignore"):
        return np.asarray(10.0 * np.log10(np.asarray(ratio, dtype=np.float64)))


def dbm_to_watt(value_dbm: ArrayLike) -> Floats:
    """Watts of a power in dBm.

    >>> float(dbm_to_watt(30.0))
    1.0
    """
    return db_to_ratio(value_dbm) * 1e-3


def watt_to_dbm(power_watt: ArrayLike) -> Floats:
    """Power in dBm of a power in watts.

    >>> float(watt_to_dbm(1.0))
    30.0
    """
    return ratio_to_db(np.asarray(power_watt, dtype=np.float64) * 1e3)
