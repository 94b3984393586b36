"""Methods that plan as if nobody waited, and worlds whose devices send in turn or all at once.

Not a method itself: it has no `build`.
"""

from ...errors import BadInput
from ...types import Problem


def refuse_turns(problem: Problem, who: str) -> None:
    """Refuse `tdma` and `air` for a planner that knows how long a device sends by itself and not how long it waits."""
    if problem.world.settings.access in ("tdma", "air"):
        raise BadInput(
            f"{who} does not go with world.access = {problem.world.settings.access!r}: it plans uploads that nobody "
            "waits for, so use fdma, own_band or block, or a method with a simple scheduler such as fedavg:effort=fit"
        )
