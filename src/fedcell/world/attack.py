"""Draw which devices attack the federation; the draw is the same for every method on one seed."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..options import option
from ..rng import SETUP, stream
from ..types import Bools


@dataclass(frozen=True)
class AttackConfig:
    """Keys of the `world` section about attackers."""

    attack: str = option(
        "none",
        "what attackers do: train on flipped labels (c becomes n_classes - 1 - c); or change what they trained before "
        "they encode and send it: -attack_scale times it, attack_scale times it, noise attack_scale times as long",
        choices=("none", "label_flip", "sign_flip", "scale", "noise"),
    )
    attackers: float = option(
        0.1, "share of the devices that are attackers, drawn once, rounded", least=0, most=1, needs="attack!=none"
    )
    attack_scale: float = option(
        5.0, "how far attackers go, see attack", least=0, most=1e6, needs="attack=sign_flip|scale|noise"
    )


def attackers(settings: AttackConfig, n_devices: int, seed: int) -> Bools:
    """Mark the attackers, `[n_devices]`; those of a smaller share are among those of a larger one."""
    return _drawn(0.0 if settings.attack == "none" else settings.attackers, n_devices, seed).copy()


@lru_cache(maxsize=8)
def _drawn(share: float, n_devices: int, seed: int) -> Bools:
    chosen = np.zeros(n_devices, dtype=np.bool_)
    chosen[stream(seed, SETUP, "world.attackers").permutation(n_devices)[: round(share * n_devices)]] = True
    return chosen
