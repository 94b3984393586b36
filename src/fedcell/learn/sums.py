"""Find out which sums of updates `aggregate` needs, before a large cohort is trained.

`aggregate` is a pure function, so it can be called once beforehand with zeros for sums, to record which sums it asks
for. Then every device is trained only once, however many sums there are.
"""

from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor

from ..errors import ContractError
from ..types import Bools, Floats, Round
from .deferred import Deferred, Question


class RowsNeededError(Exception):
    """Raised in a rehearsal if `aggregate` asks for the rows themselves, so that sums are not enough."""


class Rehearsal:
    """Stand-in for rows that are not trained yet: answers sums with zeros and records which were asked for."""

    def __init__(self, n_sent: int, device: torch.device) -> None:
        self.questions: list[Question] = []
        self._n_sent, self._device = n_sent, device

    def add_up(self, chosen: Bools, weights: Floats) -> Tensor:
        self.questions.append((chosen.copy(), weights.copy()))
        return torch.zeros(*weights.shape[:-1], self._n_sent, device=self._device)

    def matrix(self) -> NoReturn:
        raise RowsNeededError

    def finite(self) -> NoReturn:
        raise RowsNeededError


class Answered:
    """Stand-in for rows whose requested sums are known: returns those from `add_up` and refuses any other."""

    def __init__(self, rows: Deferred, questions: Sequence[Question], answers: Sequence[Tensor]) -> None:
        self._rows, self._known = rows, list(zip(questions, answers, strict=True))

    def add_up(self, chosen: Bools, weights: Floats) -> Tensor:
        for (who, what), answer in self._known:
            if np.array_equal(who, chosen) and np.array_equal(what, weights):
                return answer.clone()
        raise ContractError(
            "aggregate() asks add_up() for weights that depend on another sum, which would train a large cohort twice: "
            "take the rows with received()"
        )

    def matrix(self) -> NoReturn:
        raise ContractError(
            "aggregate() asks for rows after a sum, which would train a large cohort twice: call received() first"
        )

    def finite(self) -> Bools:
        return self._rows.finite()


def questions_of(aggregate: Callable[[Round], object], sent: Round, rows: Deferred) -> list[Question] | None:
    """Call `aggregate` on zeros and return the sums that it asks for; None if it needs the rows themselves."""
    rehearsal = Rehearsal(rows.n_params, rows.device)
    try:
        with np.errstate(all="ignore"):
            aggregate(sent._replace(updates=sent.updates._replace(rows=rehearsal)))
    except Exception:  # it may fail only on zeros: called with the rows, it works or fails visibly
        return None
    return rehearsal.questions
