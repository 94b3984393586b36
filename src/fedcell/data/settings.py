"""The settings of data sets and of their split over devices."""

from dataclasses import dataclass

from ..metrics import TASKS
from ..options import option
from .scaling import SCALINGS


@dataclass(frozen=True)
class DataConfig:
    """Which samples there are, and which device holds which."""

    name: str = option(
        "digits",
        "digits, diabetes, tags, mnist, fashion-mnist, cifar10, characters or video (see their sections), or the path "
        "of an .npz file",
    )
    task: str = option(
        "auto",
        "what is learned; auto: what the targets look like, class labels if they may be",
        choices=("auto", *TASKS),
    )
    scaling: str = option(
        "unit",
        "unit: inputs as they are loaded, bytes in [0, 1]; half: from [0, 1] to [-1, 1]; standard: mean 0 and "
        "deviation 1 over the training samples, per channel or feature",
        choices=SCALINGS,
    )
    partition: str = option(
        "dirichlet", "how samples are split over devices", choices=("iid", "dirichlet", "shards", "classes", "counts")
    )
    alpha: float = option(0.3, "concentration: small is more skewed (dirichlet)", above=0, needs="partition=dirichlet")
    shards_per_device: int = option(
        2, "single-label shards each device gets (shards)", least=1, needs="partition=shards"
    )
    classes_per_device: int = option(2, "different labels on each device (classes)", least=1, needs="partition=classes")
    counts: tuple[int, ...] = option(
        (), "samples of each device, drawn without regard to label (counts)", least=0, needs="partition=counts"
    )
