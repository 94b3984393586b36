"""Matchings of rows and columns."""

import numpy as np

from ..types import Floats, Ints


def assign(weight: Floats) -> Ints:
    """The matching of rows to columns with the largest sum of weights.

    `max sum_ij z_ij w_ij` with at most one column per row and one row per column. Pairs of weight 0 or less are never
    made: leaving both free is as good.

    Args:
        weight: `[n_rows, n_columns]`, finite or minus infinity; any shape, more rows than columns or the reverse.

    Returns: `[n_rows]`, the column of every row, -1 if it has none.

    >>> assign(np.array([[3.0, 5.0], [4.0, 0.0], [0.0, 0.0]])).tolist()
    [1, 0, -1]
    """
    from scipy.optimize import linear_sum_assignment  # takes longer to import than a small run

    gain = np.maximum(weight, 0.0)
    row, column = linear_sum_assignment(gain, maximize=True)
    worth = gain[row, column] > 0
    found = np.full(len(gain), -1, dtype=np.int64)
    found[row[worth]] = column[worth]
    return found
