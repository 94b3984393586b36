"""Counting labels: of what devices hold, and of samples that share one."""

import numpy as np

from .types import Ints, Store, Tally


def histogram(store: Store, labels: Ints, n_classes: int) -> Ints:
    """Samples of each class on each device, `[n_devices, n_classes]`.

    >>> store = Store(np.array([[0, 2], [1, 0]]), np.array([2, 1]))
    >>> histogram(store, np.array([0, 1, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    if isinstance(store, Tally):
        return store.items.copy()
    n_devices, capacity = store.items.shape
    held = np.arange(capacity) < store.size[:, np.newaxis]
    device = np.repeat(np.arange(n_devices), store.size)
    cell = device * n_classes + np.asarray(labels)[store.items[held]]
    return np.bincount(cell, minlength=n_devices * n_classes).reshape(n_devices, n_classes).astype(np.int64)


def rank_in_class(y: Ints) -> Ints:
    """How many earlier samples have the same label.

    >>> rank_in_class(np.array([3, 1, 3, 3, 1])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(y, kind="stable")
    first = np.searchsorted(y[order], y[order])  # where the class begins
    rank = np.empty_like(y)
    rank[order] = np.arange(len(y)) - first
    return rank
