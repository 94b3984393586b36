"""Statistics that are sent: the tail of the global vector is their mean. The state stays the method's own."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ....learn.statistics import Carried
from ....types import (
    Decision,
    Floats,
    Ints,
    Method,
    Observation,
    Problem,
    Round,
    Start,
    Updates,
    is_stateless,
    stateless,
)


def averaged(method: Method) -> Method:
    """The method for whole vectors."""
    return method._replace(
        init=partial(init, method),
        broadcast=partial(broadcast, method),
        local=training_of(method, local),
        aggregate=partial(aggregate, method),
        evaluate=partial(evaluate, method),
        foretell=partial(foretell, method) if method.foretell else None,
        personal=partial(personal, method) if method.personal else None,
        statistics="within",
    )


def training_of(method: Method, local: Callable[..., Updates]) -> Callable[..., Updates]:
    """`local` with the method before its other arguments, stateless if the method's own is."""

    def train(problem: Problem, state: Any, start: Start, observation: Observation, decision: Decision) -> Updates:
        return local(method, problem, state, start, observation, decision)

    return stateless(train) if is_stateless(method.local) else train


def bound(problem: Problem, whole: Tensor) -> tuple[Problem, Tensor]:
    """The problem for models with the statistics of a whole vector, and its parameters."""
    carried = Carried(problem.learner.architectures[0].own_of(whole))
    return problem._replace(learner=problem.learner.carrying(carried)), whole[: problem.learner.n_params]


def init(method: Method, problem: Problem, whole: Tensor) -> Any:
    return method.init(*bound(problem, whole))


def broadcast(
    method: Method, problem: Problem, whole: Tensor, state: Any, observation: Observation, decision: Decision
) -> Start:
    """Start every device with the tail of the global vector, too."""
    start = method.broadcast(*bound(problem, whole), state, observation, decision)
    own = problem.learner.architectures[0].own_of(whole)
    return start._replace(own=own.expand(len(start.of_row), -1))


def local(
    method: Method, problem: Problem, state: Any, start: Start, observation: Observation, decision: Decision
) -> Updates:
    """Train as the method does; updates also carry the statistics that training left."""
    assert start.own is not None
    carried = Carried(problem.learner.whole()[problem.learner.n_params :], start.own)
    here = problem._replace(learner=problem.learner.carrying(carried))
    return method.local(here, state, start, observation, decision)._replace(tail=carried.rows)


def aggregate(method: Method, problem: Problem, whole: Tensor, state: Any, played: Round) -> tuple[Tensor, Any]:
    """The method's step of the parameters, and the mean of the tails of the devices heard."""
    here, params = bound(problem, whole)
    after, state = method.aggregate(here, params, state, played)
    own = _own_after(method, here, played, moved=not torch.equal(after, params))
    if own is None:
        return torch.cat([after, whole[len(params) :]]), state
    return problem.learner.architectures[0].with_own(after, own), state


def _own_after(method: Method, here: Problem, played: Round, moved: bool) -> Tensor | None:
    """The statistics after a round; None if they stay."""
    if method.sends == "nothing":  # the server has trained
        left = here.learner.carried.left if here.learner.carried else None
        return None if left is None else left[0]
    device, tail = played.heard(), played.updates.tail
    if tail is None or not len(device) or not moved:
        return None
    arrived = np.flatnonzero(played.uplink.delivered[played.updates.device])
    share, rows = (method.shares or by_samples)(played.observation, device), tail[torch.from_numpy(arrived)]
    if method.clean is None or here.learner.carried is None:
        return rows.new_tensor(share.astype(np.float32)) @ rows
    now = here.learner.carried.common
    moved_by, counts = method.clean(rows - now)
    share = share * counts / max(float(share @ counts), 1e-12)
    return now + rows.new_tensor(share.astype(np.float32)) @ moved_by


def by_samples(observation: Observation, device: Ints) -> Floats:
    """Weights of the devices heard by what they hold, summing to one."""
    size = observation.store.size[device].astype(np.float64)
    return np.asarray(size / max(size.sum(), 1.0))


def evaluate(method: Method, problem: Problem, whole: Tensor, state: Any) -> Mapping[str, float]:
    return method.evaluate(*bound(problem, whole), state)


def foretell(method: Method, problem: Problem, whole: Tensor, state: Any, x: Tensor) -> Floats:
    assert method.foretell is not None
    return method.foretell(*bound(problem, whole), state, x)


def personal(method: Method, problem: Problem, whole: Tensor, state: Any, device: Ints) -> Tensor:
    """The models of devices with the tail of the global one, `[n, n_params + n_tail]`."""
    assert method.personal is not None
    here, params = bound(problem, whole)
    return torch.cat(
        [method.personal(here, params, state, device), whole[len(params) :].expand(len(device), -1)], dim=1
    )
