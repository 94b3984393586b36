"""`fedcell data split`: which labels each device holds when a run begins."""

import json
from argparse import Namespace

import numpy as np

from .. import scenarios, world
from ..data import histogram
from ..report.table import columns
from ..resolve import read_pairs, resolve
from ..types import Ints
from .run import add_flags, print_notice


def show(args: Namespace) -> int:
    """Print the label histogram of every device."""
    settings = read_pairs(args.set, "--set")
    add_flags(settings, args, "seed")
    asked = resolve(scenarios.get(args.scenario), (), settings)
    for line in asked.notices:
        print_notice(line)
    problem = scenarios.build_problem(asked.config)
    labels = problem.learner.train_samples.labels
    counts = histogram(world.start(problem.world, problem.seed).store, labels, int(labels.max()) + 1)
    print(json.dumps({"counts": counts.tolist()}) if args.json else text(counts))
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
