"""Data sets, where they come from, and how they are split over devices."""

from ..labels import histogram
from .datasets import Dataset, from_arrays, load
from .fetch import available, cache_dir, get
from .partition import partition

__all__ = ["Dataset", "available", "cache_dir", "from_arrays", "get", "histogram", "load", "partition"]
