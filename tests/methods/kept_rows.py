"""What a buffer of contributions holds, as one matrix."""

import numpy as np

from fedcell.methods.parts.contributions import rows_of


def matrix(kept, like):
    """All rows together, `[n_devices, n_params]`, made where `like` lies."""
    return rows_of(kept, np.arange(len(kept.seen)), like)
