"""A method whose devices code what they send: any method that sends updates, wrapped in a coding.

With `u` a device's update plus, with error feedback, what it kept from before, the server gets `C(u)` and the device
keeps `u - C(u)`. If the upload is lost, the device keeps the same, so that the update is lost as without a coding; or
it keeps all of `u`, if the coding has `keeps_lost`. Decisions are planned with the most bits that a payload can take;
seconds, joules and bits are those of the payloads that were really sent. Not a method itself: it has no `build`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...coding import Coding
from ...errors import BadInput
from ...types import (
    Bools,
    Decision,
    Ints,
    Method,
    Observation,
    Problem,
    Round,
    as_is,
    at_once,
    finite_rows,
    is_stateless,
    stateless,
)
from .contributions import Contributions, nothing, remember
from .encoding import CodedKept, CodedState, encode, fitted, planned
from .summed import summed
from .turns import CODED, refuse_air


def coded(method: Method, coding: Coding, name: str = "this method") -> Method:
    """The method with a coding between `local` and sending; raises BadInput if the two do not go together."""
    if coding.at_sum is not None:
        return summed(method, coding, name)
    if not method.sends_updates:
        raise BadInput(
            f"{coding.name} does not go with {name}: it codes updates of a shared model and devices of {name} send "
            f"{method.sends}, so use {name} without it, or a method that sends updates"
        )
    if method.encode is not as_is:
        raise BadInput(f"{coding.name} does not go with {name}: it has a coding already, so drop one of them")
    return method._replace(
        init=partial(init, method, coding),
        decide=partial(decide, method, coding),
        broadcast=inside(coding, method.broadcast),
        local=inside(coding, method.local),
        encode=partial(encode, coding),
        aggregate=partial(aggregate, method, coding),
        evaluate=inside(coding, method.evaluate),
        foretell=inside(coding, method.foretell) if method.foretell else None,
        personal=inside(coding, method.personal) if method.personal else None,
        collect=at_once if method.collect is at_once else partial(collect, method, coding),
    )


def inside(coding: Coding, seam: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function of the method so that it gets the method's own problem and state."""

    def call(problem: Problem, *given: Any) -> Any:
        return seam(planned(coding, problem), *map(_own, given))

    return stateless(call) if is_stateless(seam) else call


def _own(given: Any) -> Any:
    """The method's state inside a coded one, or a tuple of those of all cells; returns anything else as it is."""
    if isinstance(given, CodedState):
        return given.own
    return tuple(map(_own, given)) if type(given) is tuple else given


def init(method: Method, coding: Coding, problem: Problem, params: Tensor) -> CodedState:
    refuse_air(problem, coding.name, CODED)
    n_kept = fitted(coding, problem).n_kept(len(params))
    rest = nothing(problem.world.n_devices, n_kept) if coding.feedback else None
    return CodedState(method.init(planned(coding, problem), params), rest)


def decide(method: Method, coding: Coding, problem: Problem, state: Any, observation: Observation) -> Decision:
    """The method's decision; raises BadInput if it trains only parts of a model."""
    decision: Decision = inside(coding, method.decide)(problem, state, observation)
    if decision.mask is not None:
        what = f"{coding.name} codes whole updates and this method trains parts of a model (Decision.mask)"
        raise BadInput(f"{what}: use one of them")
    return decision


# ---------------------------------------------------------------- collect, aggregate


def collect(
    method: Method, coding: Coding, problem: Problem, params: Tensor, state: CodedState, sent: Round
) -> tuple[Round, CodedState]:
    """Collect as the method does; what a device keeps changes when it sends, not when the upload arrives.

    If an upload is lost later, because its device is switched off, the device has nothing of it to send again.
    """
    seen, after = method.collect(planned(coding, problem), params, state.own, _without_rest(sent))
    return seen, CodedState(after, _rest_after(state, sent))


def aggregate(
    method: Method, coding: Coding, problem: Problem, params: Tensor, state: CodedState, played: Round
) -> tuple[Tensor, CodedState]:
    """The method's step; devices keep what they did not send, as far as it is finite."""
    params, after = method.aggregate(planned(coding, problem), params, state.own, _without_rest(played))
    return params, CodedState(after, _rest_after(state, played))


def _without_rest(played: Round) -> Round:
    """The round as the method sees it, without what devices keep for the coding."""
    kept = played.updates.kept
    own = kept.own if isinstance(kept, CodedKept) else kept
    return played._replace(updates=played.updates._replace(kept=own))


def _rest_after(state: CodedState, played: Round) -> Contributions | None:
    """What devices did not send, after a round; real devices keep it themselves."""
    kept, rest, device = played.updates.kept, state.rest, played.updates.device
    if rest is None or not isinstance(kept, CodedKept) or kept.rest is None:
        return rest
    rest = remembered(rest, kept.rest, device, played.decision.steps)
    if kept.whole is None:
        return rest
    return remembered(rest, kept.whole, device, played.decision.steps, ~played.uplink.delivered[device])


def remembered(
    rest: Contributions, rows: Tensor, device: Ints, steps: Ints, chosen: Bools | bool = True
) -> Contributions:
    """The buffer with those chosen rows that are finite; other devices keep what they had."""
    fine = finite_rows(rows) & chosen
    part = rows if fine.all() else rows[torch.from_numpy(fine).to(rows.device)]
    return remember(rest, device[fine], part, steps[device[fine]], np.ones(len(part)))
