"""What the experiments on CAFe share: the paper's data splits, problems on them, and the accuracy that is claimed.

Deviation: clients sample from the first 50 000 training images of MNIST and models are tested on the
official 10 000 test images; the paper cuts both out of the 60 000 (spec C22).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np

from fedcell.data import Dataset, load
from fedcell.experiment import Case, Row, judging
from fedcell.experiment.judging import Measure, Part, accuracies, of_accuracy
from fedcell.rng import SETUP, stream
from fedcell.scenarios import Config, build_problem, get
from fedcell.types import Floats, Ints, Problem, Store
from fedcell.world import static_stream

TRAIN = 50_000
SAMPLES = 500  # of one client, if all have equally many
LAST = 5  # evaluations, ten rounds apart, whose mean is "the accuracy after 1000 rounds"
N_CLIENTS, N_CLASSES = 100, 10
IID_STORE = "iid"  # of Figures 5 and 7

Split = Callable[[Ints, np.random.Generator], list[Ints]]  # labels -> samples of every client


# ---------------------------------------------------------------- splits (spec section 6)


def draw(labels: Ints, label: int, count: int, rng: np.random.Generator) -> Ints:
    """`count` different samples of a class."""
    return rng.choice(np.flatnonzero(labels == label), count, replace=False)


def triples(labels: Ints, rng: np.random.Generator) -> list[Ints]:
    """Three classes per client, a different triple for each, equally many samples."""
    return _triples(labels, [SAMPLES] * N_CLIENTS, rng)


def unequal_triples(labels: Ints, rng: np.random.Generator) -> list[Ints]:
    """The same with 30 to 3000 samples of a client, uniform on a logarithmic scale."""
    return _triples(labels, [round(30 * 100**u) for u in rng.random(N_CLIENTS)], rng)


def _triples(labels: Ints, sizes: Sequence[int], rng: np.random.Generator) -> list[Ints]:
    every = [(a, b, c) for a in range(N_CLASSES) for b in range(a) for c in range(b)]
    chosen = rng.permutation(len(every))[:N_CLIENTS]
    return [_of_classes(labels, every[k], size, rng) for k, size in zip(chosen, sizes, strict=True)]


def _of_classes(labels: Ints, classes: Sequence[int], size: int, rng: np.random.Generator) -> Ints:
    """`size` samples, near-equally many of each class."""
    parts = np.array_split(np.arange(size), len(classes))
    return np.concatenate([draw(labels, label, len(part), rng) for label, part in zip(classes, parts, strict=True)])


def balanced(labels: Ints, rng: np.random.Generator) -> list[Ints]:
    """The same number from each of the ten classes for every client."""
    each = SAMPLES // N_CLASSES
    return [np.concatenate([draw(labels, label, each, rng) for label in range(N_CLASSES)]) for _ in range(N_CLIENTS)]


def single_class(labels: Ints, rng: np.random.Generator) -> list[Ints]:
    """Class `k mod 10` on client `k`, 50 to 500 samples."""
    return [draw(labels, k % N_CLASSES, int(rng.integers(50, 501)), rng) for k in range(N_CLIENTS)]


def random_classes(labels: Ints, rng: np.random.Generator) -> list[Ints]:
    """1 to 10 classes per client, 10 to 100 samples of each."""
    out = []
    for _ in range(N_CLIENTS):
        held = rng.permutation(N_CLASSES)[: int(rng.integers(1, N_CLASSES + 1))]
        out.append(np.concatenate([draw(labels, int(label), int(rng.integers(10, 101)), rng) for label in held]))
    return out


def biased(n_biased: int, labels: Ints, rng: np.random.Generator) -> list[Ints]:
    """The first clients repeat ten samples of class 0; client `k` of the others has class `(k mod 9) + 1`."""
    few = [np.tile(draw(labels, 0, 10, rng), SAMPLES // 10) for _ in range(n_biased)]
    return few + [draw(labels, k % 9 + 1, SAMPLES, rng) for k in range(n_biased, N_CLIENTS)]


# ---------------------------------------------------------------- problems and cases


@cache
def mnist() -> Dataset:
    data = load("mnist")
    return data._replace(x_train=data.x_train[:TRAIN], y_train=data.y_train[:TRAIN])


def store_of(parts: Sequence[Ints]) -> Store:
    """Rows of different length as one padded store."""
    size = np.array([len(part) for part in parts], dtype=np.int64)
    items = np.zeros((len(parts), int(size.max())), dtype=np.int64)
    for row, part in zip(items, parts, strict=True):
        row[: len(part)] = part
    return Store(items, size)


def build(split: Split, config: Config) -> Problem:
    """A problem of the paper's setting with the samples split in its own way."""
    problem = build_problem(config, mnist())
    store = store_of(split(mnist().y_train, stream(config.seed, SETUP, "cafe split")))
    return problem._replace(world=problem.world._replace(stream=static_stream(store)))


def config(deadline_s: float, quick: bool, n_fast: int = 0) -> Config:
    """The paper's setting: 1000 rounds, failed ones included; the first `n_fast` clients answer at once."""
    base = get("cafe").config
    world = replace(base.world, deadline_s=deadline_s, n_fast=n_fast)
    data = replace(base.data, partition="iid")  # replaced by the split
    return replace(base, rounds=30 if quick else 1000, world=world, data=data)


def case(key: str, deadline_s: float, split: Split, quick: bool, n_fast: int = 0, **settings: object) -> Case:
    """One run of CAFe per seed."""
    return Case(key, config(deadline_s, quick, n_fast), "cafe", settings, partial(build, split))


def iid_name(quorum: int) -> str:
    return f"iid M={quorum}"


def iid_case(quorum: int, quick: bool) -> Case:
    """A run of Figures 5 and 7."""
    return case(iid_name(quorum), 0.5, balanced, quick, quorum=quorum)


# ---------------------------------------------------------------- judging


@of_accuracy
def accuracy(row: Row) -> float:
    """Mean of the last evaluations, which swing if clients hold few classes."""
    return float(np.mean(accuracies(row)[-LAST:]))


def values(rows: list[Row], key: str, value: Measure = accuracy) -> Floats:
    """A number of one case on every seed; empty if it was not run."""
    return judging.values_of(rows, key, value)


def told(rows: list[Row], key: str) -> str:
    """Mean and standard deviation over the seeds."""
    return judging.told(rows, key, accuracy)


def ahead(rows: list[Row], better: str, worse: str) -> Part:
    """One case ends more accurate than another."""
    return judging.ahead(rows, better, worse, accuracy)
