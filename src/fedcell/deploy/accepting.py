"""Accept a round only if the model after it is sound: try the aggregate before it becomes the checkpoint.

A model is sound if it and the method's state are finite, and if its test loss is at most `max_loss` times the loss
before the round (or that of guessing). If a round breaks the model, the devices that break it are left out and named.
If these are more than half of the devices, no update is taken. Needs no Flower.
"""

from collections.abc import Callable, Mapping
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import radio
from ..errors import Diverged
from ..screening import aggregate
from ..tiers.hierarchy import Edges
from ..types import Ints, Method, Problem, Round, Snapshot

SUSPECTS = 16  # devices that are tried one by one: those with the longest updates
PATIENCE = 3  # rounds refused as a whole in a row, after which the run ends


class Trial(NamedTuple):
    """How a round is tried: what to aggregate, and the test loss that is accepted."""

    problem: Problem
    method: Method
    before: Snapshot
    most: float  # highest test loss that is accepted

    def loss(self, sent: Round) -> float:
        """The test loss after a round; 0 if nothing is tested (`most` is inf), inf if something is not finite."""
        try:
            params, state, _ = aggregate(self.problem, self.method, self.before.params, self.before.method, sent)
        except Diverged:
            return inf
        if not bool(params.isfinite().all()) or not_finite(state) > not_finite(self.before.method):
            return inf
        return self.tested(params, state)

    def accepts(self, loss: float) -> bool:
        """Whether a round with this `loss` is sound; never if something is not finite, also if nothing is tested."""
        return loss <= self.most and loss < inf

    def tested(self, params: Tensor, state: Any) -> float:
        """The test loss of a model; of the worst edge model if cells have their own."""
        if self.most == inf:
            return 0.0
        models = {id(one): one for one in state.models}.values() if isinstance(state, Edges) else [params]
        found = [self.method.evaluate(self.problem, model, state).get("loss", 0.0) for model in models]
        return max(found) if all(map(isfinite, found)) else inf


class Judged(NamedTuple):
    """A round as it was judged."""

    sent: Round
    named: Mapping[int, float]  # devices that were left out, and the test loss before each was
    loss: float  # of the model after it
    whole: bool = False  # whether nobody's update was taken


class Accepting:
    """What is remembered of earlier rounds."""

    def __init__(self) -> None:
        self.loss = -1.0  # of the model as it stands; -1: not known
        self.refused = 0  # rounds in a row of which nobody's update was taken

    def trial(self, problem: Problem, method: Method, before: Snapshot, max_loss: float, guessing: float) -> Trial:
        """Set up the trial of the round after a snapshot."""
        made = Trial(problem, method, before, max_loss)
        if max_loss == inf:
            return made
        if self.loss < 0:
            self.loss = made.tested(before.params, before.method)
        return made._replace(most=max_loss * max(self.loss, guessing))

    def settle(self, found: Judged) -> int:
        """Note how a round was judged; returns how many in a row were refused."""
        self.loss, self.refused = found.loss, self.refused + 1 if found.whole else 0
        return self.refused


def judge(made: Trial, sent: Round) -> Judged:
    """Leave the devices that break the model out of a round, or all devices if these are more than half."""
    heard, named = sent.heard(), dict[int, float]()
    while not made.accepts(found := made.loss(sent)) and len(sent.heard()):
        if 2 * (len(named) + 1) > len(heard) > 1:
            nobody = without(sent, sent.heard())
            return Judged(nobody, {}, made.loss(nobody), whole=True)
        worst = culprit(made.loss, sent)
        named[worst] = found
        sent = without(sent, np.array([worst]))
    return Judged(sent, named, found)


def culprit(loss: Callable[[Round], float], sent: Round) -> int:
    """The device without which the test loss is lowest; the one with the longest update if no single one helps."""
    device, rows = sent.received()
    longest = device[torch.linalg.vector_norm(rows.double(), dim=1).argsort(descending=True, stable=True).cpu().numpy()]
    found = {int(one): loss(without(sent, np.array([one]))) for one in longest[:SUSPECTS]}
    return min(found, key=lambda one: found[one])


def without(sent: Round, devices: Ints) -> Round:
    """The round with the updates of some devices marked as invalid."""
    return sent._replace(uplink=radio.mark_invalid(sent.uplink, devices))


def not_finite(tree: Any) -> int:
    """Count the numbers in a tree of tensors, arrays and plain values that are not finite."""
    if isinstance(tree, Tensor):
        return int((~tree.isfinite()).sum()) if tree.is_floating_point() else 0
    if isinstance(tree, np.ndarray):
        return int((~np.isfinite(tree)).sum()) if tree.dtype.kind == "f" else 0
    if isinstance(tree, dict):
        return sum(map(not_finite, tree.values()))
    if isinstance(tree, tuple | list):
        return sum(map(not_finite, tree))
    return int(isinstance(tree, float) and not isfinite(tree))
