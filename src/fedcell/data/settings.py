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
        "digits, diabetes, tags, mnist, fashion-mnist, cifar10, cifar100 (whose files you bring), characters or video "
        "(see their sections), the path of an .npz file, leaf:FOLDER, or hf:NAME#label of Hugging Face",
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
        "dirichlet",
        "how samples are split over devices; given: by the owners that the data have",
        choices=("iid", "dirichlet", "shards", "classes", "counts", "dirichlet-device", "quantity", "given"),
    )
    alpha: float = option(
        0.3,
        "concentration: small is more skewed (dirichlet, dirichlet-device, quantity)",
        above=0,
        needs="partition=dirichlet|dirichlet-device|quantity",
    )
    shards_per_device: int = option(
        2, "single-label shards each device gets (shards)", least=1, needs="partition=shards"
    )
    classes_per_device: int = option(2, "different labels on each device (classes)", least=1, needs="partition=classes")
    counts: tuple[int, ...] = option(
        (), "samples of each device, drawn without regard to label (counts)", least=0, needs="partition=counts"
    )
    sizes: str = option(
        "lognormal",
        "law of how many samples devices have (quantity); dirichlet: shares with concentration alpha",
        choices=("lognormal", "power", "dirichlet"),
        needs="partition=quantity",
    )
    skew: float = option(
        1.0,
        "of sizes: deviation of their logarithm (lognormal), or exponent of their ranks (power); 0: all alike",
        least=0,
        most=20,
        needs="partition=quantity",
    )
    rotation_deg: float = option(
        0.0, "images of each device are turned by an angle that it draws up to this, either way", least=0, most=180
    )
    colour: float = option(
        0.0, "each device draws a factor of each colour channel, from 1 minus this to 1 plus this", least=0, most=1
    )
    noise: float = option(0.0, "each device draws a deviation up to this, of noise on all its samples", least=0)
