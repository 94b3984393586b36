"""The files that will be asked for most: a bound for every placement made between two rounds, not a server."""

import numpy as np

from ....types import Floats
from ..servers import View

NEEDS = ("next",)


def wanted(view: View) -> Floats:
    """The requests of the coming round."""
    assert view.next is not None
    return np.asarray(view.next, dtype=np.float64)
