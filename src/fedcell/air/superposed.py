"""A round as base stations hear it over the air: sums with noise in the place of updates, and the powers really used.

Which sum a method takes is known beforehand (`asking`). Not a rule: it has no `build`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import ContractError
from ..learn.deferred import Deferred
from ..radio import air
from ..rng import stream
from ..types import Bools, Floats, Problem, Round, Rows, finite_rows
from . import AirRule, Burst, rule_of
from .asking import AskedSum, SumsAlone, questions_of


class Heard(NamedTuple):
    """A sum as the stations hear it."""

    answer: Tensor  # [n_entries]
    power_watt: Floats  # [n], of each device that is part of it
    symbols: float  # of all cells
    mse: float  # variance of the error in every entry of the sum, before the rule reads it


def superposed(problem: Problem, name: str, aggregate: Callable[[Round], Any], sent: Round) -> Round:
    """The round with sums in the place of updates, and with the joules of the powers that made them.

    Args:
        problem: the world, its noise and its rule.
        name: of the method.
        aggregate: of the method.
        sent: the round as it was carried out. The updates of a large cohort are trained here.
    """
    rule, every = rule_of(problem.world.settings), np.arange(len(sent.updates.device))
    questions = questions_of(problem, name, aggregate, sent)
    totals, square, finite = added_up(sent.updates.rows, rule, questions)
    with np.errstate(invalid="ignore"):  # if some are not finite, the round is heard again without them
        heard = [received(problem, rule, sent, *one, square) for one in zip(questions, totals, strict=True)]
    power_watt = np.zeros(problem.world.n_devices)
    for asked, one in zip(questions, heard, strict=True):
        power_watt[sent.updates.device[asked.rows]] = one.power_watt
    uplink = sent.uplink._replace(
        radio_joule=power_watt * sent.uplink.upload_s,
        sums={
            "symbols": sum(one.symbols for one in heard),
            "air_mse": sum(one.mse for one in heard) / max(len(heard), 1),
        },
    )

    def hear(asked: AskedSum) -> Tensor:
        for before, one in zip(questions, heard, strict=True):
            if before.is_same(asked):
                return one.answer.clone()
        raise ContractError(
            "aggregate() asks add_up() for weights that depend on another sum, and over the air devices send once: "
            "ask for one sum, or use another world.access"
        )

    return sent._replace(updates=sent.updates._replace(rows=SumsAlone(hear, every, name, finite)), uplink=uplink)


def added_up(rows: Tensor | Rows, rule: AirRule, questions: Sequence[AskedSum]) -> tuple[list[Tensor], Floats, Bools]:
    """Sums without noise, `|x(u)|^2` of every update, and which are finite; a large cohort is trained once."""
    weights = [rule.weigh(one.weights) for one in questions]
    if isinstance(rows, Deferred):
        changed, square = rows.watched(rule.change, squares)
        masks = [np.isin(np.arange(len(square)), one.rows) for one in questions]
        return changed.add_all(list(zip(masks, weights, strict=True))), square, changed.finite()
    assert isinstance(rows, Tensor)
    delta, totals = rule.change(rows), []
    for one, weight in zip(questions, weights, strict=True):
        part = delta if len(one.rows) == len(delta) else delta[torch.from_numpy(one.rows).to(delta.device)]
        totals.append(part.new_tensor(weight.astype(np.float32)) @ part)
    return totals, squares(delta).cpu().numpy(), finite_rows(delta)


def squares(rows: Tensor) -> Tensor:
    """The squared length of every row, `[n]`, in float64."""
    return torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64).square()


def received(problem: Problem, rule: AirRule, sent: Round, asked: AskedSum, total: Tensor, square: Floats) -> Heard:
    """A sum as stations hear it: every cell at a scale of its own, with noise of its own.

    Args:
        problem: the world, with its noise.
        rule: scale and reading.
        sent: channels, power limits and payloads.
        asked: which updates, with which weights.
        total: their sum without noise, `[n_entries]`.
        square: `|x(u)|^2` of all updates of the round.
    """
    world, decision, device = problem.world, sent.decision, sent.updates.device[asked.rows]
    gain = air.combined_gain(world, sent.observation, decision, problem.seed)
    reach_watt, noise_watt = air.reach_watt(world, decision, gain), air.received_noise_watt(world)
    cell, payload_bit = sent.observation.topology.cell[device], decision.payload_bit[device]
    power, weights, symbols, mse = np.zeros(len(device)), rule.weigh(asked.weights), 0.0, 0.0
    for number in np.unique(cell):
        here = cell == number
        n_symbols = max(float(air.symbols(world, payload_bit[here]).max()), 1.0)
        burst = Burst(weights[here], square[asked.rows[here]], len(total), n_symbols, reach_watt[device[here]])
        scale = rule.scale(burst)
        power[here] = np.where(burst.power > 0, scale * burst.power, 0.0) / gain[device[here]]
        error = noise_watt / (2 * scale)
        if error > 0:
            drawn = stream(problem.seed, sent.observation.round, f"air.noise {number}")
            total = total + noise_like(total, drawn, error**0.5)
        symbols, mse = symbols + n_symbols, mse + error
    return Heard(rule.read(total, asked.weights), power, symbols, mse)


def noise_like(total: Tensor, drawn: np.random.Generator, deviation: float) -> Tensor:
    """Normal numbers of a standard deviation, one for each entry."""
    normal = drawn.standard_normal(len(total), dtype=np.float32)
    return torch.from_numpy(normal).to(total.device) * deviation
