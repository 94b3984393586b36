"""One-variable searches against functions whose answer is known."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from fedcell.solve.sca import successive_linear
from fedcell.solve.scalar import convex_minimum, largest


@given(st.floats(0.1, 10), st.floats(0.1, 10), st.floats(0.01, 5), st.floats(0.02, 5))
def test_convex_minimum_is_that_of_scipy(a, b, low, width):
    high = low + width
    found = convex_minimum(lambda x: -a / x**2 + b, np.array([low]), np.array([high]))[0]
    wanted = minimize_scalar(lambda x: a / x + b * x, bounds=(low, high), method="bounded", options={"xatol": 1e-10}).x
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    np.testing.assert_allclose(found, np.clip(np.sqrt(a / b), low, high), rtol=1e-9)


def test_convex_minimum_leaves_its_arguments_alone():
    low, high = np.zeros(2), np.ones(2)
    convex_minimum(lambda x: x - 0.3, low, high)
    assert low.tolist() == [0, 0]
    assert high.tolist() == [1, 1]


@given(st.lists(st.tuples(st.integers(-3, 40), st.integers(0, 30)), min_size=1, max_size=20))
def test_largest_is_the_last_that_holds(pairs):
    bar, most = np.array(pairs, dtype=np.int64).T
    asked = []

    def holds(k):
        asked.append(k)
        return k <= bar

    np.testing.assert_array_equal(largest(holds, most), np.clip(np.minimum(bar, most), 0, None))
    assert all((k >= 1).all() for k in asked)
    assert len(asked) <= 6


def test_successive_linear_takes_the_best_end_within_the_budget():
    """max x (or -x) s.t. sqrt(x) <= 2 on [1, 9]: the concave cost is met from inside."""
    start, low, high = np.full(2, 1.5), np.ones(2), np.full(2, 9.0)
    found = successive_linear(
        lambda x: (np.array([1.0, -1.0]) * x, np.array([1.0, -1.0])),
        lambda x: (np.sqrt(x), 0.5 / np.sqrt(x)),
        np.full(2, 2.0),
        low,
        high,
        start,
        iterations=60,
        tolerance=1e-12,
    )
    np.testing.assert_allclose(found.x, [4.0, 1.0], rtol=1e-6)
    assert (np.sqrt(found.x) <= 2 + 1e-12).all()
    assert found.feasible.all()


def test_successive_linear_says_what_has_no_solution():
    one = np.ones(3)
    found = successive_linear(
        lambda x: (-x, -one),
        lambda x: (x * np.array([1, 1, 0]) + np.array([0, 0, 9]), np.array([1.0, 1.0, 0.0])),
        np.array([5.0, 0.5, 5.0]),  # fine, too small for x >= 1, constant cost above it
        np.array([1.0, 1.0, 1.0]),
        np.array([4.0, 4.0, 4.0]),
        2 * one,
    )
    assert found.feasible.tolist() == [True, False, False]
    assert found.x[0] == 1
