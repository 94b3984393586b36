"""Targets as a user gives them: recognise the task, and turn the arrays into targets of that task."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput, choose_one
from ..metrics import CLASSIFICATION, TASKS
from ..types import Ints
from .checks import as_array, check_labels, features, labels

Targets = NDArray[Any]  # int64 or float32


def resolve_task(task: str, x: Any, y_train: Any, y_test: Any) -> str:
    """The task that is asked for, or for `auto` the one that the arrays look like.

    - whole numbers `[n]`: classification
    - numbers with fractions `[n]` or `[n, n_targets]`, given as floating-point numbers in training and test: regression
    - zeros and ones `[n, n_labels]`, unless each row has a single one: multi-label
    - whole numbers of the shape of whole-number samples: next-token

    >>> resolve_task("auto", [[0.5], [1.5]], [0.1, 0.7], [0.3])
    'regression'
    """
    if task != "auto":
        if task not in TASKS:
            raise BadInput(f"task {task!r} is unknown{choose_one(str(task), ['auto', *TASKS])}")
        return task
    known, asked, samples = as_array(y_train, "y_train"), as_array(y_test, "y_test"), as_array(x, "x_train")
    if known.ndim == 2 and known.shape == samples.shape and known.dtype.kind in "iu" and samples.dtype.kind in "iu":
        return "next-token"
    wide = known.ndim == 2 and known.shape[1] > 1
    if wide and known.dtype.kind in "biuf" and ((known == 0) | (known == 1)).all():
        one_hot = (known.sum(axis=1) == 1).all()  # labels in disguise: refused, with what to do
        return CLASSIFICATION if one_hot else "multi-label"
    if known.dtype.kind == asked.dtype.kind == "f" and known.ndim in (1, 2):
        real = np.isfinite(known).all() and np.isfinite(asked).all()
        return "regression" if real and (wide or (known % 1 != 0).any()) else CLASSIFICATION
    return CLASSIFICATION


def targets(task: str, values: Any, what: str) -> Targets:
    """Convert targets to the form of their task: labels `[n]`, tokens `[n, length]`, or float32 rows."""
    if task == CLASSIFICATION:
        return labels(values, what)
    if task == "next-token":
        return tokens(values, what)
    y = _numbers(values, what)
    if task == "multi-label" and (wrong := y[(y != 0) & (y != 1)]).size:
        raise BadInput(f"{what} holds {wrong[0]:g}: a label of the task 'multi-label' is 0 or 1")
    return y


def n_outputs(
    task: str, train: NDArray[np.float32], known: Targets, test: NDArray[np.float32], asked: Targets, name: str
) -> int:
    """How many outputs a network needs; refuses targets to train and to test on that do not fit each other."""
    if task == CLASSIFICATION:
        return check_labels(known, asked, name)
    if task == "next-token":
        return _n_tokens(train, known, test, asked, name)
    if known.shape[1:] != asked.shape[1:]:
        raise BadInput(f"y_test of {name!r} has {asked.shape[1]} columns and y_train {known.shape[1]}: give the same")
    return known.shape[1]


def _numbers(values: Any, what: str) -> NDArray[np.float32]:
    y = as_array(values, what)
    if y.ndim > 2:
        raise BadInput(f"{what} has shape {y.shape}: give a row of targets per sample, as y.reshape(len(y), -1) is")
    return features((y[:, None] if y.ndim == 1 else y).astype(np.float64) if y.dtype.kind in "biuf" else y, what)


def tokens(values: Any, what: str) -> Ints:
    """Whole numbers from 0, `[n, length]`."""
    y = as_array(values, what)
    whole = y.dtype.kind in "biuf" and y.ndim == 2 and y.size and bool((y == np.floor(y)).all() and (y >= 0).all())
    if not whole:
        raise BadInput(f"{what} ({y.dtype}, shape {y.shape}) holds no tokens: give whole numbers from 0, [n, length]")
    return y.astype(np.int64)


def _n_tokens(train: NDArray[Any], known: Targets, test: NDArray[Any], asked: Targets, name: str) -> int:
    """The number of tokens, the largest one plus 1; raises BadInput unless targets have the shape of samples."""
    for x, y, part in ((train, known, "train"), (test, asked, "test")):
        if x.shape != y.shape:
            raise BadInput(
                f"y_{part} of {name!r} has shape {y.shape} and x_{part} {x.shape}: give the token that follows each, "
                "such as tokens[:, :-1] and tokens[:, 1:]"
            )
    return int(max(part.max() for part in (train, known, test, asked))) + 1
