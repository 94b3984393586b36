"""Losses that devices send along with their updates: what they cost, and what the server learns of them.

A device computes the loss of the model it gets on all its samples, a forward pass over its store, and sends one number
more. The server knows the losses of the devices heard only. Not a method itself: it has no `build`.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ...options import Checked, option
from ...types import Floats, Problem, Round, Store
from .defaults import samples_of, steps_of
from .gradients import client_losses
from .resources import sending


@dataclass(frozen=True)
class LossConfig(Checked):
    """Settings of methods whose devices send a loss."""

    effort: str = option("fixed", "every device does `steps`", choices=("fixed",))
    loss_cost: float = option(1 / 3, "computing of a loss per sample, in units of training on the sample", least=0)


def with_loss(config: Any, problem: Problem, store: Store) -> tuple[Problem, Floats]:
    """Return what to plan a round with losses by: the problem with one more number to send, and `samples_per_step`.

    Args:
        config: settings of training and of losses.
        problem: the world.
        store: a loss is computed on all samples that a device holds.

    Returns: the problem, and samples `[n_devices]` whose training costs as much as a step and its share of the loss.
    """
    world = problem.world
    samples = config.loss_cost * store.size / steps_of(config, problem, store)
    longer = sending(problem, world.payload_bit + world.settings.bits_per_parameter, world.model_bit)
    return longer, samples_of(config, problem, store) + samples


def heard_losses(problem: Problem, params: Tensor, played: Round, power: float = 1.0) -> Floats:
    """Mean loss, or mean of its power, of the model `params` on the samples of every device heard, `[n_heard]`."""
    return client_losses(problem, params, played.observation.store.of(played.heard()), power)
