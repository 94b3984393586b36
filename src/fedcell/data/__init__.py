"""Data sets, where they come from, and how they are split over devices."""

from .datasets import Dataset, from_arrays, load
from .fetch import available, cache_dir, get
from .partition import histogram, partition

__all__ = ["Dataset", "available", "cache_dir", "from_arrays", "get", "histogram", "load", "partition"]
