"""Refuse in one sentence what a strategy for stock ClientApps cannot do, before anything is written or sent."""

from collections.abc import Iterable

import numpy as np

from ..errors import BadInput
from ..scenarios import Config
from ..types import Method
from .flat import flat_problem
from .refusals import refuse_what_is_simulated, refuse_what_needs_data
from .rounds import refuse_asynchronous
from .settings import SECTION

# keys of `deploy.` that a strategy does not follow
UNUSED = ("min_devices", "join_s", "patience_s", "wait", "poll_s", "seal_key", "known_nodes", "max_loss")
REHEARSED = 16  # parameters of the model that a method is rehearsed on


def refuse_unused(config: Config, n_devices: int, own: Iterable[str]) -> None:
    """Refuse settings that a strategy does not follow; `own` are the given keys of `deploy.`."""
    if config.world.n_devices != n_devices:
        both = f"world.n_devices = {config.world.n_devices} in settings and n_devices = {n_devices}"
        raise BadInput(f"{both}: give n_devices alone")
    refuse_what_is_simulated(config)
    if config.world.edge_rounds:
        raise BadInput(
            f"world.edge_rounds = {config.world.edge_rounds}: a strategy keeps one model, so set it to 0 or use "
            "fedcell.deploy.server_app"
        )
    for name in own:
        if name in UNUSED:
            raise BadInput(f"{SECTION}{name} has no effect on a strategy: drop it, or use fedcell.deploy.server_app")


def refuse_what_nodes_lack(config: Config, method: Method, name: str) -> None:
    """Refuse a method that needs more than a stock ClientApp sends, by a round with made-up answers."""
    refuse_asynchronous(method, name)
    refuse_what_needs_data(flat_problem(config, np.zeros(REHEARSED, dtype=np.float32)), method, name)
    if method.needs_labels:
        raise BadInput(
            f"{name} needs the number of samples of each label, which a stock ClientApp does not report: choose "
            "another method, or devices of fedcell.deploy.client_app"
        )
