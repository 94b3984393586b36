"""Local steps that are made of several mini-batches: what they train on, what they cost.

Not a method itself: it has no `build`.

Reference: osafl, section 2.2; rawhfl, section 3.1
"""

from dataclasses import dataclass, replace
from typing import Any

from ...options import option
from ...types import Bools, Decision, Observation, Problem, Start, Updates, stateless
from . import defaults
from .defaults import TrainingConfig, most_steps, setting
from .resources import plan


@dataclass(frozen=True)
class StepConfig(TrainingConfig):
    """Settings of a local step."""

    steps: int | None = option(None, "most local steps of a round, kappa", least=1)
    batch_size: int | None = option(None, "samples of one mini-batch; 0: the whole store", least=0)
    n_batches: int = option(5, "mini-batches that make one local step", least=1)
    inner: str = option(
        "average",
        "a local step is one update by the mean gradient of its mini-batches, or one update by each in turn",
        choices=("average", "sequential"),
    )


def samples_per_step(config: StepConfig, problem: Problem) -> int:
    """Samples of one local step, 0 for the whole store."""
    return int(setting(config, problem, "batch_size")) * config.n_batches


def full_speed(config: StepConfig, problem: Problem, observation: Observation, selected: Bools) -> Decision:
    """A decision at full clock and power, with all the samples of a local step."""
    draft = plan(problem, observation, selected, most_steps(config, problem), float(samples_per_step(config, problem)))
    if config.inner == "sequential" and setting(config, problem, "batch_size") == 0:
        return draft._replace(samples_per_step=draft.samples_per_step * config.n_batches)
    return draft


@stateless
def local(
    config: StepConfig,
    problem: Problem,
    state: Any,
    start: Start,
    observation: Observation,
    decision: Decision,
    *,
    prox: float = 0.0,
) -> Updates:
    """Local SGD of the selected devices."""
    batch, updates_per_step = samples_per_step(config, problem), 1
    if config.inner == "sequential":
        batch, updates_per_step = setting(config, problem, "batch_size"), config.n_batches
    ready = replace(config, batch_size=batch)
    work = decision._replace(steps=decision.steps * updates_per_step)
    return defaults.local(ready, problem, state, start, observation, work, prox=prox)
