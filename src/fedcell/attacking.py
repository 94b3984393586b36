"""Attackers of the world: how they change the updates that they trained, before they encode and send them.

With `u` the update, `s = world.attack_scale` and `g` a standard normal vector of its `n` numbers,

    sign_flip   -s u
    scale        s u
    noise        s |u| g / sqrt(n)        a direction without meaning, `s` times as long on average

Otherwise an attacker follows the protocol: its update is clipped, coded and charged like any other. Running statistics
that are sent beside an update stay unchanged, and so does what the device keeps. `label_flip` changes the data instead.

Reference: Blanchard et al., Machine Learning with Adversaries, 2017; Fang et al., Local Model Poisoning Attacks to
Byzantine-Robust Federated Learning, 2020.
"""

import numpy as np
import torch
from torch import Tensor

from .learn.deferred import Deferred
from .rng import stream
from .types import Ints, Problem, Updates
from .world.attack import AttackConfig, attackers


def attacked(problem: Problem, updates: Updates, round: int) -> Updates:
    """Return the updates with those of attackers changed; in a large cohort, each is changed when it is trained."""
    settings: AttackConfig = problem.world.settings
    if settings.attack in ("none", "label_flip"):
        return updates
    wrong = attackers(settings, problem.world.n_devices, problem.seed)[updates.device]
    if not wrong.any():
        return updates

    def change(rows: Ints | None, delta: Tensor) -> Tensor:
        chosen = np.arange(len(delta)) if rows is None else rows
        changed = delta.clone()
        for place in np.flatnonzero(wrong[chosen]):
            rng = stream(problem.seed, round, f"attack {updates.device[chosen[place]]}")
            changed[place] = worse(settings, delta[place], rng)
        return changed

    rows = updates.rows
    if isinstance(rows, Deferred):
        return updates._replace(rows=rows.mapped(change, rows.n_params))
    return updates._replace(rows=change(None, updates.delta))


def worse(settings: AttackConfig, row: Tensor, rng: np.random.Generator) -> Tensor:
    """What an attacker sends instead of its row `[n]`."""
    scale = settings.attack_scale
    if settings.attack != "noise":
        return row * (-scale if settings.attack == "sign_flip" else scale)
    draws = torch.from_numpy(rng.standard_normal(len(row), dtype=np.float32)).to(row.device)
    return draws * (scale * row.norm() / len(row) ** 0.5)
