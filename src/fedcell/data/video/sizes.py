"""Sizes of files: drawn by a law, or read from a table."""

from math import isfinite

import numpy as np

from ...errors import BadInput
from ...rng import SETUP, stream
from ...tables import read_rows
from ...types import Floats
from .settings import VideoConfig

COLUMN = "bits"


def file_bits(settings: VideoConfig, seed: int) -> Floats:
    """The bits of every file, `[n_files]`.

    Args:
        settings: the law, or the table that replaces it.
        seed: of the run.
    """
    if settings.file_sizes:
        return read_sizes(settings.file_sizes, settings.n_files)
    return settings.file_bit.draw(stream(seed, SETUP, "video.file_bit"), settings.n_files)


def read_sizes(path: str, n_files: int) -> Floats:
    """Sizes from a CSV file: one number per line, file 0 first; a first line `bits` is a heading. Sizes beyond
    the last file are not used.

    Raises BadInput, with the file and the line, for anything that is no size, and if there are fewer sizes than files.
    """
    rows = read_rows(path, "video.file_sizes", COLUMN)
    headed = bool(rows) and rows[0][1] == [COLUMN]
    sizes = [_size(path, line, cells) for line, cells in rows[headed:]]
    if len(sizes) < n_files:
        raise BadInput(
            f"video.file_sizes = {path!r} has sizes of {len(sizes)} files and the catalogue has {n_files}: give one "
            "for each"
        )
    return np.array(sizes[:n_files])


def _size(path: str, line: int, cells: list[str]) -> float:
    try:
        (text,) = cells
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value) or value <= 0:
        what = f"video.file_sizes = {path!r} line {line}: {','.join(cells)!r} is no size"
        raise BadInput(f"{what}: write one number of bits above 0")
    return value
