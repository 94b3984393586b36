"""Local training by a method's own rule: a function that trains a plain PyTorch module, one device after another.

The rule may do anything that PyTorch can: other optimisers, several passes, clipped or noisy gradients. It is as
slow as a plain loop, on a CPU as on a GPU.
"""

import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from ...errors import BadInput
from .. import streams
from ..architecture import trainable
from ..optimiser import Optimiser
from ..work import Rule
from .common import Batches, Job, draw_seed


def train(job: Job, rule: Rule) -> None:
    """Fill `job.out` with the update that the rule makes of every row.

    `rule(device, module, batches)` trains `module` in place. It begins at the row's start point, on the training
    device; `batches` yields `(x, y)` of every local step, the mini-batches that all engines draw, with the changes of
    `train.augment`. Random numbers of PyTorch, NumPy and Python are seeded by (seed, round, device), so a rule may use
    them. A rule replaces `lr`, `momentum`, `prox`, `mask`, `shift` and `objective` of the work; an `optimiser` is
    refused.
    """
    work, batches = job.work, Batches(job)
    if work.optimiser != Optimiser():
        changed = next(name for name, value in work.optimiser._asdict().items() if value)
        raise BadInput(
            f"train.{'optimiser' if changed == 'adam' else changed} changes local steps, which this method has a rule "
            "of its own for: leave it at its default, or change the rule"
        )
    for row, device in enumerate(work.device.tolist()):
        start = job.points[job.of_row[row]]
        module = job.architecture.replica(job.device)
        vector_to_parameters(start.clone(), trainable(module))
        if job.tail is not None:
            job.architecture.tail.put(module, job.tail[row])
        index, size = batches.of_row(row, int(work.steps[row])), int(batches.size[row])
        first = [0 if batches.full else step * size for step in range(int(work.steps[row]))]
        with streams.lent(job.device), torch.enable_grad():
            streams.begin(draw_seed(job, row, "rule"))
            rule(device, module, (job.samples.take(index[place : place + size]) for place in first))
        job.out[row] = parameters_to_vector(trainable(module)).detach() - start
        if job.tail is not None:
            job.architecture.tail.take(module, job.tail[row])
