"""The tasks of the comparison, and their work written out: samples, start, cohorts and mini-batches of every round.

fedcell draws cohorts and mini-batches itself, keyed by (seed, round, device). The same draws are stored here for all
others, so that everybody trains the same clients on the same batches in the same order.

    python benchmarks/peers/tasks.py TASK FOLDER
"""

import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from networks import LENGTH, WORDS
from numpy.typing import NDArray
from work import Stored, as_vector, network

from fedcell import methods, world
from fedcell.data import Dataset
from fedcell.learn.batches import draw_batches
from fedcell.learn.setup import initialise
from fedcell.methods.parts.defaults import work_of
from fedcell.options import override
from fedcell.scenarios import Config, build_problem

SEED = 1
SCALE = 0.3  # of the noise of made-up samples
APART = {"logistic": 0.05, "2nn": 0.05, "lenet": 0.3, "cifar": 0.3, "resnet": 0.3}  # between the means of the classes
N_CLASSES = 10
TYPICAL = 0.3  # share of the words of a sample that only its class has


class Task(NamedTuple):
    """One piece of work, and how many times faster than each peer fedcell has to be."""

    title: str
    model: str
    shape: tuple[int, ...]
    n_clients: int
    per_client: int  # samples
    n_selected: int  # clients a round
    steps: int
    batch_size: int
    lr: float
    rounds: int
    bars: dict[str, float]
    same_model: float = 1e-3  # distance of final models over the way that fedcell's went


TASKS = {
    "a": Task(
        "LeNet, 100 clients, all in every round, 5 steps of 32",
        *("lenet", (1, 28, 28), 100, 600, 100, 5, 32, 0.05, 6),
        bars={"flower": 2.5, "pfl": 1.5, "plain": 2.0},
    ),
    "b": Task(
        "CIFAR-10 CNN of pfl (1,626,442 parameters), 1000 users of 50 images, 50 a round, an epoch of batch 10",
        *("cifar", (3, 32, 32), 1000, 50, 50, 5, 10, 0.05, 4),
        bars={"flower": 2.0, "pfl": 1.3},
    ),
    "c": Task(
        "MNIST logistic regression of FLUTE, 1000 clients of 60 images, 10 a round, an epoch of batch 10",
        *("logistic", (784,), 1000, 60, 10, 6, 10, 0.03, 100),
        bars={"flower": 20.0, "pfl": 10.0},
    ),
    "d": Task(
        "logistic regression, 2000 clients, all in every round, 5 steps of 10",
        *("logistic", (784,), 2000, 30, 2000, 5, 10, 0.03, 4),
        bars={"flower": 20.0, "pfl": 10.0},
    ),
    "e": Task(
        "ResNet-8 with group norm (78,042 parameters), 100 clients, 10 a round, 10 steps of 32",
        *("resnet", (3, 32, 32), 100, 320, 10, 10, 32, 0.05, 5),
        bars={"pfl": 1.5, "plain": 2.0},
        same_model=3e-2,  # rounding alone takes two plain loops 1e-2 apart in 40 steps
    ),
    "f": Task(
        "the 2NN of McMahan et al. (784-200-200-10, 199,210 parameters), 100 clients, 10 a round, 60 steps of 10",
        *("2nn", (784,), 100, 600, 10, 60, 10, 0.05, 10),
        bars={"pfl": 2.5},
    ),
    "g": Task(
        "transformer of 989,194 parameters, 20 words, 100 clients, 10 a round, 10 steps of 16",
        *("transformer", (LENGTH,), 100, 160, 10, 10, 16, 0.05, 5),
        bars={"pfl": 1.5, "plain": 2.0},
    ),
}


def settings(task: Task) -> dict[str, Any]:
    """The task as settings of fedcell, in a world without deadlines, budgets or losses."""
    return {
        "seed": SEED,
        "eval_every": 1_000_000,
        "world.n_devices": task.n_clients,
        "world.access": "own_band",
        "world.pathloss": "power_law",
        "world.cycles_per_sample": "1e6",
        "data.partition": "iid",
        "train.lr": task.lr,
        "train.steps": task.steps,
        "train.batch_size": task.batch_size,
        "train.device": "cpu",
    }


def method(task: Task) -> str:
    """The method in words: the plain mean of all, or of a random cohort."""
    chosen = "all" if task.n_selected == task.n_clients else "random"
    return f"fedavg:weights=equal,scheduler={chosen},n_selected={task.n_selected}"


def samples(task: Task) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Made-up samples of ten classes with different means, or with words of their own."""
    rng = np.random.default_rng(SEED)
    y = np.arange(task.n_clients * task.per_client) % N_CLASSES
    if task.model == "transformer":
        words = rng.integers(0, WORDS, (len(y), *task.shape))
        own = rng.random(words.shape) < TYPICAL
        return np.where(own, words // N_CLASSES * N_CLASSES + y[:, None], words).astype(np.float32), y.astype(np.int64)
    means = APART[task.model] * rng.standard_normal((N_CLASSES, *task.shape), dtype=np.float32)
    x = rng.standard_normal((len(y), *task.shape), dtype=np.float32)
    x *= SCALE
    x += means[y]
    return x, y.astype(np.int64)


def work(task: Task, rounds: int) -> Stored:
    """Everything a runner needs for so many rounds."""
    x, y = samples(task)
    module = initialise(lambda: network(task.model), SEED)
    dataset = Dataset("peers", x, y, x[:N_CLASSES], y[:N_CLASSES], N_CLASSES)
    cohort, batches = draws(task, dataset, module, rounds)
    about = {
        **{name: getattr(task, name) for name in ("title", "model", "n_clients", "steps", "batch_size", "lr")},
        "settings": settings(task),
        "method": method(task),
    }
    return Stored(about, x, y, as_vector(module), cohort, batches)


def draws(task: Task, dataset: Dataset, module: Any, rounds: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Who trains in every round `[rounds, n_selected]`, and on which samples `[rounds, n_selected, steps, batch]`."""
    problem = build_problem(override(Config(), settings(task)), dataset, module)
    choice = methods.parse(method(task))
    built, state = choice.build(), world.start(problem.world, SEED)
    cohort, batches = [], []
    for number in range(rounds):
        observation, state = world.observe(problem.world, state, SEED, number)
        given = work_of(choice.config, problem, observation, built.decide(problem, None, observation))
        n_draws = given.steps * given.batch_size
        flat, first = draw_batches(given.store, given.device, n_draws, problem.train.sampling, SEED, number)
        cohort.append(given.device)
        batches.append(flat[first[:, None] + np.arange(n_draws[0])])
    shape = (rounds, task.n_selected, task.steps, task.batch_size)
    return np.stack(cohort), np.stack(batches).reshape(shape)


def path_of(name: str, folder: Path, rounds: int) -> Path:
    """The file of a task for so many rounds."""
    return folder / f"{name}-{rounds}.npz"


def store(name: str, folder: Path, rounds: int) -> Path:
    """The file of a task for so many rounds, written if it is missing."""
    path = path_of(name, folder, rounds)
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(".half.npz")
        work(TASKS[name], rounds).write(half)
        half.rename(path)
    return path


if __name__ == "__main__":
    store(sys.argv[1], Path(sys.argv[2]), TASKS[sys.argv[1]].rounds)
