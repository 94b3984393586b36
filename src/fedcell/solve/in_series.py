"""Jobs that use one resource one after the other: the least time in which all of them can end.

Job `k` is ready at `fixed[k]` and then needs the whole resource for `full[k]`. The first to be ready goes first, which
no other order beats, and the last one ends at

    T = max_k (fixed[k] + sum_{j ready no earlier than k} full[j]).
"""

import numpy as np

from ..types import Floats


def in_series(fixed: Floats, full: Floats) -> Floats:
    """When the last job of a set ends; many sets at once, `[...]`, 0 for a set without jobs.

    Args:
        fixed: `[..., n_jobs]`, finite, at least 0.
        full: `[..., n_jobs]`, at least 0.

    >>> float(in_series(np.array([0.3, 0.6, 0.35]), np.array([0.01, 0.02, 0.5])))
    0.87
    """
    latest_first = np.argsort(-fixed, axis=-1, kind="stable")
    ready, length = (np.take_along_axis(part, latest_first, axis=-1) for part in (fixed, full))
    return np.asarray((ready + np.cumsum(length, axis=-1)).max(axis=-1, initial=0.0))
