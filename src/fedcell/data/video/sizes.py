"""Sizes of files: drawn by a law, or read from a table."""

import csv
from math import isfinite

import numpy as np

from ...errors import BadInput
from ...rng import SETUP, stream
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
    """Sizes from a CSV file: one number per line, file 0 first; a first line `bits` is a heading.

    Raises BadInput, with the file and the line, for anything that is no size, and if there are fewer sizes than files.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = [(number, [cell.strip() for cell in row]) for number, row in enumerate(csv.reader(file), 1)]
    except OSError as error:
        reason = (error.strerror or "unreadable").lower()
        raise BadInput(f"video.file_sizes = {path!r} cannot be read ({reason}): name a CSV file of bits") from None
    except (UnicodeDecodeError, csv.Error):
        raise BadInput(f"video.file_sizes = {path!r} is not a CSV text in UTF-8: write one number per line") from None
    sizes = [_size(path, number, cells) for number, cells in rows if any(cells) and cells != [COLUMN]]
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
