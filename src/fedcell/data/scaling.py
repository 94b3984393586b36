"""How inputs are scaled before training: left as they are, to [-1, 1], or to mean 0 and deviation 1.

Every scaling is `(x - shift) / scale` with numbers found on the training samples alone. Test samples and the samples of
deployed devices are scaled with the same numbers.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput, choose_one
from ..types import Floats
from .checks import BLOCK

if TYPE_CHECKING:
    from .datasets import Dataset

SCALINGS = ("unit", "half", "standard")
KEY = "data.scaling"


class Scaling(NamedTuple):
    """`(x - shift) / scale`: one number of each per channel or feature, or one for all."""

    kind: str
    shift: Floats  # [n_groups], or [1] for all alike
    scale: Floats  # as `shift`

    def record(self) -> dict[str, Any]:
        """Plain values for JSON; nothing if samples were left as they are."""
        if self.kind == "unit":
            return {}
        return {"kind": self.kind, "shift": self.shift.tolist(), "scale": self.scale.tolist()}


UNIT = Scaling("unit", np.zeros(1), np.ones(1))
HALF = Scaling("half", np.full(1, 0.5), np.full(1, 0.5))


def scaled(dataset: "Dataset", kind: str, *, reuse: bool = False) -> "Dataset":
    """A data set scaled by the statistics of its training samples; one that is scaled so already, as it is.

    Args:
        dataset: samples as they were loaded.
        kind: one of `SCALINGS`.
        reuse: write into the arrays of `dataset`, which nobody else may hold, instead of into a copy.
    """
    if dataset.scaling.kind == kind:
        return dataset
    if dataset.scaling.kind != "unit":
        raise BadInput(
            f"data set {dataset.name!r} is scaled already ({dataset.scaling.kind}) but {KEY} = {kind!r}: "
            f"give it as it was loaded, or set {KEY} = {dataset.scaling.kind}"
        )
    train, test = (f"{part} of {dataset.name!r}" for part in ("x_train", "x_test"))
    found = fit(kind, dataset.x_train, train)
    return dataset._replace(
        x_train=apply(found, dataset.x_train, train, reuse=reuse),
        x_test=apply(found, dataset.x_test, test, reuse=reuse),
        scaling=found,
    )


def fit(kind: str, x: NDArray[np.float32], what: str, key: str = KEY) -> Scaling:
    """The scaling of a kind for training samples.

    `standard` takes the mean and the standard deviation (of the population, in float64) of every feature of vectors
    `[n, features]`, of every channel of images `[n, channels, ...]`, and of all numbers together of samples
    `[n, length, width]`, whose axes could mean anything.

    Args:
        kind: one of `SCALINGS`.
        x: training samples, `[n, ...]`.
        what: what messages call them.
        key: the setting that messages name.

    >>> fit("standard", np.array([[0, 1], [2, 5]], np.float32), "x")
    Scaling(kind='standard', shift=array([1., 3.]), scale=array([1., 2.]))
    """
    if kind not in SCALINGS:
        raise BadInput(f"{key} = {kind!r} is unknown{choose_one(kind, list(SCALINGS))}")
    if kind != "standard":
        return {"unit": UNIT, "half": HALF}[kind]
    mean, deviation = _moments(x)
    _refuse_constant(mean, np.flatnonzero(deviation == 0), x, what, key)
    return Scaling(kind, mean, deviation)


def apply(
    scaling: Scaling, x: NDArray[np.float32], what: str, key: str = KEY, *, reuse: bool = False
) -> NDArray[np.float32]:
    """Scaled samples; computed in float64, a few samples at a time.

    Args:
        scaling: as `fit` found it.
        x: samples, `[n, ...]`.
        what: what messages call them.
        key: the setting that messages name.
        reuse: write into `x` itself.
    """
    if scaling.kind == "unit":
        return x
    _check_fits(scaling, x, what, key)
    out = x if reuse else np.empty_like(x)
    shift, scale = _wide(scaling.shift, x), _wide(scaling.scale, x)
    try:
        with np.errstate(over="raise"):
            for part in _blocks(x):
                out[part] = (x[part] - shift) / scale
    except FloatingPointError:
        raise BadInput(
            f"{what} holds numbers too far from the training samples for {key} = {scaling.kind!r}: remove them"
        ) from None
    return out


def _moments(x: NDArray[np.float32]) -> tuple[Floats, Floats]:
    """Mean and standard deviation of every group; the deviation of a constant is 0 and its mean exact."""
    groups, axes = _groups(x.shape), (0, 1, 2) if x.ndim == 3 else (0, *range(2, x.ndim))

    def mean_of(values: Callable[[slice], Floats]) -> Floats:
        total = sum((values(part).sum(axis=axes) for part in _blocks(x)), np.zeros(()))
        return np.reshape(total * (groups / x.size), groups)

    first = x[0].reshape(x.shape[1], -1)[:groups, 0].astype(np.float64)  # differences to it are 0 for a constant
    mean = first + mean_of(lambda part: x[part] - _wide(first, x))
    return mean, np.sqrt(mean_of(lambda part: (x[part] - _wide(mean, x)) ** 2))


def _groups(shape: tuple[int, ...]) -> int:
    """How many numbers `standard` needs: one per feature or channel, or one for all."""
    return 1 if len(shape) == 3 else shape[1]


def _wide(values: Floats, x: NDArray[np.float32]) -> Floats:
    """Numbers per group, shaped so that they meet the second axis of samples."""
    return values.reshape(-1, *[1] * (x.ndim - 2))


def _blocks(x: NDArray[np.float32]) -> Iterator[slice]:
    """Slices of samples to process one by one: a float64 copy of a whole data set may not fit in memory."""
    size = max(1, BLOCK * len(x) // max(x.size, 1))
    return (slice(start, start + size) for start in range(0, len(x), size))


def _check_fits(scaling: Scaling, x: NDArray[np.float32], what: str, key: str) -> None:
    if scaling.kind == "standard" and len(scaling.shift) != _groups(x.shape):
        raise BadInput(
            f"{what} has samples of shape {x.shape[1:]}, which {key} = 'standard' with {len(scaling.shift)} means does "
            "not fit: shape them as the training samples are"
        )
    if scaling.kind == "half" and x.size and not 0 <= x.min() <= x.max() <= 1:
        raise BadInput(
            f"{what} goes from {x.min():g} to {x.max():g} but {key} = 'half' takes numbers in [0, 1]: bring them "
            f"there, or use {key} = standard or unit"
        )


def _refuse_constant(mean: Floats, constant: NDArray[np.intp], x: NDArray[np.float32], what: str, key: str) -> None:
    if not constant.size:
        return
    place, unit = int(constant[0]), "feature" if x.ndim == 2 else "channel"
    which = what if x.ndim == 3 else f"{unit} {place} of {what}"
    others = f" (as are {constant.size - 1} others of {len(mean)})" if constant.size > 1 else ""
    drop = "" if x.ndim == 3 else f"leave out every constant {unit}, "
    images = "give images as [n, channels, height, width], " if x.ndim == 2 else ""
    raise BadInput(
        f"{which} is {mean[place]:g} in every sample{others}, so that {key} = 'standard' has no deviation to divide "
        f"by: {drop}{images}or use {key} = unit or half".replace(": or use", ": use")
    )
