"""What users' models foretell: each names its likeliest next files, and the server of the cell adds them up.

With `r_u` the requests that user `u` expects to make in the round, `p_u(f)` the probability that the model names for
file `f`, zero beyond the named files, and `s_b(f)` the share of `f` in what the server of cell `b` has served:

    w_b(f) = sum_u  min(r_u, 1) p_u(f)  +  s_b(f) sum_u  [min(r_u, 1) (1 - sum_f p_u(f)) + max(r_u - 1, 0)]

The model speaks of the next request alone. For requests behind it, and for what users do not name, the server goes by
what it has seen.

Reference: rawhfl, footnote 2 (predictions serve content placement); the sum is not in the paper
"""

import numpy as np

from ....types import Floats
from ..servers import View

NEEDS = ("served", "reports")


def wanted(view: View) -> Floats:
    """The expected requests of the round, `[n_cells, n_files]`."""
    assert view.served is not None
    assert view.reports is not None
    share, rate, cell = view.reports
    first = np.minimum(rate, 1.0)
    member = (cell == np.arange(view.n_cells)[:, None]).astype(np.float64)  # [n_cells, n_users]
    unnamed = first * np.maximum(1.0 - share.sum(axis=1), 0.0) + np.maximum(rate - 1.0, 0.0)
    total = np.maximum(view.served.sum(axis=1, keepdims=True), 1)
    return np.asarray(member @ (first[:, None] * share) + (member @ unnamed)[:, None] * view.served / total)
