"""`fedcell data split`: which labels each device holds when a run begins."""

import json
from argparse import Namespace

import numpy as np

from .. import scenarios, world
from ..data import histogram
from ..metrics import CLASSIFICATION
from ..report.table import columns
from ..resolve import read_pairs, resolve
from ..types import Ints
from .run import add_flags, print_notice


def show(args: Namespace) -> int:
    """Print the label histogram of every device, or how many samples it holds if there are no labels."""
    settings = read_pairs(args.set, "--set")
    add_flags(settings, args, "seed")
    asked = resolve(scenarios.get(args.scenario), (), settings)
    for line in asked.notices:
        print_notice(line)
    problem = scenarios.build_problem(asked.config)
    labels, store = problem.learner.train_samples.labels, world.start(problem.world, problem.seed).store
    if problem.learner.task.name == CLASSIFICATION:
        counts = histogram(store, labels, int(labels.max()) + 1)
        print(json.dumps({"counts": counts.tolist()}) if args.json else text(counts))
    else:
        print(json.dumps({"samples": store.size.tolist()}) if args.json else samples_text(store.size))
    return 0


def text(counts: Ints) -> str:
    """A row of label counts per device, and what they add up to.

    >>> print(text(np.array([[3, 0], [1, 2]])))
    device  samples  0  1
         0        3  3  0
         1        3  1  2
    2 devices hold 3 to 3 samples (6 in all) of 1 to 2 classes
    """
    rows = [["device", "samples", *(str(label) for label in range(counts.shape[1]))]]
    rows += [[str(k), str(row.sum()), *(str(count) for count in row)] for k, row in enumerate(counts)]
    held, classes = counts.sum(axis=1), (counts > 0).sum(axis=1)
    return "\n".join(columns(rows, ">" * len(rows[0]))) + (
        f"\n{len(counts)} devices hold {held.min()} to {held.max()} samples ({np.sum(held)} in all) "
        f"of {classes.min()} to {classes.max()} classes"
    )


def samples_text(held: Ints) -> str:
    """A row per device, and what they add up to.

    >>> print(samples_text(np.array([3, 1])))
    device  samples
         0        3
         1        1
    2 devices hold 1 to 3 samples (4 in all)
    """
    rows = [["device", "samples"], *([str(device), str(size)] for device, size in enumerate(held))]
    total = f"{len(held)} devices hold {held.min()} to {held.max()} samples ({held.sum()} in all)"
    return "\n".join([*columns(rows, ">>"), total])
