"""Files drawn by lot once, in every cell others: what storage alone brings, `room / n_files` of the requests."""

from ....rng import SETUP, stream
from ....types import Floats
from ..servers import View

NEEDS: tuple[str, ...] = ()


def wanted(view: View) -> Floats:
    """The same lots in every round, so that they are fetched once."""
    return 1.0 + stream(view.seed, SETUP, "edge.random").random((view.n_cells, view.n_files))
