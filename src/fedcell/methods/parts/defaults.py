"""What every method does unless its paper says otherwise. Not a method itself: it has no `build`."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from ... import radio
from ...errors import BadInput
from ...learn.optimiser import Optimiser, rate_factor
from ...learn.work import Objective, Rule, Work
from ...options import Checked, option
from ...types import (
    Decision,
    Floats,
    Ints,
    Method,
    Observation,
    Problem,
    Round,
    Start,
    Store,
    Updates,
    of_means,
    stateless,
)
from .resources import BLOCKS, epoch_steps, plan
from .schedulers import SCHEDULERS, schedule
from .surcharge import as_samples


@dataclass(frozen=True)
class TrainingConfig(Checked):
    """Settings of SGD. `none` takes the value of the `train` section."""

    lr: float | None = option(None, "local learning rate; none: train.lr", above=0)
    steps: int | None = option(None, "local steps; none: train.steps", least=1)
    batch_size: int | None = option(None, "samples per local step; 0: the whole store, none: train.batch_size", least=0)
    momentum: float | None = option(None, "momentum of local SGD; none: train.momentum", least=0, most=0.999)


@dataclass(frozen=True)
class LocalConfig(TrainingConfig):
    """Settings of every method that trains on devices: those of SGD, who trains, and how much."""

    scheduler: str = option("all", "who trains", choices=tuple(SCHEDULERS))
    n_selected: int = option(
        10,
        "devices picked per cell and round, except by the scheduler `all`; by `fedcs` at most, by `poisson` on average",
        least=1,
        needs="scheduler!=all",
    )
    effort: str = option(
        "fixed", "fixed: `steps`; fit: as many as deadline and energy allow, `steps` at most", choices=("fixed", "fit")
    )
    blocks: str = option(
        "first",
        "who gets which resource block: the first device the first; the largest sum of rates; or the least sum of "
        "upload times",
        choices=tuple(BLOCKS),
    )


def setting(config: Any, problem: Problem, name: str) -> Any:
    """A method's own setting, or the shared one of the `train` section."""
    own = getattr(config, name)
    return getattr(problem.train, name) if own is None else own


def rate(config: Any, problem: Problem, round: int) -> float:
    """The local learning rate of a round: `lr` as `train.schedule` and `train.warmup` change it."""
    return float(setting(config, problem, "lr")) * rate_factor(problem.train, round, problem.n_rounds)


def steps_of(config: Any, problem: Problem, store: Store) -> int | Ints:
    """Local steps of a round, or those of every device that make `train.epochs` passes over what it holds."""
    epochs = problem.train.epochs
    if not epochs:
        return int(setting(config, problem, "steps"))
    if config.steps is not None:
        raise BadInput(
            f"train.epochs = {epochs} and {name_of(config)}.steps = {config.steps} both say how long devices train: "
            f"set train.epochs=0 or {name_of(config)}.steps=none"
        )
    return epoch_steps(epochs, store.size, int(setting(config, problem, "batch_size")))


def most_steps(config: Any, problem: Problem) -> int:
    """The most local steps that a method may plan by itself."""
    if problem.train.epochs:
        raise BadInput(
            f"train.epochs = {problem.train.epochs} does not go with {name_of(config)}, which plans local steps by "
            "itself: set train.epochs=0, and train.steps to the most"
        )
    return int(setting(config, problem, "steps"))


def needs_sgd(config: Any, problem: Problem) -> None:
    """Refuse AdamW for a method that takes updates for sums of gradients."""
    if problem.train.optimiser != "sgd":
        raise BadInput(
            f"train.optimiser = {problem.train.optimiser!r} does not go with {name_of(config)}, which takes updates "
            "for sums of gradients: set train.optimiser=sgd"
        )


def name_of(config: Any) -> str:
    """Name of the method that a config belongs to: that of its file."""
    return type(config).__module__.rpartition(".")[2]


# ---------------------------------------------------------------- decide


def decide(
    config: LocalConfig,
    problem: Problem,
    state: Any,
    observation: Observation,
    samples_per_step: Floats | None = None,
    cycles: float = 0.0,
) -> Decision:
    """Pick devices, share the band equally, compute and send at full speed.

    Args:
        config, problem, state, observation: as of every `decide`.
        samples_per_step: `[n_devices]`, what a local step is charged; None: what it trains on.
        cycles: of the CPU beside the local steps, which the decision leaves room for and does not charge.
    """
    steps = steps_of(config, problem, observation.store)
    samples = samples_of(config, problem, observation.store) if samples_per_step is None else samples_per_step
    expected = samples + as_samples(observation, cycles, steps)
    selected = schedule(config.scheduler, config.n_selected, problem, observation, steps, expected)
    decision = plan(problem, observation, selected, steps, samples, config.blocks)
    if config.effort == "fixed":
        return decision
    most = np.minimum(decision.steps, radio.most_steps(problem.world, observation, decision, cycles))
    able = selected & (most >= 1)
    decision = plan(problem, observation, able, decision.steps, decision.samples_per_step, config.blocks)
    return decision._replace(steps=np.maximum(most, 1))


def samples_of(config: TrainingConfig, problem: Problem, store: Store) -> Floats:
    """Samples that a local step trains on, `[n_devices]`: the mini-batch, or the whole store."""
    batch_size = _batch(config, problem)
    return np.where(batch_size > 0, batch_size, store.size).astype(np.float64)


def _batch(config: TrainingConfig, problem: Problem) -> int:
    return int(setting(config, problem, "batch_size"))


# ---------------------------------------------------------------- broadcast, local


def broadcast(problem: Problem, params: Tensor, state: Any, observation: Observation, decision: Decision) -> Start:
    """One global model for everyone."""
    return Start(params[None], np.zeros(np.count_nonzero(decision.selected), dtype=np.int64))


@stateless
def local(
    config: TrainingConfig,
    problem: Problem,
    state: Any,
    start: Start,
    observation: Observation,
    decision: Decision,
    *,
    prox: float = 0.0,
    objective: Objective | None = None,
    rule: Rule | None = None,
) -> Updates:
    """Train the selected devices on their samples, by SGD or by `rule`."""
    work = work_of(config, problem, observation, decision, prox, objective)
    return problem.learner.train(start, work._replace(rule=rule))


def work_of(
    config: TrainingConfig,
    problem: Problem,
    observation: Observation,
    decision: Decision,
    prox: float = 0.0,
    objective: Objective | None = None,
) -> Work:
    """The work of the selected devices: samples, steps, rate and objective."""
    device, held = np.flatnonzero(decision.selected), observation.store
    return Work(
        device=device,
        store=held.of(device),
        steps=decision.steps[device],
        lr=rate(config, problem, observation.round),
        batch_size=_batch(config, problem),
        round=observation.round,
        momentum=setting(config, problem, "momentum"),
        prox=prox,
        mask=decision.mask,
        objective=objective,
        optimiser=optimiser_of(config, problem),
        augment=problem.train.augment != "none",
    )


def optimiser_of(config: TrainingConfig, problem: Problem) -> Optimiser:
    """The optimiser of the `train` section; refuses AdamW for a method with a momentum of its own."""
    optimiser = Optimiser.of(problem.train)
    if optimiser.adam and config.momentum:
        raise BadInput(
            f"{name_of(config)}.momentum = {config.momentum:g} does not go with train.optimiser = 'adamw', which has "
            "averages of its own: leave it at none"
        )
    return optimiser


# ---------------------------------------------------------------- aggregate, evaluate


def mean_update(params: Tensor, weights: Floats, rows: Tensor | Round) -> Tensor:
    """`params + sum_k weights[k] * rows[k]`; nobody heard leaves the model as it is.

    Args:
        params: `[n_params]`.
        weights: `[n_rows]`.
        rows: `[n_rows, n_params]`, or the round that they were heard in, whose updates need not lie in memory together.
    """
    if not len(weights):
        return params
    if isinstance(rows, Round):
        return params + rows.add_up(weights)
    return params + rows.new_tensor(weights.astype(np.float32)) @ rows


def equal_shares(observation: Observation, device: Ints) -> Floats:
    """Equal weights of the devices heard, `[n_heard]`, summing to one."""
    return np.full(len(device), 1 / max(len(device), 1))


def evaluate(problem: Problem, params: Tensor, state: Any) -> Mapping[str, float]:
    """Accuracy and loss of the global model on the test set."""
    return problem.learner.evaluate(params)


def default(config: LocalConfig) -> Method:
    """FedAvg's seams with equal weights; replace what a paper changes with `._replace(...)`."""

    @of_means
    def aggregate(
        problem: Problem,
        params: Tensor,
        state: Any,
        played: Round,
    ) -> tuple[Tensor, Any]:
        return mean_update(params, equal_shares(played.observation, played.heard()), played), state

    return Method(
        init=lambda problem, params: None,
        decide=partial(decide, config),
        broadcast=broadcast,
        local=partial(local, config),
        aggregate=aggregate,
        evaluate=evaluate,
        shares=equal_shares,
    )
