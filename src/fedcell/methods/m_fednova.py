"""M-FedNova: OSAFL's clients, and the last normalised gradients of all of them weighed by data (and steps).

With `p_u` the share of client `u` in all data and `kappa_u` the steps behind its last gradient `d[u]`,

- `printed`: `w <- w - server_lr * lr * sum_u p_u kappa_u d[u]` (a sum over the clients cancels),
- `proper`: `w <- w - server_lr * lr * (sum_u p_u kappa_u) sum_u p_u d[u]`, as FedNova has it.

Deviation: a client never heard counts as 0 instead of `w / lr`.

Reference: osafl, Algorithm 8
"""

from dataclasses import dataclass
from functools import partial

from torch import Tensor

from ..options import option
from ..types import Method, Problem, Round
from . import m_fedavg
from .osafl import normalised
from .parts.client_planning.plan import ClientConfig, data_shares, planned
from .parts.contributions import Contributions, weighted_sum
from .parts.defaults import needs_sgd, rate


@dataclass(frozen=True)
class Config(ClientConfig):
    """Settings of M-FedNova."""

    rule: str = option(
        "printed", "weights as the paper prints them, or those of FedNova", choices=("printed", "proper")
    )
    server_lr: float = option(1.0, "step of the server, tau tilde", above=0)


def build(config: Config) -> Method:
    return planned(config)._replace(init=partial(init, config), aggregate=partial(aggregate, config))


def init(config: ClientConfig, problem: Problem, params: Tensor) -> Contributions:
    """Nothing heard yet; gradients are normalised by the steps of plain SGD."""
    needs_sgd(config, problem)
    return m_fedavg.init(problem, params)


def aggregate(
    config: Config, problem: Problem, params: Tensor, state: Contributions, played: Round
) -> tuple[Tensor, Contributions]:
    lr = rate(config, problem, played.observation.round)
    kept = normalised(state, lr, played)
    share = data_shares(played.observation)
    weights = share * kept.steps if config.rule == "printed" else share * (share @ kept.steps)
    return params - config.server_lr * lr * weighted_sum(kept, weights, params), kept
