"""A method whose devices code what they send: any method that sends updates, wrapped in a coding.

With `u` a device's update and, with error feedback, what it kept from before, the server gets `C(u)` and the device
keeps `u - C(u)`. Of an upload that is lost the device keeps the same, so that a lost update is lost as it is without a
coding; or `u` if the coding says so. Decisions are planned with the most bits that a payload can take; seconds, joules
and bits are those of the payloads that were really sent. Not a method itself: it has no `build`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...coding import Coding, Payload
from ...errors import BadInput
from ...learn.deferred import Deferred
from ...learn.memory import numbers
from ...rng import stream
from ...types import (
    Bools,
    Decision,
    Floats,
    Ints,
    Method,
    Observation,
    Problem,
    Round,
    Rows,
    Updates,
    as_is,
    at_once,
    finite_rows,
    is_stateless,
    stateless,
)
from .contributions import Contributions, nothing, remember, row_of
from .summed import summed
from .turns import CODED, refuse_air


class CodedState(NamedTuple):
    """The method's state, and what devices kept of their updates."""

    own: Any
    rest: Contributions | None  # [n_devices, n_kept], with what a coding remembers behind it; None without feedback


class CodedKept(NamedTuple):
    """What trained devices keep, of the method and of the coding."""

    own: Any
    rest: Tensor | None = None  # [n_rows, n_kept], u - C(u)
    whole: Tensor | None = None  # [n_rows, n_kept], u; for codings that send again what was lost


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


def planned(coding: Coding, problem: Problem) -> Problem:
    """The problem as the method sees it: an update takes what a payload can take at most."""
    bit = fitted(coding, problem).most_bit(problem.learner.n_params, problem.world.settings.bits_per_parameter)
    return problem._replace(world=problem.world._replace(payload_bit=bit + beside_bit(problem)))


def fitted(coding: Coding, problem: Problem) -> Coding:
    """The coding for the network of a problem."""
    return coding.for_network(problem.learner.architectures[0].shapes)


def beside_bit(problem: Problem) -> float:
    """Bits of the running statistics that are sent beside a payload, as they are."""
    return max(problem.learner.n_sent - problem.learner.n_params, 0) * problem.world.settings.bits_per_parameter


def own_bit(coding: Coding, problem: Problem, decision: Decision) -> Floats:
    """Bits that the method itself has devices send beside their updates, such as a loss, `[n_devices]`."""
    return np.maximum(decision.payload_bit - planned(coding, problem).world.payload_bit, 0.0)


def inside(coding: Coding, seam: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the method that is handed its own problem and state."""

    def call(problem: Problem, *given: Any) -> Any:
        return seam(planned(coding, problem), *map(_own, given))

    return stateless(call) if is_stateless(seam) else call


def _own(given: Any) -> Any:
    """The method's state inside a coded one, or those of all cells; anything else as it is."""
    if isinstance(given, CodedState):
        return given.own
    return tuple(map(_own, given)) if type(given) is tuple else given


def init(method: Method, coding: Coding, problem: Problem, params: Tensor) -> CodedState:
    refuse_air(problem, coding.name, CODED)
    n_kept = fitted(coding, problem).n_kept(len(params))
    rest = nothing(problem.world.n_devices, n_kept) if coding.feedback else None
    return CodedState(method.init(planned(coding, problem), params), rest)


def decide(method: Method, coding: Coding, problem: Problem, state: Any, observation: Observation) -> Decision:
    """The method's decision, which must be about whole updates."""
    decision: Decision = inside(coding, method.decide)(problem, state, observation)
    if decision.mask is not None:
        what = f"{coding.name} codes whole updates and this method trains parts of a model (Decision.mask)"
        raise BadInput(f"{what}: use one of them")
    return decision


# ---------------------------------------------------------------- encode


def encode(
    coding: Coding, problem: Problem, state: CodedState, updates: Updates, observation: Observation, decision: Decision
) -> Updates:
    """Rows as the server decodes them, their bits, and what is left. Of a large cohort payloads alone are in memory.

    Rows that lie in memory together are decoded once, for the device and the server.
    """
    n, value_bit, n_rows = problem.learner.n_params, problem.world.settings.bits_per_parameter, len(updates.device)
    beside = beside_bit(problem) + own_bit(coding, problem, decision)
    coding = fitted(coding, problem)
    payloads, bit = np.empty(n_rows, dtype=object), np.zeros(n_rows)
    rest = _room(n_rows, coding.n_kept(n), problem) if coding.feedback else None
    whole = _room(n_rows, coding.n_kept(n), problem) if coding.keeps_lost else None
    rows = updates.rows
    found = None if isinstance(rows, Deferred) else torch.empty(n_rows, n, device=problem.learner.device)

    def look(rows: Ints, delta: Tensor) -> None:
        for row, line in zip(rows.tolist(), delta, strict=True):
            device = int(updates.device[row])
            before = None if state.rest is None else row_of(state.rest, device)
            u, payload = coding.send(line, before, stream(problem.seed, observation.round, f"coding {device}"))
            payloads[row], bit[row] = payload, coding.bits(payload, n, value_bit) + beside[device]
            got = coding.decode(payload, n) if rest is not None or found is not None else u
            if found is not None:
                found[row] = got
            if rest is not None:
                coding.keep(u, payload, got, out=rest[row])
            if rest is not None and whole is not None:
                whole[row], whole[row, :n] = rest[row], u

    if isinstance(rows, Deferred):
        rows.visit(look)
        sent: Tensor | Rows = rows.remade(partial(_decoded, coding, payloads, n, problem.learner.device))
    else:
        look(np.arange(n_rows), updates.delta)
        assert found is not None
        sent = found
    return updates._replace(rows=sent, kept=CodedKept(updates.kept, rest, whole), bit=bit)


def _room(n_rows: int, n: int, problem: Problem) -> Tensor:
    """Room for what devices keep, in a file if memory is short."""
    if problem.learner.device.type != "cpu":
        return torch.empty(n_rows, n, device=problem.learner.device)
    what = f"what {n_rows} devices did not send ({n_rows} x {n} parameters x 4)"
    return torch.from_numpy(numbers(n_rows * n, what)).view(n_rows, n)


def _decoded(coding: Coding, payloads: Any, n: int, device: torch.device, rows: Ints | None) -> Tensor:
    chosen: list[Payload] = list(payloads if rows is None else payloads[rows])
    found = torch.empty(len(chosen), n, device=device)
    for line, payload in zip(found, chosen, strict=True):
        line.copy_(coding.decode(payload, n))
    return found


# ---------------------------------------------------------------- collect, aggregate


def collect(
    method: Method, coding: Coding, problem: Problem, params: Tensor, state: CodedState, sent: Round
) -> tuple[Round, CodedState]:
    """The method's; devices keep what they did not send from when it is sent, whenever it arrives.

    An upload that gets lost later, because its device is switched off, is lost as it was sent.
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
    """The round as the method sees it."""
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
    """The buffer with the chosen rows that are finite; of other devices it has what they kept before."""
    fine = finite_rows(rows) & chosen
    part = rows if fine.all() else rows[torch.from_numpy(fine).to(rows.device)]
    return remember(rest, device[fine], part, steps[device[fine]], np.ones(len(part)))
