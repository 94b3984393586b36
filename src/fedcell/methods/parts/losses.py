"""Losses that devices send along with their updates: what they cost, and what the server learns of them.

A device computes the loss of the model it gets on all its samples, a forward pass over its store, and sends one number
more. The server knows the losses of the devices heard only. Not a method itself: it has no `build`.
"""

from dataclasses import dataclass

from torch import Tensor

from ...options import Checked, option
from ...types import Decision, Floats, Observation, Problem, Round
from .gradients import client_losses


@dataclass(frozen=True)
class LossConfig(Checked):
    """Settings of methods whose devices send a loss."""

    effort: str = option("fixed", "every device does `steps`", choices=("fixed",))
    loss_cost: float = option(1 / 3, "computing of a loss per sample, in units of training on the sample", least=0)


def with_loss(config: LossConfig, problem: Problem, observation: Observation, decision: Decision) -> Decision:
    """Charge a decision for losses: computing each on all samples of the device, and sending one number more."""
    samples = config.loss_cost * observation.store.size / decision.steps
    return decision._replace(
        samples_per_step=decision.samples_per_step + samples,
        payload_bit=decision.payload_bit + problem.world.settings.bits_per_parameter,
    )


def heard_losses(problem: Problem, params: Tensor, played: Round, power: float = 1.0) -> Floats:
    """Mean loss, or mean of its power, of the model `params` on the samples of every device heard, `[n_heard]`."""
    return client_losses(problem, params, played.observation.store.of(played.heard()), power)
