"""Devices that see the same world differently: turned images, other colours, noise, each to a degree that it draws.

Training samples are changed as their device sees them. Test samples are dealt to devices, or belong to the device
of their owner, and are changed in the same way. Numbers stay within the range that the training samples had.
"""

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput
from ..rng import SETUP, stream
from ..types import Ints
from .datasets import Dataset
from .partition import partition
from .settings import DataConfig
from .skews import device_of_owner

Images = NDArray[np.float32]


def devices_of_test(settings: DataConfig, dataset: Dataset, n_devices: int, seed: int) -> Ints | None:
    """The device of each test sample, `[n_test]`, -1 if no device has its owner; None if no device has test samples."""
    if settings.partition == "given" and dataset.owners is not None and dataset.test_owners is not None:
        return device_of_owner(int(dataset.owners.max()) + 1, n_devices, seed)[dataset.test_owners]
    if not _changes(settings):
        return None
    return stream(seed, SETUP, "test devices").permutation(np.arange(len(dataset.x_test)) % n_devices)


def skewed(settings: DataConfig, dataset: Dataset, n_devices: int, seed: int) -> Dataset:
    """The data set as devices see it; unchanged if the settings ask for no feature skew."""
    if not _changes(settings):
        return dataset
    if dataset.x_train.ndim != 4 and (settings.rotation_deg or settings.colour):
        key = "rotation_deg" if settings.rotation_deg else "colour"
        what = f"data.{key} = {getattr(settings, key):g} changes images and samples of {dataset.name!r} have shape"
        raise BadInput(f"{what} {dataset.x_train.shape[1:]}: use data.noise, or images [channels, height, width]")
    if dataset.task == "next-token":
        raise BadInput(f"data.noise = {settings.noise:g} would change the tokens of {dataset.name!r}: drop it")
    low, high = float(dataset.x_train.min()), float(dataset.x_train.max())
    store = partition(settings, dataset.y_train, n_devices, dataset.n_classes, seed, dataset.owners)
    whose = devices_of_test(settings, dataset, n_devices, seed)
    assert whose is not None
    tested = [np.flatnonzero(whose == device) for device in range(n_devices)]
    trained = [store.items[device, : store.size[device]] for device in range(n_devices)]
    changed = []
    for x, rows, part in ((dataset.x_train, trained, "train"), (dataset.x_test, tested, "test")):
        out = x.copy()
        for device, index in enumerate(rows):
            order = np.sort(index)  # noise does not depend on the order in a store
            out[order] = np.clip(seen(settings, x[order], device, seed, part), low, high)
        changed.append(out)
    return dataset._replace(x_train=changed[0], x_test=changed[1])


def seen(settings: DataConfig, x: Images, device: int, seed: int, part: str) -> Images:
    """Samples as one device sees them, by the angle, colour gains and noise level that it draws once."""
    rng = stream(seed, SETUP, f"feature skew {device}")
    angle, deviation = rng.uniform(-1, 1) * settings.rotation_deg, rng.uniform() * settings.noise
    gains = np.asarray(1 + settings.colour * rng.uniform(-1, 1, x.shape[1]), dtype=np.float32)
    if settings.rotation_deg and len(x):
        from scipy import ndimage  # takes time to load

        x = ndimage.rotate(x, angle, axes=(3, 2), reshape=False, order=1, mode="nearest")
    if settings.colour:
        x = x * gains[:, None, None]
    if settings.noise:
        noise = stream(seed, SETUP, f"feature noise {part} {device}").standard_normal(x.shape, dtype=np.float32)
        x = x + np.float32(deviation) * noise
    return x


def _changes(settings: DataConfig) -> bool:
    return bool(settings.rotation_deg or settings.noise or settings.colour)
