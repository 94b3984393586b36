"""From the name of an engine to the work done."""

from . import batched, debug, sequential, vmap
from .common import Job


def train_with(engine: str, job: Job, workers: int) -> None:
    """Fill `job.out` with an engine, in this process; `workers` are threads, 0 for one per core."""
    if engine == "debug":
        debug.train(job)
    elif engine == "batched":
        batched.train(job, workers)
    elif engine == "vmap":
        vmap.train(job)
    else:
        sequential.train(job, workers)
