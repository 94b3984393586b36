"""The reference engine (`debug`): one client after another, by autograd on a copy of the module. Slow and obvious."""

from copy import deepcopy

import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from .. import streams
from ..architecture import trainable
from ..work import cross_entropy
from .common import Batches, Job, draw_seed, draws
from .update import Rule, Terms, direction, move


def train(job: Job) -> None:
    """Fill `job.out` with the update of every row."""
    batches = Batches(job)
    with streams.lent(job.device, draws(job)):
        for row in range(len(job.work.steps)):
            _train_row(job, batches, row)


def _train_row(job: Job, batches: Batches, row: int) -> None:
    work = job.work
    objective, rule = work.objective or cross_entropy, Rule.of(work)
    n_steps, size = int(work.steps[row]), int(batches.size[row])
    start = job.points[job.of_row[row]]
    module = deepcopy(job.architecture.module).to(job.device)
    vector_to_parameters(start, trainable(module))
    if job.tail is not None:
        job.architecture.tail.put(module, job.tail[row])
    terms, memory = _terms(job, row), rule.memory([start])
    x, y = job.samples.take(batches.of_row(row, n_steps))
    if draws(job):
        streams.begin(draw_seed(job, row))
    for step in range(n_steps):
        part = slice(0, size) if batches.full else slice(step * size, (step + 1) * size)
        loss = objective(module, x[part].contiguous(), y[part], None)
        gradient = torch.cat(
            [part.reshape(-1) for part in torch.autograd.grad(loss, trainable(module), materialize_grads=True)]
        )
        now = parameters_to_vector(trainable(module)).detach()
        against, memory = direction(rule, [gradient], [now], terms, memory, step, by_row=False)
        move([now], against, work.lr)
        vector_to_parameters(now, trainable(module))
    job.out[row] = parameters_to_vector(trainable(module)).detach() - start
    if job.tail is not None:
        job.architecture.tail.take(module, job.tail[row])


def _terms(job: Job, row: int) -> Terms:
    start, shift, mask = job.points[job.of_row[row]], job.work.shift, job.work.mask
    return Terms(
        [start],
        [] if shift is None else [shift[row].to(start)],
        [] if mask is None else [(mask if mask.dim() == 1 else mask[row]).to(start)],
    )
