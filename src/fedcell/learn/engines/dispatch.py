"""Choose the engine that trains a cohort, and run it by its name."""

from . import batched, own_rule
from . import reference as debug
from .common import Job, draws
from .cpu import dense_clients
from .cpu import per_client as sequential
from .gpu import vmap

WORDS = {
    "rule": "a rule of the method's own trains the module, one device after another",
    "debug": "debug: autograd and a copy of the module, one device after another",
    "vmap": "vmap: all devices of a chunk at once",
}

BATCHED_ON_CPU = 150_000  # parameters up to which batching dense clients beat training them one by one on 2 cores


def choose_engine(job: Job) -> str:
    """Batch clients together where measurements favour it: on a GPU, and for small dense nets on a CPU."""
    layers = batched.chain(job.architecture) if job.work.objective is None else None
    dense = layers is not None
    if job.device.type == "cpu":
        small = job.architecture.n_params <= BATCHED_ON_CPU
        return "batched" if layers and (small or _compiled(job, layers)) else "sequential"
    if draws(job) or not job.architecture.batchable:
        return "sequential"
    if dense:
        return "batched"
    return "vmap" if len(job.work.steps) > 1 else "sequential"  # nothing to batch


def _compiled(job: Job, layers: list[batched.DenseLayer]) -> bool:
    """Whether a compiled kernel does all steps of a client; not for a single client, which can use every core."""
    return len(job.work.steps) > 1 and dense_clients.wins(job, layers)


def train_with(engine: str, job: Job, workers: int) -> None:
    """Fill `job.out` with an engine, in this process; `workers` are threads, 0 for one per core.

    If the method has a training rule of its own, that rule trains the rows, whatever the name.
    """
    if (told := WORDS.get("rule" if job.work.rule is not None else engine)) is not None:
        job.replays.trained_by[told] = None  # `batched` and `sequential` have several ways and note theirs
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
