"""Data sets, where they come from, and how they are split over devices."""

from ..labels import histogram
from .datasets import Dataset, from_arrays
from .feature_skew import devices_of_test, skewed
from .fetch import available, cache_dir, get
from .huggingface import from_huggingface
from .loading import load
from .partition import partition
from .scaling import Scaling, scaled
from .torch_data import from_torch

__all__ = [
    "Dataset",
    "Scaling",
    "available",
    "cache_dir",
    "devices_of_test",
    "from_arrays",
    "from_huggingface",
    "from_torch",
    "get",
    "histogram",
    "load",
    "partition",
    "scaled",
    "skewed",
]
