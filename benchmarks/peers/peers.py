"""Who is compared: the settings that each framework may use to be at its best, and what the comparison demands."""

from typing import NamedTuple

OURS = "fedcell"
TITLES = {
    "fedcell": "fedcell",
    "plain": "plain PyTorch loop",
    "pfl": "pfl",
    "flower": "Flower",
    "fedlab": "FedLab",
    "fedjax": "FedJAX",
}
LAYOUTS = ("", "layout=channels_last")  # of convolutions
IMAGES = ("lenet", "cifar", "resnet")  # networks that have any
UNABLE = {"fedjax": ("resnet", "transformer")}  # networks that a runner has no code for
CHANNELS_LAST = ("plain", "pfl", "flower")  # FedLab cannot: it flattens parameters with `view`


class Demand(NamedTuple):
    """What holds for every task beside the bars of speed."""

    memory: float = 1.2  # of the leanest peer's peak


DEMAND = Demand()


ON_GPU = (OURS, "pfl", "plain")  # whose runners can train on one; in short time, first things first


def settings(peer: str, model: str, device: str = "cpu") -> list[str]:
    """The settings a framework is tried with; the fastest is the one that is compared."""
    workers = {
        "plain": ["threads=2", "threads=1"],
        "fedlab": ["threads=2", "threads=1"],
        "pfl": ["processes=1", "processes=2"],
    }.get(peer if device == "cpu" else "", [""])
    layouts = LAYOUTS if model in IMAGES and peer in CHANNELS_LAST else ("",)
    return [f"{one} {layout}".strip() for one in workers for layout in layouts]
