"""The files that the whole network asked for most, the same in every cell: the baseline Top-Popular as a placement.

Reference: rawhfl, section V (Top-Popular)
"""

import numpy as np

from ....types import Floats
from ..servers import View

NEEDS = ("served",)


def wanted(view: View) -> Floats:
    """The expected requests of every cell, spread over the files in proportion to what the network has served."""
    assert view.served is not None
    in_network = view.served.sum(axis=0)
    return np.asarray(view.n_expected[:, None] * in_network / max(in_network.sum(), 1))
