"""FL-GR's setting with the published energy budget of 1.0 J, with which the 1.4 GHz devices can never train."""

from dataclasses import replace

from ..options import Law
from .recycling import COMPARE as COMPARE
from .recycling import CONFIG as FEASIBLE

CONFIG = replace(
    FEASIBLE,
    scenario="recycling_printed",
    world=replace(FEASIBLE.world, energy_per_round_joule=Law((1.0,))),
)
