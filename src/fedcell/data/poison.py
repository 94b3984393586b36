"""Flip the labels that attackers train on."""

import numpy as np

from ..types import Bools
from .datasets import Dataset
from .partition import partition
from .settings import DataConfig
from .targets import Targets


def flipped_labels(settings: DataConfig, dataset: Dataset, attacker: Bools, seed: int) -> Targets:
    """Training labels `[n_train]` with `n_classes - 1 - c` for `c` if an attacker holds the sample."""
    n_devices = len(attacker)
    store = partition(settings, dataset.y_train, n_devices, dataset.n_classes, seed, dataset.owners)
    held = np.arange(store.items.shape[1]) < store.size[:, None]  # [n_devices, capacity]
    wrong = store.items[held & attacker[:, None]]
    labels = dataset.y_train.copy()
    labels[wrong] = dataset.n_classes - 1 - labels[wrong]
    return labels
