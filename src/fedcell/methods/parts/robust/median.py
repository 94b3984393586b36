"""The median of every entry. Not a method itself: it has no `build`.

Reference: Yin et al., Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates, 2018.
"""

from torch import Tensor


def median(rows: Tensor) -> Tensor:
    """The median of every column of `[n_rows, n_params]`; of an even number the mean of the middle two."""
    ordered, middle = rows.sort(dim=0).values, len(rows) // 2
    return ordered[middle] if len(rows) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
