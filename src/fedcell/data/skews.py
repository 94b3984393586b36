"""Further ways to split samples over devices: by owners, by size, and by a mix of labels that each device draws."""

import numpy as np

from ..errors import BadInput
from ..rng import SETUP, stream
from ..types import Floats, Ints
from .settings import DataConfig

NOBODY = -1


def given(owners: Ints | None, n_devices: int, seed: int) -> Ints:
    """The device of each sample, `[n_samples]`, by its owner; -1 if no device has that owner.

    With as many devices as owners, device `k` has owner `k`; with fewer, owners are drawn.
    """
    if owners is None:
        raise BadInput(
            "data.partition = 'given' needs an owner of each sample: use fedcell.from_arrays(owners=...), an "
            ".npz file with an array owners, leaf:FOLDER or hf:NAME#label,owner=COLUMN"
        )
    return device_of_owner(int(owners.max()) + 1, n_devices, seed)[owners]


def device_of_owner(n_owners: int, n_devices: int, seed: int) -> Ints:
    """The device of each owner, `[n_owners]`; -1 for owners that were not drawn."""
    if n_devices > n_owners:
        raise BadInput(
            f"world.n_devices = {n_devices} but the data has {n_owners} owners: lower it to at most {n_owners}"
        )
    drawn = np.arange(n_owners)
    if n_devices < n_owners:
        drawn = np.sort(stream(seed, SETUP, "owners").choice(n_owners, n_devices, replace=False))
    found = np.full(n_owners, NOBODY, dtype=np.int64)
    found[drawn] = np.arange(n_devices)
    return found


def quantity(settings: DataConfig, labels: Ints, n_devices: int, n_classes: int, rng: np.random.Generator) -> Ints:
    """Sizes by a law, labels at random: all samples, at least one on each device."""
    size = sizes(law(settings, n_devices, rng), len(labels))
    return rng.permutation(np.repeat(np.arange(n_devices), size))


def law(settings: DataConfig, n_devices: int, rng: np.random.Generator) -> Floats:
    """Relative sizes of the devices, `[n_devices]`.

    `lognormal`: `exp(skew * z)` with standard normal `z`; `power`: `rank ** -skew`, ranks dealt at random; `dirichlet`:
    shares of a symmetric Dirichlet law with concentration `alpha`.
    """
    if settings.sizes == "lognormal":
        draws = settings.skew * rng.standard_normal(n_devices)
        return np.exp(draws - draws.max())
    if settings.sizes == "power":
        return rng.permutation(np.arange(1, n_devices + 1, dtype=np.float64) ** -settings.skew)
    return rng.dirichlet(np.full(n_devices, settings.alpha))


def sizes(weight: Floats, n_samples: int) -> Ints:
    """Whole numbers in proportion to weights, at least 1 each, that add up to `n_samples` (largest remainders).

    >>> sizes(np.array([1.0, 1.0, 2.0]), 11).tolist()
    [3, 3, 5]
    """
    total = weight.sum()
    exact = (n_samples - len(weight)) * (weight / total if total > 0 else np.full(len(weight), 1 / len(weight)))
    found: Ints = np.floor(exact).astype(np.int64)
    most = np.argsort(found - exact, kind="stable")
    found[most[: n_samples - len(weight) - found.sum()]] += 1
    return found + 1


def dirichlet_device(
    settings: DataConfig, labels: Ints, n_devices: int, n_classes: int, rng: np.random.Generator
) -> Ints:
    """Near-equal sizes; each device draws the shares of its labels from a Dirichlet law around those of the data.

    Devices draw one after the other, in random order, without replacement: once the samples of a class are used up,
    the shares of the others grow.

    Reference: Hsu, Qi, Brown, Measuring the Effects of Non-Identical Data Distribution, 2019.
    """
    pools = [rng.permutation(np.flatnonzero(labels == label)) for label in range(n_classes)]
    left = np.array([len(pool) for pool in pools])
    prior = left / left.sum()
    owner = np.full(len(labels), NOBODY, dtype=np.int64)
    quota = np.bincount(np.arange(len(labels)) * n_devices // len(labels), minlength=n_devices)
    for device in rng.permutation(n_devices):
        share = np.zeros(n_classes)
        share[prior > 0] = rng.dirichlet(np.maximum(settings.alpha * n_classes * prior[prior > 0], 1e-12))
        taken = take(share, left, int(quota[device]), rng)
        for label in np.flatnonzero(taken):
            end = left[label]
            owner[pools[label][end - taken[label] : end]] = device
        left = left - taken
    return owner


def take(share: Floats, left: Ints, wanted: int, rng: np.random.Generator) -> Ints:
    """How many of each class to take, `wanted` in all and no more than are left, near the shares."""
    taken = np.zeros(len(left), dtype=np.int64)
    while (missing := wanted - int(taken.sum())) > 0:
        weight = np.where(taken < left, share, 0.0)
        if weight.sum() <= 0:  # nothing is left of the classes that it has shares of
            weight = (left - taken).astype(np.float64)
        taken = np.minimum(left, taken + rng.multinomial(missing, weight / weight.sum()))
    return taken
