"""Data sets, where they come from, and how they are split over devices."""

from ..labels import histogram
from .datasets import Dataset, from_arrays, load
from .fetch import available, cache_dir, get
from .partition import partition
from .scaling import Scaling, scaled

__all__ = [
    "Dataset",
    "Scaling",
    "available",
    "cache_dir",
    "from_arrays",
    "get",
    "histogram",
    "load",
    "partition",
    "scaled",
]
