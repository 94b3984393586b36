"""Methods whose rule needs bands side by side, and worlds whose devices send in turn or all at once.

Not a method itself: it has no `build`.
"""

from ...errors import BadInput
from ...types import Problem

PLANNED = "it plans how long each device sends, and over the air all send at once"
CODED = "it makes bits of each update, and devices send symbols at once"
MATCHED = "it gives every device a band of its own, and whether one is in time with turns depends on all the others"


def refuse_turns(problem: Problem, who: str, why: str) -> None:
    """Refuse `tdma` and `air` for a rule that is optimal only if nobody waits for others."""
    refuse_air(problem, who)
    if problem.world.settings.access == "tdma":
        raise BadInput(
            f"{who} does not go with world.access = 'tdma': {why}, so use fdma, own_band or block, or a method with a "
            "simple scheduler such as fedavg:effort=fit"
        )


def refuse_air(problem: Problem, who: str, why: str = PLANNED) -> None:
    """Refuse `world.access = air` for what is about devices that send one by one."""
    if problem.world.settings.access == "air":
        raise BadInput(
            f"{who} does not go with world.access = 'air': {why}, so use another access, or a method with a simple "
            "scheduler such as fedavg"
        )
