"""A round as base stations hear it over the air: sums with noise in the place of updates, and the powers really used.

Which sum a method takes is learned by calling its `aggregate` beforehand, with zeros for sums. Devices need to know
their weights before they send, and a cell sends once: a method may take one sum of its updates in a round.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from torch import Tensor

from ..errors import BadInput, ContractError
from ..learn.deferred import Deferred
from ..radio import air
from ..rng import stream
from ..types import Bools, Floats, Ints, Problem, Round, Rows, finite_rows
from . import AirRule, Burst, refuse_rows, rule_of


class AskedSum(NamedTuple):
    """A sum that a method takes."""

    rows: Ints  # [n], of which updates
    weights: Floats  # [n]

    def is_same(self, other: "AskedSum") -> bool:
        return np.array_equal(self.rows, other.rows) and np.array_equal(self.weights, other.weights)


class Heard(NamedTuple):
    """What the stations make of a sum."""

    answer: Tensor  # [n_entries]
    power_watt: Floats  # [n], of each device that is part of it
    symbols: float  # of all cells
    mse: float  # variance of the error in every entry of the sum, before the rule reads it


class SumsAlone:
    """Updates that nobody has, of which sums are heard.

    Args:
        hear: gives a sum, `[n_entries]`.
        rows: `[n]`, the updates that these are.
        name: of the method that asks.
        finite: `[n]`, which devices have finite numbers to send; None: not known yet.
    """

    def __init__(self, hear: Callable[[AskedSum], Tensor], rows: Ints, name: str, finite: Bools | None = None) -> None:
        self._hear, self._rows, self._name, self._finite = hear, rows, name, finite

    def add_up(self, chosen: Bools, weights: Floats) -> Tensor:
        vectors = np.atleast_2d(weights)
        if len(vectors) > 1:
            refuse_more(self._name)
        total = self._hear(AskedSum(self._rows[chosen], vectors[0].copy()))
        return total if weights.ndim == 1 else total[None]

    def some(self, which: slice | Ints) -> "SumsAlone":
        """Some of the updates, such as those of a cell."""
        finite = None if self._finite is None else self._finite[which]
        return SumsAlone(self._hear, self._rows[which], self._name, finite)

    def matrix(self) -> NoReturn:
        refuse_rows(self._name)

    def finite(self) -> Bools:
        return refuse_rows(self._name) if self._finite is None else self._finite


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


def questions_of(problem: Problem, name: str, aggregate: Callable[[Round], Any], sent: Round) -> list[AskedSum]:
    """The sums that a method takes of a round; raises BadInput if it takes more than devices send."""
    if not sent.uplink.delivered.any():
        return []
    found, rows = list[AskedSum](), sent.updates.rows
    n_entries = rows.n_params if isinstance(rows, Deferred) else sent.updates.delta.shape[1]
    zeros = torch.zeros(n_entries, device=problem.learner.device)

    def note(asked: AskedSum) -> Tensor:
        if not any(asked.is_same(one) for one in found):
            found.append(asked)
        return zeros.clone()

    unknown = SumsAlone(note, np.arange(len(sent.updates.device)), name)
    with np.errstate(all="ignore"):
        aggregate(sent._replace(updates=sent.updates._replace(rows=unknown)))
    cell = sent.observation.topology.cell[sent.updates.device]
    heard_by = [number for one in found for number in np.unique(cell[one.rows])]
    if len(set(heard_by)) < len(heard_by):
        refuse_more(name)
    return found


def refuse_more(name: str) -> NoReturn:
    """Refuse a method that takes several sums."""
    raise BadInput(
        f"{name} does not go with world.access = 'air': it takes several sums of a round and the devices of a cell "
        "send at once, so use a method of one sum such as fedavg, or another access"
    )


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
