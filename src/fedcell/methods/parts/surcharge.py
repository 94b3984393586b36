"""A decision whose devices pay for more than their updates: bits both ways, and cycles of the CPU.

Not a method itself: it has no `build`.
"""

import numpy as np

from ...coding import Extra
from ...types import Decision, Observation, Problem


def charged(problem: Problem, observation: Observation, decision: Decision, bit: float, extra: Extra) -> Decision:
    """The decision with payloads of `bit`, plus the bits and cycles of `extra`; columns of the row report its bits.

    Cycles are counted as samples of the local steps, so they cost time and energy as training does; in a world whose
    samples cost no cycles they are free.
    """
    decision = decision._replace(payload_bit=np.full_like(decision.payload_bit, bit + extra.up_bit))
    if not extra.up_bit:
        return decision
    sample_cycles = decision.steps * observation.devices.cycles_per_sample
    more = np.divide(extra.cycles, sample_cycles, out=np.zeros(len(sample_cycles)), where=sample_cycles > 0)
    return decision._replace(
        samples_per_step=decision.samples_per_step + more,
        download_bit=np.full_like(decision.payload_bit, problem.world.model_bit + extra.down_bit),
        info={**decision.info, "secure_up_bit": extra.up_bit, "secure_down_bit": extra.down_bit},
    )
