"""Top-Popular: no learning; the labels met most often so far are the prediction for everybody.

All devices share one ranking: by how many of the training samples that any device has held up to now bear the label,
ties to the lower label. Accuracy is how often the first of the ranking is right, Top-M (`train.top`) how often one of
the first M is. `loss` is the cross-entropy of the shares `(count + 1) / (total + classes)`. Devices compute and send
nothing. With video requests a label is a file, and this is the cache that keeps the most requested files.

Reference: rawhfl, section VI (baselines)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from torch import Tensor

from ..learn.evaluation import spread_columns, top_columns
from ..types import Bools, Floats, Ints, Method, Problem, Round
from . import central
from .parts.defaults import LocalConfig, default


@dataclass(frozen=True)
class Config:
    """Top-Popular has no settings."""


class State(NamedTuple):
    """What the ranking counts."""

    met: Bools  # [n_samples], training samples that some device has held


def build(config: Config) -> Method:
    return default(LocalConfig())._replace(
        init=init,
        decide=central.decide,
        aggregate=aggregate,
        evaluate=evaluate,
        foretell=foretell,
        scope="server",
        sends="nothing",
        needs_labels=True,
    )


def init(problem: Problem, params: Tensor) -> State:
    return State(np.zeros(len(problem.learner.train_samples), dtype=np.bool_))


def aggregate(problem: Problem, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    """Leave the model as it is and mark the samples of this round's stores as met."""
    held, met = played.observation.store, state.met.copy()
    met[held.items[np.arange(held.items.shape[1]) < held.size[:, None]]] = True
    return params, State(met)


def evaluate(problem: Problem, params: Tensor, state: State) -> Mapping[str, float]:
    """Accuracy and loss of the ranking, and the columns that `train.top` and `train.spread` ask for."""
    test = problem.learner.test_samples.labels
    counts = counts_of(problem, state)
    place, share = ranking(counts)[test], shares(counts)
    columns = {"accuracy": float((place == 0).mean()), "loss": float(-np.log(share[test]).mean())}
    if problem.train.spread:
        columns |= spread_columns((place == 0).astype(np.float64), problem.learner.test_samples)
    return {**columns, **top_columns(place, problem.train.top)}


def foretell(problem: Problem, params: Tensor, state: State, x: Tensor) -> Floats:
    """The same shares for everybody, `[n_devices, n_classes]`."""
    return shares(counts_of(problem, state))[None].repeat(len(x), axis=0)


def counts_of(problem: Problem, state: State) -> Ints:
    """How often every label was met, `[n_classes]`."""
    train, test = problem.learner.train_samples.labels, problem.learner.test_samples.labels
    return np.bincount(train[state.met], minlength=int(max(train.max(), test.max())) + 1)


def shares(counts: Ints) -> Floats:
    """The share of every label, none of them zero.

    >>> shares(np.array([2, 0])).tolist()
    [0.75, 0.25]
    """
    return np.asarray((counts + 1) / (counts.sum() + len(counts)))


def ranking(counts: Ints) -> Ints:
    """The place of every label, 0 for the most frequent.

    >>> ranking(np.array([2, 5, 0, 5])).tolist()
    [2, 0, 3, 1]
    """
    place = np.empty(len(counts), dtype=np.int64)
    place[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return place
