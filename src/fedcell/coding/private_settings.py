"""The settings of differential privacy. Not a coding itself: it has no `build`."""

from dataclasses import dataclass

from ..errors import BadInput
from ..options import Checked, option
from .accounting import ACCOUNTANTS


@dataclass(frozen=True)
class Config(Checked):
    """Settings of differential privacy."""

    dp: str = option("central", "who adds noise: the server, to the sum; or each device", choices=("central", "local"))
    clip_norm: float = option(1.0, "longest update; with clipping=adaptive the first one", above=0, most=1e9)
    noise_multiplier: float = option(
        1.0, "noise in clipping norms; 0: none, and no epsilon", least=0, most=1e4, needs="target_epsilon=none"
    )
    target_epsilon: float | None = option(
        None, "epsilon after the last round, if all devices are there, instead of noise_multiplier", above=0
    )
    delta: float = option(1e-5, "chance that the promise of epsilon does not hold", above=0, most=0.1)
    accountant: str = option("rdp", "Renyi divergences; or pld: tighter, and 0.2 s a round", choices=ACCOUNTANTS)
    clipping: str = option("fixed", "clip_norm for ever, or as adaptive clipping has it", choices=("fixed", "adaptive"))
    quantile: float = option(
        0.5, "share of the updates that are not clipped", least=0, most=1, needs="clipping=adaptive"
    )
    clip_lr: float = option(0.2, "step of the clipping norm", above=0, most=10, needs="clipping=adaptive")
    quantile_noise: float | None = option(
        None,
        "noise on the count of updates that are not clipped; none: max(m / 20, z)",
        above=0,
        needs="clipping=adaptive",
    )
    secure: str = option(
        "none",
        "secure aggregation, as a cost: none; keys with all others; or with some, on a graph",
        choices=("none", "pairwise", "graph"),
    )
    degree: float = option(2.0, "neighbours per log2 of the devices in a round", above=0, needs="secure=graph")
    mask_cycles: float = option(
        10.0, "CPU cycles to draw one number of a mask", least=0, most=1e6, needs="secure!=none"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clipping == "adaptive" and self.dp == "local":
            raise BadInput("clipping = 'adaptive' needs a server that counts, and dp = 'local' trusts none: use fixed")
