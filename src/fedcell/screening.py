"""Screening: uploads with numbers that are not finite never reach a method, and what it returns is checked."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from . import radio
from .air.superposed import superposed
from .errors import ContractError, Diverged
from .learn.deferred import Deferred
from .learn.sums import Answered, questions_of
from .tiers.cell_views import each
from .types import Method, Problem, Round, Updates, Uplink


def aggregate(problem: Problem, method: Method, params: Tensor, state: Any, sent: Round) -> tuple[Tensor, Any, Uplink]:
    """Let the method aggregate the finite uploads; return the model, the state, and the uplink without the others.

    If the method only takes sums of a large cohort, the updates are never all in memory. Updates that are not finite
    are then found only when all are added up. As weights depend on who is heard, the round is then trained once more
    without these.
    """
    check_kept(sent.updates)
    final = partial(method.aggregate, problem, params, state)
    if problem.world.settings.access == "air":
        played = heard_at_once(problem, method.name, final, sent)
        return *checked(params, final(played)), played.uplink
    if isinstance(rows := sent.updates.rows, Deferred):
        while (questions := questions_of(final, sent, rows)) is not None:
            known = Answered(rows, questions, rows.add_all(questions))
            played = refuse_invalid(sent)
            if np.array_equal(played.uplink.outcome, sent.uplink.outcome):
                found = final(sent._replace(updates=sent.updates._replace(rows=known)))
                return *checked(params, found), sent.uplink
            sent = played
    played = refuse_invalid(sent._replace(updates=sent.updates._replace(rows=sent.updates.delta)))
    return *checked(params, final(played)), played.uplink


def heard_at_once(problem: Problem, name: str, final: Callable[[Round], Any], sent: Round) -> Round:
    """The round as it is heard over the air; a device whose numbers are not finite sends nothing."""
    while True:
        heard = superposed(problem, name, final, sent)
        played = refuse_invalid(heard)
        if np.array_equal(played.uplink.outcome, sent.uplink.outcome):
            return heard
        sent = sent._replace(uplink=sent.uplink._replace(outcome=played.uplink.outcome))


def checked(params: Tensor, found: object) -> tuple[Tensor, Any]:
    """Return what aggregate() returned; raise ContractError unless it is a model shaped like `params`, and a state."""
    match found:
        case (Tensor(shape=params.shape) as model, state):
            return model, state
    raise ContractError(f"aggregate() returned {str(found)[:50]!r}: return (params {list(params.shape)}, state)")


def as_updates(found: object) -> Updates:
    """Return what local() returned; raise ContractError unless it is an Updates."""
    if isinstance(found, Updates):
        return found
    raise ContractError(f"local() returned {str(found)[:50]!r}: return a fedcell.types.Updates")


def check_kept(updates: Updates) -> None:
    """Raise ContractError unless what devices keep has one row per trained device."""
    n_rows = len(updates.device)

    def check(part: Any) -> None:
        if len(part) != n_rows:
            raise ContractError(f"kept of local() has {len(part)} rows and {n_rows} devices trained: keep one for each")

    each(check, updates.kept)


def refuse_invalid(sent: Round) -> Round:
    """Mark uploads with numbers that are not finite as invalid; raise Diverged if all of them are."""
    updates, round = sent.updates, sent.observation.round
    invalid = updates.device[~updates.finite()]
    if len(invalid) and len(invalid) == len(updates.device):
        raise Diverged(f"round {round}: all {len(invalid)} local updates are not finite: lower the learning rate")
    return sent._replace(uplink=radio.mark_invalid(sent.uplink, invalid))
