"""Scheduling by representativity and latency: devices whose gradients stand for all, and that end soon together.

With `d_kh` the distance between the last gradients of devices `k` and `h`, a set of devices `S` misses

    H(S) = sum_k min_{h in S} d_kh

of the gradient of all, and takes `T*(S)` seconds with the band divided so that all end together (`world.access=tdma`:
one after the other, the first to be ready first, which no other order beats). Policies: greedy on
`T*`, greedy on `H`, both for a given number of devices, or double greedy on `rho1 H + rho2 T*`, which finds the number.
The server steps by the plain mean over `S`, or by

    w <- w - lr (1/K) sum_{h in S} gamma_h g_h

with `gamma_h` the number of devices that `h` is nearest to. Baselines (random, largest loss, largest gradient) are
policies, too, so that all share bands, draws and memory.

Reference: chen-ch3 (Chen, Efficient Federated Learning over Wireless Networks, chapter 3), Eqs. (3.3)-(3.29)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from torch import Tensor

from ...errors import BadInput
from ...options import option
from ...rng import SETUP, stream
from ...solve import facility
from ...solve.in_series import in_series
from ...types import Bools, Decision, Floats, Method, Observation, Problem, Round
from ..parts.defaults import (
    LocalConfig,
    TrainingConfig,
    default,
    local,
    mean_update,
    needs_sgd,
    rate,
    setting,
    steps_of,
)
from ..parts.gradients import client_losses
from ..parts.resources import plan
from ..parts.turns import refuse_air
from . import diagnostics
from .band import Alone, alone, divided, left_s
from .diagnostics import Errors
from .memory import Memory, blank, heard, shares
from .schedule import POLICIES, Candidates, error_scale, points_and_sites, within


@dataclass(frozen=True)
class Config(TrainingConfig):
    """Settings of the policies, of the step and of what stands for gradients that are not known yet."""

    policy: str = option(
        "representativity",
        "who trains: the devices that stand for all, that end soonest, or both; or at random, those with the largest "
        "loss on their data, those with the largest gradient last heard",
        choices=tuple(POLICIES),
    )
    n_selected: int = option(
        10, "devices picked per cell and round, except by policy=both", least=1, needs="policy!=both"
    )
    error_weight: float = option(0.3, "weight of the error H, rho1 (policy=both)", least=0, needs="policy=both")
    latency_weight: float = option(1.0, "weight of the seconds T*, rho2 (policy=both)", least=0, needs="policy=both")
    error_scale: str = option(
        "sum",
        "H as it is, over the number of devices, or over that of the empty set (policy=both)",
        choices=("sum", "mean", "relative"),
        needs="policy=both",
    )
    weights: str = option(
        "mean",
        "weight of a device: equal (mean), how many it stands for (gamma), the same with the gradients just heard "
        "(gamma_refreshed); policy: gamma if the policy looks at representativity, else mean",
        choices=("mean", "gamma", "gamma_refreshed", "policy"),
    )
    estimate: str = option(
        "previous",
        "gradients that a policy goes by: last heard of each device (E-PG); or of small batches on all, anew in every "
        "round, at no cost (E-MBG)",
        choices=("previous", "mini_batch"),
    )
    estimate_batch: int = option(16, "samples of a step of such an estimate (estimate=mini_batch)", least=1)
    start: str = option(
        "free",
        "the first gradient of every device: taken at no cost before the first round; in a first round of everyone "
        "that takes its time and moves nothing; in one that is a round like others",
        choices=("free", "charged", "round"),
    )
    diagnose: str = option(
        "no",
        "record errors of estimated gradients of device 0 (estimates), and of the step against that of everyone (all, "
        "trains every device in every round)",
        choices=("no", "estimates", "all"),
    )

    @property
    def rule(self) -> str:
        """The rule for weights, with `policy` resolved."""
        if self.weights != "policy":
            return self.weights
        return "gamma" if self.policy in ("representativity", "both") else "mean"

    @property
    def remembers(self) -> bool:
        """Whether anything looks at gradients of earlier rounds."""
        looks = self.policy in ("representativity", "both", "gradient_norm") or self.rule != "mean"
        return (looks and self.estimate == "previous") or self.diagnose != "no"

    @property
    def asks(self) -> bool:
        """Whether every device must evaluate the present model in every round."""
        return self.policy == "power_of_choice" or self.estimate == "mini_batch"


class State(NamedTuple):
    """What is kept between rounds; a field is None if the settings do not need it."""

    memory: Memory | None
    model: Tensor | None  # [n_params], the present one
    errors: Errors | None


def build(config: Config) -> Method:
    return default(LocalConfig())._replace(
        init=partial(init, config),
        decide=partial(decide, config),
        local=partial(local, config),
        aggregate=partial(aggregate, config),
        needs_rows=True,
        evaluate=evaluate,
    )


def init(config: Config, problem: Problem, params: Tensor) -> State:
    """Make the state before the first round; with `start=free` this takes the first gradient of every device."""
    refuse_air(problem, "the band rule of representativity")
    _refuse_part_of_everyone(config, problem)
    if config.remembers or config.asks:
        needs_sgd(config, problem)
    memory = blank(problem.world.n_devices, len(params)) if config.remembers else None
    if memory is not None and config.start == "free":
        store = problem.world.stream.start(problem.seed)[0]
        first = diagnostics.everyone(config, problem, params, store, SETUP)
        steps = diagnostics.local_steps(config, problem, store, first.device)
        memory = heard(memory, first.device, first.delta, steps, rate(config, problem, 0))
    return State(memory, params if config.asks else None, Errors() if config.diagnose != "no" else None)


def _refuse_part_of_everyone(config: Config, problem: Problem) -> None:
    """Refuse a first round of everyone in a world that has no blocks for everyone."""
    world = problem.world
    most = int(np.bincount(world.topology.cell).max())
    if config.start != "free" and world.settings.access == "block" and world.settings.n_blocks < most:
        raise BadInput(
            f"representativity.start = {config.start!r} begins with everyone and world.n_blocks = "
            f"{world.settings.n_blocks} is less than the {most} devices of a cell: set start=free, or n_blocks={most}"
        )


# ---------------------------------------------------------------- decide


def decide(config: Config, problem: Problem, state: State, observation: Observation) -> Decision:
    """Pick devices cell by cell, then divide the band of each."""
    steps, batch = steps_of(config, problem, observation.store), setting(config, problem, "batch_size")
    everyone = plan(problem, observation, observation.available, steps, batch)
    found = alone(problem, observation, everyone)
    known = _known(config, problem, state, observation)
    selected = _selected(config, problem, state, observation, found, known)
    decision = divided(problem, observation, plan(problem, observation, selected, steps, batch), found)
    return decision._replace(info=_columns(observation, decision, known))


def _known(config: Config, problem: Problem, state: State, observation: Observation) -> Memory | None:
    """The gradients that the policy uses. Reference: chen-ch3, section 3.3"""
    if config.estimate == "previous":
        return state.memory
    assert state.model is not None
    params = state.model
    rough = diagnostics.estimates(config, problem, params, observation, config.estimate_batch)
    steps = diagnostics.local_steps(config, problem, observation.store, rough.device)
    lr = rate(config, problem, observation.round)
    return heard(blank(problem.world.n_devices, len(params)), rough.device, rough.delta, steps, lr)


def _begins(config: Config, state: State, observation: Observation) -> bool:
    """Whether this is a first round in which everyone trains."""
    return config.start != "free" and state.memory is not None and observation.round == 0


def _selected(
    config: Config, problem: Problem, state: State, observation: Observation, found: Alone, known: Memory | None
) -> Bools:
    """Who trains, `[n_devices]`."""
    settings, cell = problem.world.settings, observation.topology.cell
    most = settings.n_blocks if settings.access == "block" else len(cell)
    deadline_s = left_s(problem, observation) if observation.response_s is None else np.inf
    score = _scores(config, problem, state, observation, known)
    ends = in_series if settings.access == "tdma" else None
    selected = np.zeros(len(cell), dtype=np.bool_)
    for number in np.unique(cell[found.usable]):
        points, sites = points_and_sites(cell, number, observation.store.size > 0, found.usable)
        compute_s, upload_s = found.compute_s[sites], found.upload_s[sites]
        if _begins(config, state, observation):
            chosen = np.arange(len(sites))
        else:
            distance = np.zeros((0, len(sites))) if known is None else known.distance[np.ix_(points, sites)]
            chosen = POLICIES[config.policy](
                Candidates(
                    min(config.n_selected, most),
                    compute_s,
                    upload_s,
                    ends,
                    distance,
                    score[sites],
                    config.error_weight * error_scale(config.error_scale, distance),
                    config.latency_weight,
                    problem.seed,
                    observation.round,
                )
            )
        selected[sites[within(chosen, compute_s, upload_s, deadline_s, most, ends)]] = True
    return selected


def _scores(config: Config, problem: Problem, state: State, observation: Observation, known: Memory | None) -> Floats:
    """Scores for the policies that pick the highest, `[n_devices]`. Reference: chen-ch3, section 5"""
    if config.policy == "random":
        return stream(problem.seed, observation.round, "schedule").random(problem.world.n_devices)
    if config.policy == "power_of_choice":
        assert state.model is not None
        return client_losses(problem, state.model, observation.store)
    return np.zeros(problem.world.n_devices) if known is None else known.norm


def _columns(observation: Observation, decision: Decision, known: Memory | None) -> dict[str, float]:
    """Columns of a row: who was picked, and what they miss of the gradient, `H(S) / K`, as far as it is known."""
    found = {"n_scheduled": float(decision.selected.sum())}
    points = np.flatnonzero(observation.store.size > 0)
    if known is not None and len(points):
        found["error_mean"] = facility.cost(known.distance[points], decision.selected) / len(points)
    return found


# ---------------------------------------------------------------- aggregate


def aggregate(config: Config, problem: Problem, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    """Step by the weighted mean of what arrived, and remember it. Reference: chen-ch3, Eq. (3.5), section 3.2"""
    device, rows = played.received()
    memory, errors = state.memory, state.errors
    if memory is not None:
        lr = rate(config, problem, played.observation.round)
        memory = heard(memory, device, rows, played.decision.steps[device], lr)
    share = shares(_weighing(config, problem, state, memory, played), played.observation, device)
    if errors is not None:
        assert state.memory is not None
        errors = diagnostics.measure(config, problem, state.memory, params, played, share)
    if not (_begins(config, state, played.observation) and config.start == "charged"):
        params = mean_update(params, share, rows)
    return params, State(memory, params if config.asks else None, errors)


def _weighing(config: Config, problem: Problem, state: State, memory: Memory | None, played: Round) -> Memory | None:
    """The gradients that define the weights: known before the round, or with those just heard; None: equal weights."""
    if config.rule == "mean":
        return None
    if config.estimate == "previous":
        return state.memory if config.rule == "gamma" else memory
    known = _known(config, problem, state, played.observation)
    if config.rule == "gamma" or known is None:
        return known
    device, rows = played.received()
    lr = rate(config, problem, played.observation.round)
    return heard(known, device, rows, played.decision.steps[device], lr)


def evaluate(problem: Problem, params: Tensor, state: State) -> Mapping[str, float]:
    """Accuracy and loss, and what the diagnostics found."""
    found = problem.learner.evaluate(params)
    return found if state.errors is None else {**found, **state.errors.columns()}
