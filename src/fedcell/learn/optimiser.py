"""Options of local training besides SGD and momentum: decay, clipping, AdamW, and learning-rate schedules."""

from collections.abc import Callable
from math import cos, pi
from typing import NamedTuple

from .settings import TrainConfig


class Adam(NamedTuple):
    """Averages of gradients and of their squares instead of momentum; both start at zero in every round."""

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8


class Optimiser(NamedTuple):
    """What a local step does to the gradient of the loss, besides momentum."""

    weight_decay: float = 0.0  # added to gradients as `weight_decay w`; decoupled from them with `adam`
    clip: float = 0.0  # largest norm of the gradient of a step, scaled down if larger; 0: no limit
    adam: Adam | None = None  # None: SGD

    @staticmethod
    def of(train: TrainConfig) -> "Optimiser":
        """The optimiser that the settings of local training describe."""
        adam = Adam(train.beta1, train.beta2, train.eps) if train.optimiser == "adamw" else None
        return Optimiser(train.weight_decay, train.clip, adam)


def rate_factor(train: TrainConfig, round: int, n_rounds: int) -> float:
    """The factor of `train.lr` in a round: a ramp over `train.warmup` rounds, then the schedule.

    With `t` the rounds since the ramp, of `n`: `step` is `lr_factor^floor(t / lr_every)`, `exponential` is
    `lr_decay^t`; `linear` and `cosine` go from 1 towards `lr_floor` by `t / n` and `(1 - cos(pi t / n)) / 2`.

    >>> [round(rate_factor(TrainConfig(schedule="cosine"), t, 4), 3) for t in range(4)]
    [1.0, 0.854, 0.5, 0.146]
    """
    if round < train.warmup:
        return (max(round, 0) + 1) / (train.warmup + 1)
    return SCHEDULES[train.schedule](train, round - train.warmup, max(n_rounds - train.warmup, 1))


def _towards_floor(train: TrainConfig, passed: float) -> float:
    return 1 - (1 - train.lr_floor) * min(max(passed, 0.0), 1.0)


SCHEDULES: dict[str, Callable[[TrainConfig, int, int], float]] = {
    "constant": lambda train, t, n: 1.0,
    "step": lambda train, t, n: train.lr_factor ** (max(t, 0) // train.lr_every),
    "exponential": lambda train, t, n: train.lr_decay ** max(t, 0),
    "linear": lambda train, t, n: _towards_floor(train, t / n),
    "cosine": lambda train, t, n: _towards_floor(train, (1 - cos(pi * min(max(t / n, 0.0), 1.0))) / 2),
}
