"""M-FedProx: M-FedAvg whose clients are pulled back to the model they got.

Local objective `f_u(w) + mu/2 ||w - w^t||^2`.

Reference: osafl, Algorithm 7
"""

from dataclasses import dataclass
from functools import partial

from ..options import option
from ..types import Method
from . import m_fedavg
from .parts.mini_batches import local


@dataclass(frozen=True)
class Config(m_fedavg.Config):
    """Settings of M-FedProx."""

    mu: float = option(0.1, "strength of the pull to the global model", least=0)


def build(config: Config) -> Method:
    return m_fedavg.build(config)._replace(local=partial(local, config, prox=config.mu))
