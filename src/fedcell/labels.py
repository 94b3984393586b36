"""Count the labels that devices hold, and rank samples that share a label."""

import numpy as np
from numpy.typing import NDArray

from .types import Ints, Store, Tally

MANY = 100_000  # labels


def histogram(store: Store, labels: Ints, n_classes: int) -> Ints:
    """Samples of each class on each device, `[n_devices, n_classes]`.

    >>> store = Store(np.array([[0, 2], [1, 0]]), np.array([2, 1]))
    >>> histogram(store, np.array([0, 1, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    if isinstance(store, Tally):
        return store.items.copy()
    n_devices, capacity = store.items.shape
    narrow = _narrow(np.asarray(labels))
    first = n_classes * np.arange(n_devices)[:, np.newaxis]  # cell of class 0
    if (store.size == capacity).all():
        cell = (first + narrow[store.items]).ravel()
    else:
        held = np.arange(capacity) < store.size[:, np.newaxis]
        cell = np.repeat(first.ravel(), store.size) + narrow[store.items[held]]
    return np.bincount(cell, minlength=n_devices * n_classes).reshape(n_devices, n_classes).astype(np.int64)


def _narrow(labels: Ints) -> NDArray[np.integer]:
    """Return many labels in a smaller integer type, so that more of them fit into the cache; few labels as they are."""
    if len(labels) < MANY or labels.min() < 0:
        return labels
    return labels.astype(np.min_scalar_type(int(labels.max())))


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
