"""Data sets in the JSON format of LEAF: folders `train` and `test` of files, each with users and their samples.

A file has `users`, `num_samples` (of each user) and `user_data`, which gives `x` and `y` of each user. Users are the
owners of their samples (`data.partition=given`).

Reference: Caldas et al., LEAF: A Benchmark for Federated Settings, 2018.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BadInput
from .datasets import Dataset, from_arrays


def load(name: str) -> Dataset:
    """The data set of `leaf:FOLDER`; `leaf:FOLDER#1x28x28` gives flat samples this shape."""
    place, _, shape = name.removeprefix("leaf:").partition("#")
    folder = Path(place).expanduser()
    if not folder.is_dir():
        raise BadInput(f"data.name = {name!r} is no folder: give one with the folders train and test of LEAF in it")
    parts = {part: _half(folder / part, name) for part in ("train", "test")}
    arrays: dict[str, Any] = {}
    for part, (x, y, users) in parts.items():
        arrays |= {f"x_{part}": _shaped(x, shape, name), f"y_{part}": y}
        arrays["owners" if part == "train" else "test_owners"] = users
    return from_arrays(**arrays, name=name)


def _half(folder: Path, name: str) -> tuple[list[Any], list[Any], list[str]]:
    """Samples, labels and users of all files of a folder."""
    files = sorted(folder.glob("*.json")) if folder.is_dir() else []
    if not files:
        raise BadInput(f"{name!r} has no {folder.name} split: put its .json files into {folder}")
    x: list[Any] = []
    y: list[Any] = []
    users: list[str] = []
    for path in files:
        for user, samples in _users(path):
            x += samples["x"]
            y += samples["y"]
            users += [user] * len(samples["y"])
    return x, y, users


def _users(path: Path) -> list[tuple[str, dict[str, list[Any]]]]:
    """The users of one file, checked."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        names, counts, samples = values["users"], values["num_samples"], values["user_data"]
        found = [(str(name), samples[name], int(count)) for name, count in zip(names, counts, strict=True)]
        sizes = [(len(one["x"]), len(one["y"])) for _, one, _ in found]
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = f"{path} is no file of LEAF ({type(error).__name__}: {error})"
        raise BadInput(f"{what}: it must have users, num_samples and user_data with x and y of each user") from None
    for (name, _, count), (n_x, n_y) in zip(found, sizes, strict=True):
        if not count or not n_x:
            raise BadInput(f"user {name!r} of {path} has no samples: leave the user out")
        if not count == n_x == n_y:
            raise BadInput(
                f"user {name!r} of {path} has {n_x} x and {n_y} y for num_samples = {count}: correct the file"
            )
    return [(name, one) for name, one, _ in found]


def _shaped(x: list[Any], shape: str, name: str) -> Any:
    try:
        array = np.asarray(x)
    except ValueError:
        raise BadInput(f"{name!r} has samples of different lengths: give all the same length") from None
    if array.dtype.kind not in "biuf":
        raise BadInput(f"{name!r} holds {array.dtype} samples, such as texts: turn them into numbers first")
    if not shape:
        return array
    try:
        return array.reshape(len(array), *(int(size) for size in shape.split("x")))
    except ValueError:
        what = f"{name!r} has samples of shape {array.shape[1:]}, which are no {shape}"
        raise BadInput(f"{what}: write the shape as 1x28x28") from None
