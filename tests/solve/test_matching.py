"""Matchings against brute force and against the linear programme."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from fedcell.solve.matching import assign


def value(weight, column):
    row = np.flatnonzero(column >= 0)
    return weight[row, column[row]].sum()


def brute_force(weight):
    """The best sum over all ways to give columns, or none, to rows."""
    n_rows, n_columns = weight.shape
    padded = np.hstack([np.maximum(weight, 0), np.zeros((n_rows, n_rows))])
    return max(
        (padded[range(n_rows), list(chosen)].sum() for chosen in permutations(range(n_columns + n_rows), n_rows)),
        default=0.0,
    )


def linear_programme(weight):
    """max sum z w with row and column sums of at most 1 and 0 <= z <= 1."""
    n_rows, n_columns = weight.shape
    sums = np.vstack([np.kron(np.eye(n_rows), np.ones(n_columns)), np.kron(np.ones(n_rows), np.eye(n_columns))])
    return -linprog(-weight.ravel(), A_ub=sums, b_ub=np.ones(len(sums)), bounds=(0, 1)).fun


def drawn(seed, n_rows, n_columns):
    rng = np.random.default_rng(seed)
    return rng.random((n_rows, n_columns)) * (rng.random((n_rows, n_columns)) < 0.7)


@given(st.integers(0, 10**6), st.integers(0, 4), st.integers(1, 3))
def test_as_good_as_brute_force(seed, n_rows, n_columns):
    weight = drawn(seed, n_rows, n_columns)
    found = assign(weight)
    used = found[found >= 0]
    assert len(set(used)) == len(used)
    assert value(weight, found) == pytest.approx(brute_force(weight))
    assert (weight[np.flatnonzero(found >= 0), used] > 0).all()


@pytest.mark.parametrize("shape", [(12, 5), (5, 12), (9, 9), (30, 10)])
def test_as_good_as_the_linear_programme(shape):
    for seed in range(5):
        weight = drawn(seed, *shape)
        assert value(weight, assign(weight)) == pytest.approx(linear_programme(weight))


def test_nothing_of_weight_zero_or_less_is_made():
    assert assign(np.zeros((3, 2))).tolist() == [-1, -1, -1]
    assert assign(np.array([[-np.inf, -1.0], [2.0, 0.0]])).tolist() == [-1, 0]


def test_one_column_goes_to_the_largest_weight():
    assert assign(np.array([[1.0], [5.0], [3.0]])).tolist() == [-1, 0, -1]


def test_leaves_the_weights_alone():
    weight = np.array([[-1.0, 2.0]])
    assign(weight)
    assert weight.tolist() == [[-1.0, 2.0]]
