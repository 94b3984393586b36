"""Random files, drawn once per cell: what storage alone achieves, `room / n_files` of the requests."""

from ....rng import SETUP, stream
from ....types import Floats
from ..servers import View

NEEDS: tuple[str, ...] = ()


def wanted(view: View) -> Floats:
    """Random scores, the same in every round, so that files are fetched only once."""
    return 1.0 + stream(view.seed, SETUP, "edge.random").random((view.n_cells, view.n_files))
