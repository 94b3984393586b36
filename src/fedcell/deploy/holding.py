"""The samples of a device, and its identity."""

import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Context

from ..data import load, partition, skewed
from ..data.partition import BY_LABEL
from ..data.targets import Targets, targets
from ..errors import BadInput
from ..learn.tasks import refuse_without_labels
from ..metrics import CLASSIFICATION
from ..record.files import write_atomic
from ..types import Ints
from .cache import DiskCache
from .settings import read

Data = Callable[[Context, int], tuple[np.ndarray, Any]]  # node and run, round -> samples, labels or targets


class CacheSettings(NamedTuple):
    """How a device caches samples that stream in."""

    capacity: int
    rule: str = "drsr"
    theta: float = 2 / 3


def held(
    data: Data,
    cache: CacheSettings | None,
    context: Context,
    round: int,
    learned: str = CLASSIFICATION,
    run: str = "",
) -> tuple[np.ndarray, Targets]:
    """The samples to train on in a round; a cache is first offered all rounds since the last one, in order.

    Every `run` has a cache of its own.
    """
    if cache is None:
        samples, y = data(context, round)
        whole = learned == CLASSIFICATION
        y = np.asarray(y, dtype=np.int64) if whole else targets(learned, y, "the data of this device")
        return np.ascontiguousarray(samples, dtype=np.float32), y
    refuse_without_labels(learned, "a cache", "leave out cache=")
    folder = state_folder(context, run)
    if folder is None:
        raise BadInput("a cache needs state-dir in the node configuration: name a folder that survives a restart")
    path, seed = folder / "cache.safetensors", device_of(context)
    kept = DiskCache(path, cache.capacity, cache.rule, cache.theta, seed)
    for passed in range(kept.next_round, round + 1):
        samples, labels = data(context, passed)
        kept.offer(passed, np.asarray(samples, dtype=np.float32), np.asarray(labels, dtype=np.int64))
    return kept.contents()


def device_of(context: Context) -> int:
    """The number of this device: `partition-id` of the node configuration, as Flower's own tools set it."""
    number = context.node_config.get("partition-id")
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise BadInput(f"partition-id = {number!r} in the node configuration is no device: give a number from 0")
    return number


def state_folder(context: Context, run: str = "") -> Path | None:
    """Where this device keeps what must survive a restart; None if the node configuration has no `state-dir`.

    Args:
        context: of the device.
        run: name of a run, which has a folder of its own; empty: the folder that all runs share.
    """
    if not re.fullmatch("[0-9a-f]{32}|", run):  # the server sends it
        raise BadInput(f"run = {run[:80]!r} is no name of a run: give 32 hexadecimal digits, or none")
    place = context.node_config.get("state-dir")
    return Path(str(place)).expanduser() / run if place else None


def identity(context: Context) -> str:
    """A random name that a device keeps in its folder, by which the server knows it again after a restart."""
    folder = state_folder(context)
    if folder is None:
        return ""
    path = folder / "identity"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, secrets.token_hex(16).encode())
    return path.read_text()


def counted(labels: Targets, n_classes: int, learned: str = CLASSIFICATION) -> Ints:
    """Count the samples of each label, `[n_classes]`; for tasks without labels count all samples, `[1]`."""
    if learned != CLASSIFICATION:
        return np.array([len(labels)], dtype=np.int64)
    if len(labels) and (labels.min() < 0 or labels.max() >= n_classes):
        raise BadInput(f"labels go from {labels.min()} to {labels.max()} but the server knows {n_classes} classes")
    return np.bincount(labels, minlength=n_classes).astype(np.int64)


def share_of(context: Context, round: int = 0) -> tuple[np.ndarray, Targets]:
    """This device's part of the data set that the run configuration names, not scaled, split as in a simulation."""
    config, device = read(context.run_config).config, device_of(context)
    n_devices = config.world.n_devices
    found = skewed(config.data, load(config.data.name, config.data.task), n_devices, config.seed)
    if config.data.partition in BY_LABEL:
        refuse_without_labels(found.task, f"data.partition = {config.data.partition!r}", "use iid or counts")
    store = partition(config.data, found.y_train, n_devices, found.n_classes, config.seed, found.owners)
    if device >= len(store.size):
        raise BadInput(f"partition-id = {device} but world.n_devices = {len(store.size)}: number devices from 0")
    mine = store.items[device, : store.size[device]]
    return found.x_train[mine], found.y_train[mine]
