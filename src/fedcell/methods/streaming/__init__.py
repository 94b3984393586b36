"""Streaming FL: full-batch gradient descent on every device's cache, then the mean with a global step.

`w <- w + server_lr * mean_k (w_k - w)` with `w_k` the end of `steps` gradient steps on all that device `k`
holds. The world decides what it holds (`stream.cache`); this file trains on it and measures how far its label shares
are from the long-term ones.

Deviation: the printed update divides local changes by the local rate and does not multiply it back; the proof does.

Reference: streaming (Wang, Bian, Xu: On the Local Cache Update Rules in Streaming Federated Learning), Eqs. (2)-(7)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ...labels import histogram
from ...options import option
from ...types import Decision, Method, Observation, Problem
from .. import fedavg
from ..parts import defaults
from .theory import deviation


@dataclass(frozen=True)
class Config(fedavg.Config):
    """Settings of streaming FL."""

    batch_size: int | None = option(0, "samples per local step; 0: the whole cache", least=0)
    weights: str = option("equal", "weight of a device in the average", choices=("samples", "equal"))


def build(config: Config) -> Method:
    return fedavg.build(config)._replace(decide=partial(decide, config), evaluate=evaluate, needs_labels=True)


def decide(config: Config, problem: Problem, state: Any, observation: Observation) -> Decision:
    """Decide as FedAvg does; the row gets the discrepancy of this round's caches if the long-term law is known."""
    decision = defaults.decide(config, problem, state, observation)
    return decision._replace(info=label_columns(problem, observation))


def label_columns(problem: Problem, observation: Observation) -> Mapping[str, float]:
    """Columns of a row: `psi_t`, the largest squared deviation of one share, and the chains' mean second eigenvalue."""
    law = problem.world.stream.law
    if law is None:
        return {}
    long_term = law.long_term
    counts = histogram(observation.store, problem.learner.train_samples.labels, long_term.shape[1])
    squared = deviation(counts, long_term) ** 2
    return {
        "discrepancy": float(squared.sum()),
        "discrepancy_max": float(squared.max()),
        "eigenvalue": float(law.second_eigenvalue.mean()),
    }


def evaluate(problem: Problem, params: Tensor, state: Any) -> Mapping[str, float]:
    """Accuracy and loss; if the long-term law is known, also with classes weighted by it, and equally."""
    law, learner = problem.world.stream.law, problem.learner
    if law is None or learner.judged:  # norm layers of the devices' own have no scores that all share
        return learner.evaluate(params)
    test, loss = learner.test_samples, 0.0
    size = np.bincount(test.labels)
    right = np.zeros(len(size))
    for index, scores in learner.scores(params, test):
        y = test.y[torch.from_numpy(index).to(scores.device)]
        hits = (scores.argmax(1) == y).cpu().numpy()
        right += np.bincount(test.labels[index], weights=hits, minlength=len(size))
        loss += float(functional.cross_entropy(scores, y, reduction="sum"))
    tested = np.flatnonzero(size)
    of_class, share = right[tested] / size[tested], law.long_term.mean(axis=0)[tested]
    more = learner.evaluate(params) if learner.settings.top or learner.settings.spread else {}
    return {
        **more,
        "accuracy": float(right.sum() / len(test)),
        "loss": loss / len(test),
        "weighted_accuracy": float(of_class @ share / share.sum()),
        "balanced_accuracy": float(of_class.mean()),
    }
