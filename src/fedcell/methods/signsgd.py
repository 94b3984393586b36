"""signSGD with majority vote: devices send one bit per entry, the server steps the way that most of them point.

With `u_k` the update of device `k`,

    w <- w + server_lr * sign(sum_k sign(u_k))

over the devices heard. A device's zero counts as positive, a draw of the votes leaves an entry as it is. An upload
takes one bit for each of the `n` entries, and every entry moves by `server_lr` whatever the sizes of the updates:
suitable values are far below one. With `weights=samples` a device has as many votes as samples.

Deviation: the paper's devices take the sign of one gradient; here it is that of what local training moved, which for
one local step is the same. The paper sends the sign of the sum down to devices; here they get the model.

Reference: Bernstein, Wang, Azizzadenesheli, Anandkumar, signSGD: Compressed Optimisation for Non-Convex Problems, 2018.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from ..coding import sign as coding
from ..options import option
from ..types import Method, Problem, Round
from . import fedavg
from .parts.coded import coded

CODED = coding.Config(scale="one")  # how devices send updates, real ones as well


@dataclass(frozen=True)
class Config(fedavg.Config):
    """Settings of signSGD with majority vote."""

    weights: str = option("equal", "votes of a device", choices=("samples", "equal"))
    server_lr: float = option(0.005, "what every entry moves by in a round", above=0)


def build(config: Config) -> Method:
    voting = fedavg.build(config)._replace(aggregate=partial(aggregate, config))
    return coded(voting, coding.build(CODED), "signsgd")


def aggregate(config: Config, problem: Problem, params: Tensor, state: Any, played: Round) -> tuple[Tensor, Any]:
    device = played.heard()
    if not len(device):
        return params, state
    size = played.observation.store.size[device].astype(np.float64)
    weights = size if config.weights == "samples" else np.ones(len(device))
    votes = played.add_up(weights)  # whole numbers, so that draws are exactly 0
    return params + config.server_lr * votes.sign(), state
