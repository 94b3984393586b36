"""FedProx: FedAvg whose devices are pulled back to the global model and may do part of the work.

Local objective `F_k(w) + mu/2 ||w - w_global||^2`; a slow device does as many steps as fit.

Reference: Li et al., Federated Optimization in Heterogeneous Networks, 2020.
"""

from dataclasses import dataclass
from functools import partial

from ..options import option
from ..types import Method
from . import fedavg
from .parts.defaults import local


@dataclass(frozen=True)
class Config(fedavg.Config):
    """Settings of FedProx."""

    effort: str = option(
        "fit", "fixed: `steps`; fit: as many as deadline and energy allow, `steps` at most", choices=("fixed", "fit")
    )
    mu: float = option(0.1, "strength of the pull to the global model", least=0)


def build(config: Config) -> Method:
    return fedavg.build(config)._replace(local=partial(local, config, prox=config.mu))
