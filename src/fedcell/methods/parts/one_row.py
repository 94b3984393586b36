"""A round of which one row is known, such as the mean that a server made of a sum.

Not a method itself: it has no `build`.
"""

import numpy as np
from torch import Tensor

from ...types import Outcome, Round, Updates


def as_one(played: Round, mean: Tensor) -> Round:
    """The round as if one device that holds samples had been drawn and heard, with this update."""
    one = np.flatnonzero(played.observation.available)[:1]
    chosen = np.zeros(len(played.decision.selected), dtype=np.bool_)
    chosen[one] = True
    outcome = np.where(chosen, int(Outcome.DELIVERED), int(Outcome.IDLE))
    return played._replace(
        decision=played.decision._replace(selected=chosen),
        updates=Updates(one, mean[None]),
        uplink=played.uplink._replace(outcome=outcome),
    )
