"""Rounds without training: the real loop, in which devices send made-up updates.

The world is observed, the method decides, uploads are sent and paid for, and the method's state moves on, all by the
code of a run. Seconds, joules and bits are those of the run on the same seed if decisions do not look at what devices
learn; `looking` finds out by playing some rounds with several kinds of made-up updates.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import copy

import numpy as np
import torch
from torch import Tensor

from ..learn.deferred import Deferred, Question
from ..learn.work import Report, Work
from ..rng import SETUP, stream
from ..simulate import simulate
from ..types import Floats, Ints, Method, Problem, Row, Snapshot, Start, Store, Updates

N_KINDS = 16  # different rows that devices send in turns
SIZE = 1e-3  # standard deviation of their entries
SCALES = {  # of the rows, by what they are for; large ones move losses, scales of 0 make all rows zero
    "plan": np.ones(N_KINDS),
    "rising": np.geomspace(0.1, 1000.0, N_KINDS),
    "falling": np.geomspace(1000.0, 0.1, N_KINDS),
    "nothing": np.zeros(N_KINDS),
}


class MadeUp(Deferred):
    """Rows of which each is one of a few kinds; sums of them need no memory for the rows.

    Args:
        kinds: `[n_kinds, n_params]`; row `k` is kind `k % n_kinds`.
        steps: `[n_rows]`, local steps.
    """

    def __init__(self, kinds: Tensor, steps: Ints) -> None:
        self.kinds, self.of_row, self.steps = kinds, np.arange(len(steps)) % len(kinds), steps
        super().__init__(self.take, steps, kinds.shape[1], 1, max(len(steps), 1), kinds.device)
        self._finite = np.ones(len(steps), dtype=np.bool_)

    def take(self, rows: Ints | None) -> Tensor:
        """Some rows, or all, `[n_rows, n_params]`."""
        return self.kinds[torch.from_numpy(self.of_row if rows is None else self.of_row[rows])]

    def add_all(self, questions: Sequence[Question]) -> list[Tensor]:
        found = []
        for chosen, weights in questions:
            sums = [np.bincount(self.of_row[chosen], one, len(self.kinds)) for one in np.atleast_2d(weights)]
            total = self.kinds.new_tensor(np.array(sums)) @ self.kinds
            found.append(total[0] if weights.ndim == 1 else total)
        return found

    def remade(self, make: Callable[[Ints | None], Tensor]) -> Deferred:
        return Deferred(make, self.steps, self.n_params, 1, max(len(self.steps), 1), self.device)

    def watched(
        self, change: Callable[[Tensor], Tensor], measure: Callable[[Tensor], Tensor]
    ) -> tuple[Deferred, Floats]:
        kinds = change(self.kinds)
        return MadeUp(kinds, self.steps), measure(kinds).cpu().numpy()[self.of_row]


def untrained(problem: Problem, purpose: str = "plan") -> Problem:
    """The problem with a learner that trains nothing and sends rows of `SCALES`; edge servers serve nobody."""
    learner, drawn = copy(problem.learner), dict[int, Tensor]()

    def kinds(n: int) -> Tensor:
        if n not in drawn:
            rows = stream(problem.seed, SETUP, f"plan.{purpose}").standard_normal((N_KINDS, n), dtype=np.float32)
            scale = torch.from_numpy(SIZE * SCALES[purpose][:, None].astype(np.float32))
            drawn[n] = (torch.from_numpy(rows) * scale).to(learner.device)
        return drawn[n]

    def train(start: Start, work: Work) -> Updates:
        if work.report is not None:
            made = MadeUp(kinds(learner.n_reported(work.report)), work.steps)
            return Updates(work.device, made.matrix(), kept=start.points[start.of_row])
        return Updates(work.device, MadeUp(kinds(start.points.shape[1]), work.steps))

    def train_parts(start: Start, work: Work, extracted: object = None) -> Updates:
        assert work.mask is not None
        return Updates(work.device, train(start, work).delta * work.mask)

    def reports(report: Report, models: Tensor, device: Ints, store: Store) -> Tensor:
        return MadeUp(kinds(learner.n_reported(report)), np.ones(len(models), dtype=np.int64)).matrix()

    # Attributes of the object, because views of a cell and learners of other networks copy those.
    learner.__dict__.update(train=train, train_parts=train_parts, reports=reports, _others={})
    world = problem.world._replace(stream=problem.world.stream._replace(serve=None))
    return problem._replace(learner=learner, world=world)


def unjudged(method: Method) -> Method:
    """The method without evaluations."""
    return method._replace(evaluate=lambda *given: {})


def play(problem: Problem, method: Method, purpose: str = "plan") -> Iterator[tuple[Row, Snapshot]]:
    """Every round of a problem without training or evaluation: its row and the state after it."""
    return simulate(untrained(problem, purpose), unjudged(method))
