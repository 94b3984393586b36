"""Data sets as plain arrays, checked."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput
from ..metrics import CLASSIFICATION
from ..types import Ints
from .checks import as_array, check_pair, features
from .checks import owners as check_owners
from .scaling import UNIT, Scaling
from .targets import Targets, n_outputs, resolve_task, targets, tokens


class Dataset(NamedTuple):
    """Samples and what is learned of them; images are channels first, and in [0, 1] unless `scaling` says otherwise.

    Targets are class labels `[n]`, 0 .. n_classes - 1; of the task `multi-label` 0 or 1 `[n, n_classes]`, of
    `regression` numbers `[n, n_classes]`, both float32; of `next-token` the tokens that follow each of `x`, as `x`.
    """

    name: str
    x_train: NDArray[np.float32]  # [n_train, ...]
    y_train: Targets  # [n_train, ...]
    x_test: NDArray[np.float32]  # [n_test, ...]
    y_test: Targets  # [n_test, ...]
    n_classes: int  # or labels, targets or tokens: outputs of a network
    scaling: Scaling = UNIT  # of all samples
    task: str = CLASSIFICATION
    owners: Ints | None = None  # [n_train], owner of each sample, 0 .. n_owners - 1; None: samples have none
    test_owners: Ints | None = None  # [n_test], numbered alike

    def __repr__(self) -> str:
        """One line with name, sizes and task, without the arrays."""
        shape = "x".join(map(str, self.x_train.shape[1:]))
        sizes = f"{len(self.x_train)} train and {len(self.x_test)} test samples of {shape}"
        whose = "" if self.owners is None else f", {int(self.owners.max()) + 1} owners"
        what = f"{self.n_classes} classes" if self.task == CLASSIFICATION else self.task
        return f"<Dataset {self.name}: {sizes}, {what}{whose}>"


def retasked(dataset: Dataset, task: str) -> Dataset:
    """The data set with its targets checked for another task; unchanged for its own task and for `auto`."""
    if task in ("auto", dataset.task):
        return dataset
    parts = dataset.x_train, dataset.y_train, dataset.x_test, dataset.y_test
    other = from_arrays(*parts, name=dataset.name, task=task)
    return other._replace(scaling=dataset.scaling, owners=dataset.owners, test_owners=dataset.test_owners)


def from_arrays(
    x_train: Any,
    y_train: Any,
    x_test: Any,
    y_test: Any,
    name: str = "arrays",
    task: str = "auto",
    *,
    owners: Any = None,
    test_owners: Any = None,
) -> Dataset:
    """A data set from a user's own NumPy arrays or PyTorch tensors, checked.

    Bytes (uint8) are scaled to [0, 1] and, as images `[n, h, w]` or `[n, h, w, channels]`, made channels
    first; other numbers are kept as they are.

    Args:
        x_train: Training samples, `[n_train, ...]`.
        y_train: Their labels, whole numbers from 0, `[n_train]`; or the targets of another task.
        x_test: Test samples, as `x_train`.
        y_test: Their labels, each of which also occurs in training; or targets, as `y_train`.
        name: What messages call the data.
        task: `classification`, `multi-label` (0 or 1 per label, `[n, n_labels]`), `regression` (numbers, `[n]` or
            `[n, n_targets]`), `next-token` (whole-number tokens, x and y `[n, length]`); `auto`: whichever the arrays
            are, labels if they may be.
        owners: Owner of each training sample, for `data.partition=given`: texts, or whole numbers from 0, `[n_train]`.
        test_owners: Owner of each test sample, `[n_test]`; all of them also own training samples.

    >>> data = from_arrays(np.zeros((4, 8, 8), np.uint8), [0, 1, 0, 1], np.ones((1, 8, 8), np.uint8), [1])
    >>> data.x_train.shape, data.n_classes
    ((4, 1, 8, 8), 2)
    """
    if x_test is None or y_test is None:
        raise BadInput(f"{name!r} has no test split: give x_test and y_test, such as the last tenth of the samples")
    task = resolve_task(task, x_train, y_train, y_test)
    known, asked = targets(task, y_train, f"y_train of {name!r}"), targets(task, y_test, f"y_test of {name!r}")
    train, test = (
        features(tokens(x, f"{part} of {name!r}") if task == "next-token" else x, f"{part} of {name!r}")
        for x, part in ((x_train, "x_train"), (x_test, "x_test"))
    )
    check_pair(train, known, "train", name)
    check_pair(test, asked, "test", name)
    if train.shape[1:] != test.shape[1:]:
        raise BadInput(
            f"x_test of {name!r} has samples of shape {test.shape[1:]} but x_train has {train.shape[1:]}: "
            "prepare both in the same way"
        )
    n = n_outputs(task, train, known, test, asked, name)
    found = Dataset(name, train, known, test, asked, n, task=task)
    return found if owners is None and test_owners is None else owned(found, owners, test_owners)


def owned(dataset: Dataset, owners: Any, test_owners: Any = None) -> Dataset:
    """The same samples with owners; raises BadInput for owners that do not fit.

    Args:
        dataset: the samples.
        owners: as of `from_arrays`.
        test_owners: as of `from_arrays`.
    """
    if owners is None:
        raise BadInput(f"{dataset.name!r} has test_owners and no owners: give the owners of the training samples, too")
    what, n_train = f"owners of {dataset.name!r}", len(dataset.x_train)
    if test_owners is None:
        return dataset._replace(owners=check_owners(owners, n_train, what))
    mine, theirs = as_array(owners, "owners"), as_array(test_owners, "test_owners")
    check_owners(theirs if theirs.dtype.kind in "OUS" else np.zeros(theirs.shape), len(dataset.x_test), f"test_{what}")
    if strangers := sorted(set(theirs.tolist()) - set(mine.tolist()))[:1]:
        raise BadInput(f"test_{what} has {strangers[0]!r}, who owns no training samples: drop these test samples")
    both = check_owners(np.concatenate([mine, theirs]), n_train + len(theirs), what)
    return dataset._replace(owners=both[:n_train], test_owners=both[n_train:])
