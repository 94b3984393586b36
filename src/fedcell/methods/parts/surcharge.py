"""A decision whose devices pay for more than their updates: bits both ways, and cycles of the CPU.

Not a method itself: it has no `build`.
"""

import numpy as np

from ...coding import Extra
from ...types import Decision, Floats, Ints, Observation, Problem


def charged(problem: Problem, observation: Observation, decision: Decision, bit: float, extra: Extra) -> Decision:
    """The decision with payloads of `bit`, plus the bits and cycles of `extra`; columns of the row report its bits.

    Cycles are counted as samples of the local steps, so they cost time and energy as training does; in a world whose
    samples cost no cycles they are free.
    """
    decision = decision._replace(payload_bit=np.full_like(decision.payload_bit, bit + extra.up_bit))
    if not extra.up_bit:
        return decision
    more = as_samples(observation, extra.cycles, decision.steps)
    return decision._replace(
        samples_per_step=decision.samples_per_step + more,
        download_bit=np.full_like(decision.payload_bit, problem.world.model_bit + extra.down_bit),
        info={**decision.info, "secure_up_bit": extra.up_bit, "secure_down_bit": extra.down_bit},
    )


def as_samples(observation: Observation, cycles: float, steps: int | Ints) -> Floats:
    """Samples per local step that cost so many cycles in a round, `[n_devices]`; 0 where samples cost no cycles."""
    sample_cycles = steps * observation.devices.cycles_per_sample
    return np.divide(cycles, sample_cycles, out=np.zeros(len(sample_cycles)), where=sample_cycles > 0)
