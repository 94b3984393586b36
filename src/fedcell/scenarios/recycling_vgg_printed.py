"""FL-GR's VGG-11 setting with the published budgets of 230 J and 35 s: 0.8 and 1.4 GHz devices can never train.

The payload is the 16 bits of each parameter; the published number of bits is the model's number of operations.
"""

from dataclasses import replace

from ..options import Law
from .recycling_vgg import COMPARE as COMPARE
from .recycling_vgg import CONFIG as FEASIBLE

CONFIG = replace(
    FEASIBLE,
    scenario="recycling_vgg_printed",
    world=replace(FEASIBLE.world, energy_per_round_joule=Law((230.0,)), deadline_s=35.0),
)
