"""The reference: one client after another, a module copy, autograd and a textbook update. Slow, obvious."""

from copy import deepcopy

import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from ..architecture import trainable
from ..work import cross_entropy
from .common import Batches, Job


def train(job: Job) -> None:
    """Fill `job.out` with what every row's training moved."""
    work, batches = job.work, Batches(job)
    objective = work.objective or cross_entropy
    for row in range(len(work.steps)):
        n_steps = int(work.steps[row])
        start = job.points[job.of_row[row]]
        module = deepcopy(job.architecture.module).to(job.device)
        vector_to_parameters(start, trainable(module))
        if job.tail is not None:
            job.architecture.tail.put(module, job.tail[row])
        velocity = torch.zeros_like(start)
        x, y = job.samples.take(batches.of_row(row, n_steps))
        for step in range(n_steps):
            size = int(batches.size[row])
            part = slice(0, size) if batches.full else slice(step * size, (step + 1) * size)
            loss = objective(module, x[part].contiguous(), y[part], None)
            gradient = torch.cat([part.reshape(-1) for part in torch.autograd.grad(loss, trainable(module))])
            now = parameters_to_vector(trainable(module)).detach()
            velocity = work.momentum * velocity + gradient + work.prox * (now - start)
            if work.shift is not None:
                velocity = velocity + work.shift[row].to(velocity.device)
            if work.mask is not None:
                velocity = velocity * (work.mask if work.mask.dim() == 1 else work.mask[row]).to(velocity.device)
            vector_to_parameters(now - work.lr * velocity, trainable(module))
        job.out[row] = parameters_to_vector(trainable(module)).detach() - start
        if job.tail is not None:
            job.architecture.tail.take(module, job.tail[row])
