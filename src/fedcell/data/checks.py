"""Turn a user's arrays into samples and labels, or say in one sentence what is wrong with them."""

from typing import Any
from warnings import warn

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput, Notice
from ..types import Ints

CHANNELS = (1, 3, 4)
BLOCK = 1 << 18  # numbers that are processed together, so that they stay in the cache of a core


def as_array(values: Any, what: str) -> NDArray[Any]:
    """A NumPy array of an array, a nested list or a PyTorch tensor, on whatever device it is."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    try:
        return np.asarray(values)
    except ValueError as error:
        raise BadInput(f"{what} is no array ({error}): give every sample as many numbers") from None


def features(values: Any, what: str) -> NDArray[np.float32]:
    """Samples as float32: bytes scaled to [0, 1] and images channels first, other numbers as they are.

    Warns of numbers that look like images with their channels last, which are left so.
    """
    x = as_array(values, what)
    if x.dtype.kind not in "biuf":
        raise BadInput(f"{what} holds {x.dtype} values: give numbers")
    if x.ndim < 2 or 0 in x.shape:
        raise BadInput(f"{what} has shape {x.shape}: give at least one sample, as a row of at least one number")
    if x.dtype == np.uint8:
        return np.divide(_channels_first(x), 255, dtype=np.float32)
    if _channels_last(x):
        warn(
            f"{what} has samples of shape {x.shape[1:]}, whose channels seem to be last: networks take them first, so "
            "give x.transpose(0, 3, 1, 2), or bytes (uint8), which are turned around",
            Notice,
            stacklevel=3,
        )
    with np.errstate(over="ignore"):
        out = np.ascontiguousarray(x, dtype=np.float32)
    _check_finite(x, out, what)
    return out


def _check_finite(given: NDArray[Any], x: NDArray[np.float32], what: str) -> None:
    """Refuse values that are not finite; looks at some samples at a time, since a data set can be half the memory."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(x.sum()):  # a single one would show; a sum that overflows says nothing
            return
    size = max(1, BLOCK * len(x) // x.size)
    for first in range(0, len(x), size):
        finite = np.isfinite(x[first : first + size])
        if not finite.all():
            row, *rest = (int(axis[0]) for axis in np.nonzero(~finite))
            place = (first + row, *rest)
            value = given[place]
            raise BadInput(f"{what} holds {value} at {list(place)}: remove or replace values that are not finite")


def _channels_first(x: NDArray[np.uint8]) -> NDArray[np.uint8]:
    if x.ndim == 3:  # [n, h, w]
        return x[:, np.newaxis]
    if _channels_last(x):
        return np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    return x


def _channels_last(x: NDArray[Any]) -> bool:
    """Whether samples look like images `[n, h, w, channels]`."""
    return x.ndim == 4 and x.shape[3] in CHANNELS and x.shape[1] not in CHANNELS


def owners(values: Any, n_samples: int, what: str) -> Ints:
    """The owner of each sample, int64 `[n_samples]`: texts are numbered in sorted order, numbers count from 0.

    >>> owners(["eve", "ada", "eve"], 3, "owners").tolist()
    [1, 0, 1]
    """
    given = as_array(values, what)
    if given.shape != (n_samples,):
        raise BadInput(f"{what} has shape {given.shape} for {n_samples} samples: give one owner for each sample")
    if given.dtype.kind == "O" and all(isinstance(one, str) for one in given):  # as pandas has texts
        given = given.astype(str)
    if given.dtype.kind in "US":
        return np.unique(given, return_inverse=True)[1].astype(np.int64)
    whole = given.dtype.kind in "biuf"
    if not whole or (wrong := np.flatnonzero((given < 0) | (given % 1 != 0))).size:
        value = f"{given[wrong[0]]} at {wrong[0]}" if whole else f"{given.dtype} values"
        raise BadInput(f"{what} holds {value}: give texts, or whole numbers 0, 1, 2, ...")
    few = np.minimum(given, np.int64(n_samples)).astype(np.int64)  # a larger number leaves a gap below
    if n_samples and (missing := np.flatnonzero(np.bincount(few) == 0)).size:
        raise BadInput(
            f"{what} goes up to {given.max():.15g} and owner {missing[0]} has no samples: number owners 0, 1, 2, ... "
            "without gaps, or give their names as texts"
        )
    return few


def labels(values: Any, what: str) -> Ints:
    """Labels as int64 `[n]`; a column `[n, 1]` is flattened, whole floating-point numbers are taken."""
    y = as_array(values, what)
    if y.dtype.kind not in "biuf":
        raise BadInput(f"{what} holds {y.dtype} values: number the classes 0, 1, 2, ...")
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise BadInput(
            f"{what} has shape {y.shape}: give one label per sample, as argmax(axis=1) makes of one-hot rows"
        )
    with np.errstate(invalid="ignore"):
        out = y.astype(np.int64)
    if (wrong := np.flatnonzero((out != y) | (out < 0))).size:
        raise BadInput(
            f"{what} holds {y[wrong[0]]} at {wrong[0]}: labels are whole numbers 0, 1, 2, ...; "
            "number the classes so and remove unlabelled samples"
        )
    return out


def check_pair(x: NDArray[np.float32], y: NDArray[Any], part: str, name: str) -> None:
    """Raise BadInput unless there is one label per sample."""
    if len(x) != len(y):
        raise BadInput(
            f"x_{part} of {name!r} has {len(x)} samples but y_{part} has {len(y)} labels: give one label each"
        )


def check_labels(train: Ints, test: Ints, name: str) -> int:
    """The number of classes, or BadInput for labels that cannot be learned."""
    n_classes = int(train.max()) + 1
    if n_classes > len(train):
        raise BadInput(
            f"y_train of {name!r} holds label {n_classes - 1} with only {len(train)} samples: "
            "number the classes 0, 1, 2, ... without large gaps"
        )
    if train.min() > 0:
        warn(
            f"y_train of {name!r} has labels from {train.min()} to {n_classes - 1} and none is 0: networks get an "
            "output for each class from 0 on, so subtract the smallest label",
            Notice,
            stacklevel=3,
        )
    trained = np.bincount(train) > 0  # set functions of NumPy take as long to load as most data to check
    if (unknown := test[(test >= n_classes) | ~trained[np.minimum(test, n_classes - 1)]]).size:
        raise BadInput(
            f"y_test of {name!r} holds label {unknown.min()}, which y_train does not: "
            "add training samples of that class or drop it from the test set"
        )
    return n_classes
