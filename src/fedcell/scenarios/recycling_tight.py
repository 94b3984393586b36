"""FL-GR's setting with a deadline that binds: as `recycling`, with 0.25 s instead of 0.3 s for a round.

With 0.3 s nearly every device is in time on nearly every block, and the proposed scheduler lets all take turns. With
0.25 s slow or far devices are in time on few blocks and in few rounds. 600 rounds are the 150 s that are published.
"""

from dataclasses import replace

from .recycling import COMPARE as COMPARE
from .recycling import CONFIG as SLACK

CONFIG = replace(
    SLACK,
    scenario="recycling_tight",
    rounds=600,
    world=replace(SLACK.world, deadline_s=0.25),
)
