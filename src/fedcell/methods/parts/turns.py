"""Methods that plan as if nobody waited, and worlds whose devices send in turn.

Not a method itself: it has no `build`.
"""

from ...errors import BadInput
from ...types import Problem


def refuse_turns(problem: Problem, who: str) -> None:
    """Refuse `world.access = tdma` for a planner that knows how long a device sends and not how long it waits."""
    if problem.world.settings.access == "tdma":
        raise BadInput(
            f"{who} does not go with world.access = 'tdma': it plans uploads that nobody waits for, so use fdma, "
            "own_band or block, or a method with a simple scheduler such as fedavg:effort=fit"
        )
