"""What a server takes in of a round: uploads with numbers that are not finite never count. Not a method itself."""

import numpy as np
from torch import Tensor

from .. import radio
from ..errors import Diverged
from ..types import Method, Problem, Round, Uplink, is_deferred


def aggregate(problem: Problem, method: Method, params: Tensor, state: object, sent: Round) -> tuple[object, Uplink]:
    """What the method's `aggregate` makes of the uploads that are finite, and the uplink without the others.

    A large cohort whose updates the method adds up is trained on the way, and who is not finite is known at the end
    only. As weights depend on who is heard, it is then done again without those.
    """
    if method.adds_up and is_deferred(sent.updates.rows):
        found = method.aggregate(problem, params, state, sent)
        played = refuse_invalid(sent)
        if np.array_equal(played.uplink.outcome, sent.uplink.outcome):
            return found, sent.uplink
    else:
        played = refuse_invalid(sent._replace(updates=sent.updates._replace(rows=sent.updates.delta)))
    return method.aggregate(problem, params, state, played), played.uplink


def refuse_invalid(sent: Round) -> Round:
    """Turn away uploads with numbers that are not finite; all of them at once means divergence."""
    updates, round = sent.updates, sent.observation.round
    invalid = updates.device[~updates.finite()]
    if len(invalid) and len(invalid) == len(updates.device):
        raise Diverged(f"round {round}: all {len(invalid)} local updates are not finite: lower the learning rate")
    return sent._replace(uplink=radio.mark_invalid(sent.uplink, invalid))
