"""Seconds and joules against hand-worked numbers."""

import numpy as np
import pytest

from fedcell.radio.cost import compute_joule, compute_s, cycles, upload_joule, upload_s


def test_computing() -> None:
    c = cycles(np.array([5, 0]), 160.0, np.array([1e6, 1e6]))
    assert c.tolist() == [8e8, 0.0]
    np.testing.assert_allclose(compute_s(c, 1.6e9), [0.5, 0.0])
    np.testing.assert_allclose(compute_joule(c, 1.6e9, 1e-28), [1e-28 * 8e8 * 1.6e9**2, 0.0])
    assert compute_joule(8e8, 1.6e9, 1e-28) / compute_s(8e8, 1.6e9) == pytest.approx(1e-28 * 1.6e9**3)  # watts


def test_sending() -> None:
    sending = upload_s(np.array([1e6, 1e6, 0.0, 0.0]), np.array([2e6, 0.0, 0.0, 5.0]))
    assert sending.tolist() == [0.5, np.inf, 0.0, 0.0]
    assert upload_s(1e6, np.array([1e6, 0.0])).tolist() == [1.0, np.inf]
    assert upload_s(1e300, 1e-300) == np.inf
    assert upload_joule(0.2, 0.5) == pytest.approx(0.1)
