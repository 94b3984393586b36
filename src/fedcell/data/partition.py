"""How training samples are split over devices.

Every rule gives each sample an owner; a sample has one owner or none, so stores never overlap. Rules
depend on the labels, the settings and the seed alone.
"""

from collections.abc import Callable

import numpy as np

from ..errors import BadInput
from ..options import check
from ..rng import SETUP, stream
from ..types import Ints, Store
from .settings import DataConfig
from .skews import NOBODY, dirichlet_device, given, quantity

BY_LABEL = ("dirichlet", "shards", "classes", "dirichlet-device")  # rules that look at class labels


def partition(
    settings: DataConfig, labels: Ints, n_devices: int, n_classes: int, seed: int, owners: Ints | None = None
) -> Store:
    """Split the training samples as `settings.partition` says.

    - `iid`: near-equal random parts; all samples.
    - `dirichlet`: each class is cut over devices in proportions drawn from a symmetric Dirichlet law with
      concentration `alpha`; all samples. A device left empty is then given one random sample of the
      device that has most at that moment, so that every device holds at least one.
    - `shards`: classes are cut into `shards_per_device * n_devices` near-equal shards of one label, dealt
      at random; all samples, if there are at least as many shards as classes.
    - `classes`: `classes_per_device` different classes on each device, held by near-equally many devices,
      each class divided near-equally among its holders; all samples of the classes that are held.
    - `counts`: `counts[k]` random samples on device `k`.
    - `dirichlet-device`: near-equal random sizes; each device draws the shares of its labels from a Dirichlet law
      around those of the data, with concentration `alpha`; all samples.
    - `quantity`: sizes by the law `sizes`, labels at random; all samples.
    - `given`: all samples of an owner on a device of its own; if there are more owners than devices, owners are drawn.

    Args:
        settings: The rule and its numbers.
        labels: Labels of the training samples, `[n_samples]`.
        n_devices: Devices to serve.
        n_classes: Number of classes.
        seed: Of the run.
        owners: Owner of each sample, `[n_samples]`, for `given`.

    Returns:
        The store of each device, in random order.

    Reference: chen-ch3, simulation settings (shards).
    """
    check(settings, "data.")
    if settings.partition != "counts" and n_devices > len(labels):
        raise BadInput(
            f"world.n_devices = {n_devices} but the data has {len(labels)} training samples: "
            f"lower it to at most {len(labels)} (fedcell plan --samples N goes further)"
        )
    rng = stream(seed, SETUP, "partition")
    if settings.partition == "given":
        owner = given(owners, n_devices, seed)
    else:
        owner = RULES[settings.partition](settings, labels, n_devices, n_classes, rng)
    return _store(owner, n_devices, rng)


def _store(owner: Ints, n_devices: int, rng: np.random.Generator) -> Store:
    """The samples of each owner as padded rows, shuffled so that a prefix of a row is a fair draw."""
    order = rng.permutation(np.flatnonzero(owner != NOBODY))
    order = order[np.argsort(owner[order], kind="stable")]
    size = np.bincount(owner[order], minlength=n_devices).astype(np.int64)
    index = np.zeros((n_devices, max(1, int(size.max()))), dtype=np.int64)
    index[np.arange(index.shape[1]) < size[:, np.newaxis]] = order
    return Store(index, size)


def _near_equal(n_samples: int, n_parts: int) -> Ints:
    """The part of each of `n_samples` in a row; part sizes differ by one at most."""
    return np.arange(n_samples) * n_parts // max(n_samples, 1)


def _iid(settings: DataConfig, labels: Ints, n_devices: int, n_classes: int, rng: np.random.Generator) -> Ints:
    return rng.permutation(_near_equal(len(labels), n_devices))


def _dirichlet(settings: DataConfig, labels: Ints, n_devices: int, n_classes: int, rng: np.random.Generator) -> Ints:
    owner = np.full(len(labels), NOBODY, dtype=np.int64)
    for label in range(n_classes):
        share = rng.dirichlet(np.full(n_devices, settings.alpha))
        if not np.isclose(share.sum(), 1):
            raise BadInput(f"data.alpha = {settings.alpha:g} is too large to draw with: use data.partition = iid")
        samples = rng.permutation(np.flatnonzero(labels == label))
        cuts = np.rint(np.cumsum(share) * len(samples))[:-1]  # rounding keeps every sample: the last cut is implied
        owner[samples] = np.searchsorted(cuts, np.arange(len(samples)), side="right")
    return _feed_empty(owner, n_devices, rng)


def _feed_empty(owner: Ints, n_devices: int, rng: np.random.Generator) -> Ints:
    """Give each empty device one random sample of the device that has most at that moment."""
    size = np.bincount(owner, minlength=n_devices)
    for device in np.flatnonzero(size == 0):
        rich = size.argmax()
        owner[rng.choice(np.flatnonzero(owner == rich))] = device
        size[rich] -= 1
        size[device] += 1
    return owner


def _shards(settings: DataConfig, labels: Ints, n_devices: int, n_classes: int, rng: np.random.Generator) -> Ints:
    n_shards = settings.shards_per_device * n_devices
    if n_shards > len(labels):
        raise BadInput(
            f"data.shards_per_device = {settings.shards_per_device} on {n_devices} devices asks for {n_shards} shards "
            f"of {len(labels)} samples: lower it to at most {len(labels) // n_devices}"
        )
    of_class = _shards_of_class(np.bincount(labels, minlength=n_classes), n_shards, rng)
    dealt = rng.permutation(np.repeat(np.arange(n_devices), settings.shards_per_device))
    owner = np.full(len(labels), NOBODY, dtype=np.int64)
    first = np.cumsum(of_class) - of_class
    for label in np.flatnonzero(of_class):
        samples = rng.permutation(np.flatnonzero(labels == label))
        owner[samples] = dealt[first[label] + _near_equal(len(samples), of_class[label])]
    return owner


def _shards_of_class(size: Ints, n_shards: int, rng: np.random.Generator) -> Ints:
    """How many shards each class is cut into, `n_shards` in all.

    The same number for each class if it divides evenly and each class has that many samples, otherwise in
    proportion to the class (largest remainders, ties at random) with at least one each as far as they go.
    """
    equal, rest = divmod(n_shards, len(size))
    if rest == 0 and equal <= size.min():
        return np.full(len(size), equal, dtype=np.int64)
    exact = size * n_shards / size.sum()
    out: Ints = np.floor(exact).astype(np.int64)
    by_remainder = np.lexsort((rng.random(len(size)), out - exact))
    out[by_remainder[: n_shards - out.sum()]] += 1
    for label in np.flatnonzero((out == 0) & (size > 0)):
        if out.max() > 1:
            out[out.argmax()] -= 1
            out[label] = 1
    return out


def _classes(settings: DataConfig, labels: Ints, n_devices: int, n_classes: int, rng: np.random.Generator) -> Ints:
    size = np.bincount(labels, minlength=n_classes)
    present = np.flatnonzero(size)
    holders = _deal_classes(settings.classes_per_device, present, n_devices, rng)
    owner = np.full(len(labels), NOBODY, dtype=np.int64)
    for label, devices in zip(present, holders, strict=True):
        if len(devices) > size[label]:
            raise BadInput(
                f"data.classes_per_device = {settings.classes_per_device} on {n_devices} devices gives class {label} "
                f"{len(devices)} holders for {size[label]} samples: lower it, or world.n_devices"
            )
        if len(devices):
            samples = rng.permutation(np.flatnonzero(labels == label))
            owner[samples] = devices[_near_equal(len(samples), len(devices))]
    return owner


def _deal_classes(each: int, present: Ints, n_devices: int, rng: np.random.Generator) -> list[Ints]:
    """The holders of each class: every device takes the classes held least so far, ties at random."""
    if each > len(present):
        raise BadInput(
            f"data.classes_per_device = {each} but the training data has {len(present)} classes: "
            f"lower it to at most {len(present)}"
        )
    holds = np.zeros((n_devices, len(present)), dtype=np.bool_)
    n_holders = np.zeros(len(present), dtype=np.int64)
    for row in holds:
        row[np.lexsort((rng.random(len(present)), n_holders))[:each]] = True
        n_holders += row
    return [np.flatnonzero(column) for column in holds.T]


def _counts(settings: DataConfig, labels: Ints, n_devices: int, n_classes: int, rng: np.random.Generator) -> Ints:
    counts = np.asarray(settings.counts, dtype=np.int64)
    if len(counts) != n_devices:
        raise BadInput(f"data.counts has {len(counts)} numbers for {n_devices} devices: give one for each device")
    if counts.sum() > len(labels):
        raise BadInput(
            f"data.counts adds up to {counts.sum()} but the data has {len(labels)} training samples: lower it"
        )
    owner = np.full(len(labels), NOBODY, dtype=np.int64)
    owner[rng.permutation(len(labels))[: counts.sum()]] = np.repeat(np.arange(n_devices), counts)
    return owner


Rule = Callable[[DataConfig, Ints, int, int, np.random.Generator], Ints]
RULES: dict[str, Rule] = {
    "iid": _iid,
    "dirichlet": _dirichlet,
    "shards": _shards,
    "classes": _classes,
    "counts": _counts,
    "dirichlet-device": dirichlet_device,
    "quantity": quantity,
}
