"""The trimmed mean of every entry. Not a method itself: it has no `build`.

Reference: Yin et al., Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates, 2018.
"""

from torch import Tensor


def trimmed_mean(rows: Tensor, trim: float) -> Tensor:
    """The mean of every column of `[n_rows, n_params]` without its `floor(trim n_rows)` smallest and largest values."""
    out = min(int(trim * len(rows)), (len(rows) - 1) // 2)
    return rows.sort(dim=0).values[out : len(rows) - out].mean(dim=0)
