"""FedNova: averages normalised updates, so that devices with more local steps do not pull harder.

With `a_k` the weight of all gradients in the update of device `k` (its steps, without momentum),
`w <- w + server_lr * (sum_k p_k a_k) * sum_k p_k (w_k - w) / a_k`.

Reference: Wang et al., Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization, 2020.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from ..options import option
from ..types import Floats, Ints, Method, Problem, Round
from . import fedavg
from .fedavg import weights_of
from .parts.defaults import mean_update, needs_sgd, setting


@dataclass(frozen=True)
class Config(fedavg.Config):
    """Settings of FedNova."""

    effort: str = option(
        "fit", "fixed: `steps`; fit: as many as deadline and energy allow, `steps` at most", choices=("fixed", "fit")
    )


def build(config: Config) -> Method:
    return fedavg.build(config)._replace(init=partial(init, config), aggregate=partial(aggregate, config))


def init(config: Config, problem: Problem, params: Tensor) -> None:
    needs_sgd(config, problem)


def aggregate(config: Config, problem: Problem, params: Tensor, state: Any, played: Round) -> tuple[Tensor, Any]:
    device = played.heard()
    share = weights_of(config, problem, played)
    pull = gradient_weight(played.decision.steps[device], setting(config, problem, "momentum"))
    return mean_update(params, config.server_lr * (share @ pull) * share / pull, played), state


def gradient_weight(steps: Ints, momentum: float) -> Floats:
    """`||a_k||_1`: how often each gradient of `steps` SGD steps enters the update, summed.

    `steps` without momentum; with momentum `m` a gradient enters `(1 - m^j) / (1 - m)` times when `j`
    steps follow it (its own included).
    """
    m = momentum
    return (steps - m * (1 - m**steps) / (1 - m)) / (1 - m)
