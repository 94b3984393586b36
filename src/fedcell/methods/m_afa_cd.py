"""M-AFA-CD: OSAFL's clients, and a global step along the plain mean of their last normalised gradients.

`w <- w - server_lr * (1/U) sum_u d[u]`; here `server_lr` is the whole step, the local rate is not multiplied in.

With `never_seen=paper` the slot of a client never heard is `w / lr`: every round shrinks the model by
`server_lr / lr` times their share, until its output is uniform. The published numbers look like that; 0 learns.

Reference: osafl, Algorithm 9
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from torch import Tensor

from ..options import option
from ..types import Method, Problem, Round
from . import m_fednova
from .osafl import combined, normalised
from .parts.client_planning.plan import ClientConfig, planned
from .parts.contributions import Contributions
from .parts.defaults import rate


@dataclass(frozen=True)
class Config(ClientConfig):
    """Settings of M-AFA-CD."""

    server_lr: float = option(0.5, "global rate", above=0)
    never_seen: str = option(
        "zero", "contribution of a client never heard: none, or the paper's w / lr", choices=("zero", "paper")
    )


def build(config: Config) -> Method:
    return planned(config)._replace(init=partial(m_fednova.init, config), aggregate=partial(aggregate, config))


def aggregate(
    config: Config, problem: Problem, params: Tensor, state: Contributions, played: Round
) -> tuple[Tensor, Contributions]:
    lr = rate(config, problem, played.observation.round)
    kept = normalised(state, lr, played)
    absent = params / lr if config.never_seen == "paper" and not kept.seen.all() else None
    equal = np.full(len(kept.seen), 1 / len(kept.seen))
    return params - config.server_lr * combined(kept, equal, params, absent), kept
