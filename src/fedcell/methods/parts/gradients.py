"""Gradients and losses of clients at a given model, for diagnostics and for methods whose devices send losses.

Not a method itself: it has no `build`.
"""

import numpy as np
import torch
from torch import Tensor

from ...learn.work import Work
from ...types import Floats, Ints, Problem, Start, Store

COHORT = 16  # clients whose gradients are in memory at once
BATCH = 2048


@torch.no_grad()
def client_losses(problem: Problem, params: Tensor, store: Store, power: float = 1.0) -> Floats:
    """`f_u(w | D_u)`, mean loss on what each client holds, `[n_devices]`; 0 without data.

    With `power`, the mean of that power of the losses. With batch norm a client is one batch.
    """
    learner, architecture = problem.learner, problem.learner.architectures[0]
    module = architecture.replica(learner.device).eval()
    architecture.load(module, params, learner.own_of())
    owner = np.repeat(np.arange(len(store.size)), store.size)
    items = store.items[np.arange(store.items.shape[1]) < store.size[:, None]]
    parts = [np.zeros(0)]
    ends = np.cumsum(store.size) if architecture.mixes_samples else np.arange(BATCH, len(items), BATCH)
    for some in np.split(items, ends):
        if not len(some):
            continue
        x, y = learner.train_samples.take(some)
        parts.append(learner.task.loss(module(x), y).double().cpu().numpy() ** power)
    total = np.bincount(owner, weights=np.concatenate(parts), minlength=len(store.size))
    return np.asarray(total / np.maximum(store.size, 1))


def gradients(problem: Problem, params: Tensor, store: Store, device: Ints, round: int, batch_size: int) -> Tensor:
    """Gradients of some clients at one model, `[n_rows, n_params]`: one local step of rate 1, negated."""
    work = Work(
        device=device,
        store=store.of(device),
        steps=np.ones(len(device), dtype=np.int64),
        lr=1.0,
        batch_size=batch_size,
        round=round,
    )
    start = Start(params[None], np.zeros(len(device), dtype=np.int64))
    return problem.learner.train(start, work).delta.neg()


def squares(rows: Tensor) -> Floats:
    return np.asarray(torch.linalg.vector_norm(rows, dim=1).double().cpu().numpy() ** 2)
