"""FedAsync: every model that arrives is mixed into the server's, old ones less.

With `w_k` the model of the device that answers and `tau` the server steps since that device got its model,

    w <- (1 - a) w + a w_k,   a = alpha s(tau)

and `s` constant, polynomial or hinge. Every arrival is a server step and a row of the record, so a run needs about
`n_devices` times as many rounds as one of FedAvg. Devices minimise `F_k(w) + rho/2 ||w - w_start||^2`.

Reference: Xie, Koyejo, Gupta, Asynchronous Federated Optimization, 2019, Algorithm 1.
"""

from dataclasses import dataclass
from functools import partial

from torch import Tensor

from ..options import option
from ..types import Method, Problem, Round
from .parts.defaults import default, local, mean_update
from .parts.flights import Flights, OverTimeConfig, Stepping
from .parts.over_time import over_time
from .parts.staleness import weight


@dataclass(frozen=True)
class Config(OverTimeConfig):
    """Settings of FedAsync."""

    alpha: float = option(0.6, "share of a fresh model in the mixture", above=0, most=1)
    rho: float = option(0.0, "strength of the pull to the model that a device got", least=0)


def build(config: Config) -> Method:
    mixing = default(config)._replace(
        local=partial(local, config, prox=config.rho), aggregate=partial(aggregate, config)
    )
    return over_time(config, mixing, Stepping(n_arrivals=1, models=True))


def aggregate(
    config: Config, problem: Problem, params: Tensor, state: Flights, played: Round
) -> tuple[Tensor, Flights]:
    """`w + a (w_k - w)`; the row that arrived is `w_k - w`."""
    return mean_update(params, config.alpha * weight(config, state.staleness[played.heard()]), played), state
