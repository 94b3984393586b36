"""M-FedDisco: M-FedAvg with weights that fall with the discrepancy of a client's labels from uniform.

`w <- sum_u a_u w[u]`, `a_u` proportional to `max(p_u - a disco_u + b, 0)`, `p_u` the share of data; `p_u` itself if
all of these are zero. `disco_u` is the distance of the label shares from the uniform law when `u` was last heard.

Reference: osafl, Algorithm 10 and Eq. (83)
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from torch import Tensor

from ..options import option
from ..types import Floats, Ints, Method, Problem, Round
from . import m_fedavg
from .m_fedavg import average, with_models
from .parts.classes import held_classes
from .parts.client_planning.plan import data_shares
from .parts.contributions import Contributions


@dataclass(frozen=True)
class Config(m_fedavg.Config):
    """Settings of M-FedDisco."""

    a: float = option(0.2, "how much discrepancy costs", least=0)
    b: float = option(0.1, "weight that every client has beforehand", least=0)


class State(NamedTuple):
    """Models, and the discrepancy each client last reported, 0 before its first report."""

    kept: Contributions
    discrepancy: Floats  # [n_devices]


def build(config: Config) -> Method:
    return m_fedavg.build(config)._replace(init=init, aggregate=partial(aggregate, config), needs_labels=True)


def init(problem: Problem, params: Tensor) -> State:
    return State(m_fedavg.init(problem, params), np.zeros(problem.world.n_devices))


def aggregate(config: Config, problem: Problem, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    kept = with_models(state.kept, params, played)
    counts = held_classes(problem, played.observation.store)
    discrepancy = state.discrepancy.copy()
    heard = played.heard()
    discrepancy[heard] = from_uniform(counts[heard])
    weights = disco_weights(data_shares(played.observation), discrepancy, config.a, config.b)
    return average(kept, params, weights), State(kept, discrepancy)


def from_uniform(counts: Ints) -> Floats:
    """Distance of label shares from the uniform law, `[n_rows]`.

    >>> from_uniform(np.array([[2, 2], [4, 0]])).round(4).tolist()
    [0.0, 0.7071]
    """
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return np.asarray(np.linalg.norm(share - 1 / counts.shape[1], axis=1))


def disco_weights(share: Floats, discrepancy: Floats, a: float, b: float) -> Floats:
    """Aggregation weights, summing to one. Reference: osafl, Eq. (83)"""
    raw = np.maximum(share - a * discrepancy + b, 0.0)
    if not raw.any():
        raw = share if share.any() else np.ones_like(share)
    return np.asarray(raw / raw.sum())
