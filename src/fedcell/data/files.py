"""Save a user's own data set as a file, so that other processes and machines can load it."""

import os
import re
from hashlib import sha256
from pathlib import Path

import numpy as np

from ..errors import BadInput
from .datasets import Dataset
from .loading import ARRAYS, OWNERS

SHORT = 8  # characters of a checksum in a file's name


def file_name(dataset: Dataset) -> str:
    """The file name of a data set: its name and a checksum of its arrays."""
    if dataset.scaling.kind != "unit":
        raise BadInput(
            f"data set {dataset.name!r} is scaled already ({dataset.scaling.kind}): give it as it was loaded"
        )
    found = sha256()
    for name, array in _arrays(dataset).items():
        found.update(f"{name} {array.dtype} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    slug = re.sub(r"[^a-z0-9]+", "-", Path(dataset.name).stem.lower()).strip("-")[:30]
    return f"{slug or 'data'}-{found.hexdigest()[:SHORT]}.npz"


def placeless_name(name: str) -> str:
    """Drop the folder of a file that `file_name` named, since its checksum identifies it; keep any other name.

    >>> placeless_name("/home/ada/study/wines-0123abcd.npz"), placeless_name("data/wines.npz")
    ('wines-0123abcd.npz', 'data/wines.npz')
    """
    return Path(name).name if re.search(rf"-[0-9a-f]{{{SHORT}}}\.npz$", name) else name


def save(dataset: Dataset, path: Path) -> None:
    """Write a data set in the format that `load` reads, unless the file exists; it is never left half written."""
    if path.exists():
        return
    partial = path.with_suffix(".tmp")
    with partial.open("wb") as file:
        np.savez(file, **_arrays(dataset))  # type: ignore[arg-type]  # of its other flag
    os.replace(partial, path)


def _arrays(dataset: Dataset) -> dict[str, np.ndarray]:
    return {name: array for name in (*ARRAYS, *OWNERS) if (array := getattr(dataset, name)) is not None}
