"""KFL against methods that share models: one network for all, MNIST shards, 10 random devices, nothing runs out."""

from dataclasses import replace
from math import inf

from .knowledge import CONFIG as LIMITED

CONFIG = replace(
    LIMITED,
    scenario="knowledge_equal",
    world=replace(LIMITED.world, access="own_band", deadline_s=inf, clock="slowest"),
    model=replace(LIMITED.model, widths=()),
)
METHODS = {
    "knowledge": {"scheduler": "random"},
    "fedavg": {"scheduler": "random"},
    "fedprox": {"scheduler": "random"},
    "fedrep": {"scheduler": "random"},
    "fedkd": {"scheduler": "random"},
    "apfl": {"scheduler": "random", "weights": "samples", "tests": "split"},
}
COMPARE = ("knowledge", "fedrep", "apfl", "fedavg")
