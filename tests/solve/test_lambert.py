"""The logarithmic equation against its definition and against scipy's Lambert function."""

import numpy as np
from scipy.special import lambertw

from fedcell.solve.lambert import log_multiple


def test_solves_its_equation_over_all_scales():
    a = np.concatenate([1 + 10.0 ** np.arange(-15.5, 3, 0.01), 10.0 ** np.arange(3, 300, 0.5)])
    y = log_multiple(a)
    np.testing.assert_allclose(y / np.log1p(y), a, rtol=1e-14)
    assert (np.diff(y) >= 0).all()


def test_is_the_lower_branch_of_lambert():
    a = np.geomspace(1.01, 1e9, 400)
    wanted = -a * lambertw(-np.exp(-1 / a) / a, k=-1).real - 1
    np.testing.assert_allclose(log_multiple(a), wanted, rtol=1e-9)


def test_without_a_positive_root_it_is_zero():
    assert log_multiple(np.array([[0.0, 0.5], [1.0, np.inf]])).tolist() == [[0.0, 0.0], [0.0, np.inf]]
