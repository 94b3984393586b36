"""What a method asks of a round over the air: which sums it takes, learned before devices send.

Devices need to know their weights before they send, and a cell sends once: a method may take one sum of its updates in
a round. Which one is learned by calling its `aggregate` beforehand, with zeros for sums. Not a rule: it has no `build`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from torch import Tensor

from ..errors import BadInput
from ..learn.deferred import Deferred
from ..types import Bools, Floats, Ints, Problem, Round
from . import refuse_rows


class AskedSum(NamedTuple):
    """A sum that a method asks for."""

    rows: Ints  # [n], of which updates
    weights: Floats  # [n]

    def is_same(self, other: "AskedSum") -> bool:
        return np.array_equal(self.rows, other.rows) and np.array_equal(self.weights, other.weights)


class SumsAlone:
    """Updates of which nobody gets more than sums.

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
