"""Over-the-air aggregation: what devices send at once, one file per rule, and what a base station makes of the sum.

With `q_k` the weight that a method gives the update `u_k` of device `k`, all devices of a cell send
`sqrt(eta) q_k x(u_k)` through channels that they have inverted, and the station hears

    y = sqrt(eta) sum_k q_k x(u_k) + z,   z of variance sigma^2 / 2 for every number

`eta` is the scale, which all share. The method gets `y / sqrt(eta)`, or what the rule makes of it: the sum with an
error of variance `sigma^2 / (2 eta)` in every entry. Device `k` sends with the power `eta q_k^2 |x(u_k)|^2 / (m G_k)`,
with `m` symbols and the gain `G_k`; the scale keeps it within the limit of the device.

A rule is a file with `build(settings) -> AirRule`; `world.air_rule` names it. Nobody hears a single update: methods
that ask for one are refused, and all others see sums as in any world.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np
from torch import Tensor

from ..errors import BadInput
from ..types import Floats, Method, Problem, at_once

if TYPE_CHECKING:
    from ..world.settings import WorldConfig


class Burst(NamedTuple):
    """What the devices of one cell are about to send at once; `[n]` for each of them."""

    weights: Floats  # q, by which devices multiply what they send
    square: Floats  # |x(u)|^2
    n_entries: int  # numbers that each sends
    n_symbols: float  # m
    reach_watt: Floats  # the most that may arrive of each: its power limit times its gain

    @property
    def power(self) -> Floats:
        """What arrives of each at the scale 1, `q^2 |x(u)|^2 / m`, per symbol."""
        return self.weights**2 * self.square / self.n_symbols


class AirRule(NamedTuple):
    """How devices send at once, and what the server reads from the sum."""

    scale: Callable[[Burst], float]  # eta; inf if there is nothing to send
    change: Callable[[Tensor], Tensor] = lambda rows: rows  # x, [n, n_entries]
    weigh: Callable[[Floats], Floats] = lambda weights: weights  # q, of what a method asks for
    read: Callable[[Tensor, Floats], Tensor] = lambda total, weights: total  # y / sqrt(eta), what was asked for


def rule_of(settings: "WorldConfig") -> AirRule:
    """The rule that the world names."""
    rule: AirRule = import_module(f"{__name__}.{settings.air_rule}").build(settings)
    return rule


def largest_scale(limit: Floats, power: Floats) -> float:
    """The largest `eta` with `eta power <= limit` for all; inf if nobody sends anything.

    >>> largest_scale(np.array([4.0, 9.0, 1.0]), np.array([2.0, 3.0, 0.0]))
    2.0
    """
    return float(np.divide(limit, power, out=np.full_like(limit, np.inf), where=power > 0).min(initial=np.inf))


def suited(problem: Problem, method: Method) -> Method:
    """The method itself; raises BadInput if devices send at once and it needs more than their sum."""
    if problem.world.settings.access != "air":
        return method
    if method.needs_rows:
        refuse_rows(method.name)
    if method.collect is not at_once:
        raise BadInput(
            f"{method.name} does not go with world.access = 'air': all devices send at once, and its devices whenever "
            "they are done, so use a synchronous method such as fedavg, or another access"
        )
    learner = problem.learner
    if learner.n_sent > learner.n_params and method.sends != "nothing":
        raise BadInput(
            "world.access = 'air' does not go with model.buffers = 'average': running statistics are no updates that "
            "devices could send at once, so set model.buffers=local or frozen, or another access"
        )
    return method


def refuse_rows(name: str) -> NoReturn:
    """Refuse a method that looks at single updates."""
    raise BadInput(
        f"{name} does not go with world.access = 'air': it needs the update of each device and the base station hears "
        "their sum alone, so use a method of sums such as fedavg, or another access"
    )
