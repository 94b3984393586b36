"""What a server takes in of a round: uploads with numbers that are not finite never count. Not a method itself."""

from functools import partial

import numpy as np
from torch import Tensor

from .. import radio
from ..errors import Diverged
from ..learn.deferred import Deferred
from ..types import Method, Problem, Round, Uplink
from .sums import Answered, questions_of


def aggregate(problem: Problem, method: Method, params: Tensor, state: object, sent: Round) -> tuple[object, Uplink]:
    """What the method's `aggregate` makes of the uploads that are finite, and the uplink without the others.

    Of a large cohort that it takes sums of alone, updates never lie in memory together. Who is not finite is then known
    only when all are added up. As weights depend on who is heard, such a round is trained once more without those.
    """
    final = partial(method.aggregate, problem, params, state)
    if isinstance(rows := sent.updates.rows, Deferred):
        while (questions := questions_of(final, sent, rows)) is not None:
            known = Answered(rows, questions, rows.add_all(questions))
            played = refuse_invalid(sent)
            if np.array_equal(played.uplink.outcome, sent.uplink.outcome):
                return final(sent._replace(updates=sent.updates._replace(rows=known))), sent.uplink
            sent = played
    played = refuse_invalid(sent._replace(updates=sent.updates._replace(rows=sent.updates.delta)))
    return final(played), played.uplink


def refuse_invalid(sent: Round) -> Round:
    """Turn away uploads with numbers that are not finite; all of them at once means divergence."""
    updates, round = sent.updates, sent.observation.round
    invalid = updates.device[~updates.finite()]
    if len(invalid) and len(invalid) == len(updates.device):
        raise Diverged(f"round {round}: all {len(invalid)} local updates are not finite: lower the learning rate")
    return sent._replace(uplink=radio.mark_invalid(sent.uplink, invalid))
