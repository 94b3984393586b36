"""FedAvg: local SGD, then the average of the models that arrive.

`w <- w + server_lr * sum_k p_k (w_k - w)` over the devices heard, `p_k` proportional to the samples
they hold (or equal). With `weights=unbiased`, `p_k` is the device's share of the samples of all devices, divided by the
probability that the device is picked, see `methods.parts.by_lot`.

Reference: McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, 2017.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from ..errors import BadInput
from ..options import option
from ..types import Floats, Ints, Method, Observation, Problem, Round, of_means
from .parts.by_lot import COSTS
from .parts.defaults import LocalConfig, default, mean_update, steps_of
from .parts.resources import Wanted
from .parts.schedulers import chances


@dataclass(frozen=True)
class Config(LocalConfig):
    """Settings of FedAvg."""

    weights: str = option(
        "samples",
        "weight of a device in the average; unbiased: by samples, over the chance that a scheduler by lot picks it",
        choices=("samples", "equal", "unbiased"),
    )
    server_lr: float = option(1.0, "step of the server along the averaged update", above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights == "unbiased" and self.scheduler not in COSTS:
            raise BadInput(
                f"weights = 'unbiased' does not go with scheduler = {self.scheduler!r}, which picks nobody by lot: set "
                f"scheduler to {', '.join(COSTS)}, or weights=samples"
            )


def build(config: Config) -> Method:
    return default(config)._replace(aggregate=partial(aggregate, config), shares=plain_shares(config))


@of_means
def aggregate(config: Config, problem: Problem, params: Tensor, state: Any, played: Round) -> tuple[Tensor, Any]:
    return mean_update(params, config.server_lr * weights_of(config, problem, played), played), state


def weights_of(config: Config, problem: Problem, played: Round) -> Floats:
    """Aggregation weights of the devices heard, `[n_heard]`, as the settings say."""
    seen, device = played.observation, played.heard()
    if config.weights != "unbiased":
        return shares(config.weights, seen, device)
    steps = steps_of(config, problem, seen.store)
    wanted = Wanted(config.n_selected, steps, played.decision.samples_per_step)
    chance = chances(config.scheduler, problem, seen, wanted)
    size = np.where(chance > 0, seen.store.size, 0)
    return size[device] / (max(size.sum(), 1) * chance[device])


def plain_shares(config: Config) -> Callable[[Observation, Ints], Floats]:
    """Weights that sum to one, as the mean of running statistics needs them: equal if the settings say so."""
    return partial(shares, "equal" if config.weights == "equal" else "samples")


def shares(weights: str, observation: Observation, device: Ints) -> Floats:
    """Aggregation weights of the devices heard, `[n_rows]`, summing to one, by samples or equal."""
    if weights == "unbiased":
        raise BadInput(
            "weights = 'unbiased' does not go with this method, whose weights sum to one: set samples or equal"
        )
    size = observation.store.size[device].astype(np.float64) if weights == "samples" else np.ones(len(device))
    return size / max(size.sum(), 1.0)
