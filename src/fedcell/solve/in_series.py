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


def without_each(fixed: Floats, full: Floats) -> Floats:
    """When a set ends without each of its jobs, `[n_jobs]`: all cases at once, up to rounding those of `in_series`.

    >>> without_each(np.array([0.3, 0.6, 0.35]), np.array([0.01, 0.02, 0.5])).round(12).tolist()
    [0.87, 0.85, 0.62]
    """
    latest_first = np.argsort(-fixed, kind="stable")
    length = full[latest_first]
    end = fixed[latest_first] + np.cumsum(length)  # of the job itself and all that are ready no earlier
    later = np.append(0.0, np.maximum.accumulate(end)[:-1])
    earlier = np.append(np.maximum.accumulate(end[::-1])[-2::-1], 0.0)
    times = np.empty_like(end)
    times[latest_first] = np.maximum(later, earlier - length)
    return times
