"""From the name of an engine to the work done."""

from . import batched, own_rule
from . import reference as debug
from .common import Job
from .cpu import per_client as sequential
from .gpu import vmap


def train_with(engine: str, job: Job, workers: int) -> None:
    """Fill `job.out` with an engine, in this process; `workers` are threads, 0 for one per core.

    A rule of one's own is an engine by itself, whatever the name.
    """
    if job.work.rule is not None:
        own_rule.train(job, job.work.rule)
    elif engine == "debug":
        debug.train(job)
    elif engine == "batched":
        batched.train(job, workers)
    elif engine == "vmap":
        vmap.train(job)
    else:
        sequential.train(job, workers)
