"""Data sets of PyTorch: anything with a length whose items are a sample and its label."""

from typing import Any

import numpy as np

from ..arguments import kind_of
from ..errors import BadInput, in_short
from .checks import as_array
from .datasets import Dataset, from_arrays


def from_torch(train: Any, test: Any, *, name: str = "torch", owners: Any = None, test_owners: Any = None) -> Dataset:
    """A data set from two map-style PyTorch data sets, such as those of torchvision; all samples are read into memory.

    Args:
        train: `len(train)` samples; `train[i]` is a pair of a sample (tensor, array or image) and its label. Whatever
            transforms it has are applied once, here: random ones do not vary from round to round.
        test: as `train`, to test on.
        name: what messages call the data.
        owners: as of `from_arrays`.
        test_owners: as of `from_arrays`.
    """
    known, asked = _read(train, "train", name), _read(test, "test", name)
    return from_arrays(*known, *asked, name=name, owners=owners, test_owners=test_owners)


def _read(half: Any, what: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    """All samples and labels of one data set."""
    if half is None:
        raise BadInput(f"{name!r} has no {what} split: give a data set to {what} on, such as torch.utils.data.Subset")
    if not hasattr(half, "__len__") or not hasattr(half, "__getitem__"):
        raise BadInput(f"the {what} split of {name!r} is {kind_of(half)}: give one with a length and items")
    if not len(half):
        raise BadInput(f"the {what} split of {name!r} is empty: give at least one sample")
    pairs = []
    for place in range(len(half)):
        try:
            item = half[place]
        except Exception as error:  # whatever the code of a user raises
            broken = f"item {place} of the {what} split of {name!r} cannot be read ({in_short(error)})"
            raise BadInput(f"{broken}: correct the data set or its transforms") from error
        if not isinstance(item, tuple | list) or len(item) != 2:
            found = kind_of(item)
            raise BadInput(f"item {place} of the {what} split of {name!r} is {found}: let it be (sample, label)")
        pairs.append(item)
    try:
        x, y = ([as_array(pair[n], f"an item of the {what} split of {name!r}") for pair in pairs] for n in (0, 1))
        return np.stack(x), np.stack(y)
    except ValueError as error:
        what = f"the {what} split of {name!r} has samples of different shapes ({error})"
        raise BadInput(f"{what}: bring all to one shape with a transform") from None
