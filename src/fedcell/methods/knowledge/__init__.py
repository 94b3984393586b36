"""KFL: devices with networks of their own share the mean features of each class, under energy budgets.

With `h_k` the feature extractor of device `k`, `p` its width and `Omega_c` the shared mean feature of class `c`, local
steps lower

    F_k(w_k) + (lambda / D_k) sum_(x, y) ||h_k(x) - Omega_y||^2 / p

or, as printed, the same with 1/2 for 1/p (`pull_scale=sum`). A device uploads its own class means, whatever its
network; the server averages them by samples of the class. The scheduler trades samples now against energy later. A
queue per device holds the energy that it spent beyond its mean budget, and each round makes

    -V gamma_t sum_S D_k + sum_S q_k E_k

small over sets of devices, each with the band and power that it needs.

Reference: chen-ch4 (Chen, Efficient Federated Learning over Wireless Networks, chapter 4), Algorithms 4 to 6
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...errors import BadInput
from ...options import option
from ...types import Bools, Decision, Floats, Ints, Method, Observation, Problem, Round, Start, Updates
from ..parts.classes import held_classes, n_classes_of
from ..parts.contributions import Contributions, nothing
from ..parts.defaults import LocalConfig, setting, work_of
from ..parts.personal import judge_own, models_of, own_models, own_starts, remembered, starts
from ..parts.schedulers import SCHEDULERS
from .means import class_mean_report, knowledge_width, means_of, merged, pull_strength, pulled_loss
from .schedule import COUNTS, ENERGY, WEIGHTS, budget_joule, decide


@dataclass(frozen=True)
class Config(LocalConfig):
    """Settings of KFL and of the schedulers beside its own."""

    batch_size: int | None = option(0, "samples per local step; 0: the whole store", least=0)
    pull: float = option(1.0, "strength of the pull of features to the shared class means, lambda", least=0)
    pull_scale: str = option(
        "mean",
        "squared distance of features: mean over them, as in nn.MSELoss; or half their sum, as printed",
        choices=("mean", "sum"),
        needs="pull!=0",
        before="sum",
    )
    initial: str = option(
        "none",
        "shared means before the first upload: none, so that a class pulls once it was heard of; zero; or the means of "
        "all untrained networks, at no cost",
        choices=("none", "zero", "upload"),
    )
    epochs: int = option(0, "passes over the store in mini-batches of batch_size instead of `steps`; 0: steps", least=0)
    scheduler: str = option(
        "lyapunov",
        "who trains: lyapunov, rotation and myopic keep to energy budgets and share band and power; others do not",
        choices=(*ENERGY, *SCHEDULERS),
    )
    pattern: str = option(
        "fixed",
        "devices of a round, from n = n_selected: n; n and n + 1 in turns; from 1 up to 2 n; down from 2 n to 1",
        choices=tuple(COUNTS),
    )
    effort: str = option("fixed", "every device does `steps`", choices=("fixed",))
    trade: float = option(0.01, "worth of samples against energy, V (lyapunov)", least=0, needs="scheduler=lyapunov")
    fade: str = option(
        "harmonic",
        "worth of round t, gamma_t: 1/(t+1), 1, or (t+1)/T (lyapunov)",
        choices=tuple(WEIGHTS),
        needs="scheduler=lyapunov",
    )
    mean_energy_joule: float | None = option(
        None, "energy budget of a device over the run, per round, E_k / T; none: its battery", above=0
    )
    hard_budget: bool = option(True, "leave out devices that cannot pay for the round from what is left of the budget")
    zero_queue: str = option(
        "shared",
        "band of devices with an empty queue: shared as with a small one; the least, at full power",
        choices=("shared", "least"),
    )
    myopic_rounds: str = option(
        "left",
        "rounds that the rest of a budget is divided by (myopic): T - t, or T - t + 1",
        choices=("left", "printed"),
        needs="scheduler=myopic",
    )
    deadline_s: float | None = option(
        None, "length of a round, T_max; none: world.deadline_s, or 1 s", above=0, infinite=True
    )


class State(NamedTuple):
    """What devices and server remember between rounds."""

    own: Contributions  # models of devices that have trained
    origin: Tensor  # [n_architectures, n_params], models of those that have not
    knowledge: Tensor  # [n_classes, n_features], Omega
    known: Bools  # [n_classes], heard of by now
    labels: Ints  # [n_devices, n_classes], samples that devices hold
    queue_joule: Floats  # [n_devices], q_k
    spent_joule: Floats  # [n_devices]
    times: Ints  # [n_devices], rounds in which a device was chosen


def build(config: Config) -> Method:
    return Method(
        init=partial(init, config),
        decide=partial(decide, config),
        broadcast=broadcast,
        local=partial(local, config),
        aggregate=partial(aggregate, config),
        needs_rows=True,
        evaluate=evaluate,
        own_networks=True,
        sends="class means of features",
        personal=own_models,
        needs_labels=True,
    )


def init(config: Config, problem: Problem, params: Tensor) -> State:
    _refuse(config, problem)
    n, n_classes = problem.world.n_devices, n_classes_of(problem)
    return State(
        own=nothing(n, problem.learner.n_params),
        origin=starts(problem),
        knowledge=torch.zeros(n_classes, knowledge_width(problem), device=problem.learner.device),
        known=np.full(n_classes, config.initial == "zero"),
        labels=np.zeros((n, n_classes), dtype=np.int64),
        queue_joule=np.zeros(n),
        spent_joule=np.zeros(n),
        times=np.zeros(n, dtype=np.int64),
    )


def _refuse(config: Config, problem: Problem) -> None:
    settings = problem.world.settings
    if config.scheduler in ENERGY and settings.access == "block":
        raise BadInput(
            f"knowledge.scheduler = {config.scheduler!r} shares a band and world.access = {settings.access!r} has "
            "blocks: use world.access=fdma, or knowledge.scheduler=random"
        )
    if config.scheduler in ENERGY and settings.noise_watt is not None:
        raise BadInput(
            f"knowledge.scheduler = {config.scheduler!r} needs noise that grows with the band and world.noise_watt = "
            f"{settings.noise_watt:g} is fixed: set world.noise_watt=none"
        )
    if config.scheduler in ENERGY and config.deadline_s == inf:
        raise BadInput(
            f"knowledge.deadline_s = inf does not go with knowledge.scheduler = {config.scheduler!r}, whose devices "
            "send until the deadline: give seconds, or none for world.deadline_s"
        )
    if config.epochs and problem.train.epochs:
        raise BadInput(
            f"train.epochs = {problem.train.epochs} and knowledge.epochs = {config.epochs} both say how long devices "
            "train: set one of them to 0"
        )
    if config.epochs and setting(config, problem, "batch_size") == 0:
        raise BadInput(
            f"knowledge.epochs = {config.epochs} needs mini-batches and batch_size = 0 has none: set it to 64"
        )


# ---------------------------------------------------------------- broadcast, local


def broadcast(problem: Problem, params: Tensor, state: State, observation: Observation, decision: Decision) -> Start:
    """Every device continues from its own model."""
    return own_starts(problem, state.own, state.origin, decision)


def local(
    config: Config, problem: Problem, state: State, start: Start, observation: Observation, decision: Decision
) -> Updates:
    """Train the selected devices. They send class means, `[n_rows, n_classes n_features]`, and keep their models."""
    knowledge, known = targets(config, problem, state, observation)
    objective = None
    if config.pull > 0 and known.any():
        mask = torch.from_numpy(known.astype(np.float32)).to(knowledge.device)
        strength = pull_strength(config.pull, config.pull_scale, knowledge.shape[1])
        objective = partial(pulled_loss, strength, knowledge, mask)
    work = work_of(config, problem, observation, decision, objective=objective)
    return problem.learner.train(start, work._replace(report=class_mean_report(problem)))


def targets(config: Config, problem: Problem, state: State, observation: Observation) -> tuple[Tensor, Bools]:
    """`Omega` and the classes that have one, as the devices of this round get them."""
    if config.initial != "upload" or observation.round > 0:
        return state.knowledge, state.known
    everyone = np.flatnonzero(observation.store.size)
    means = means_of(problem, models_of(problem, state.own, state.origin, everyone), everyone, observation)
    return merged(means, held_classes(problem, observation.store)[everyone], state.knowledge, state.known)


# ---------------------------------------------------------------- aggregate, evaluate


def aggregate(config: Config, problem: Problem, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    """Average the class means that arrived; devices keep their models, heard or not; queues grow by what was spent."""
    counts = held_classes(problem, played.observation.store)
    knowledge, known = targets(config, problem, state, played.observation)
    device, rows = played.received()
    if len(device):
        knowledge, known = merged(rows.view(len(device), *knowledge.shape), counts[device], knowledge, known)
    joule = played.uplink.spent_joule
    mean = budget_joule(config, problem) / problem.n_rounds
    return params, state._replace(
        own=remembered(state.own, played),
        knowledge=knowledge,
        known=known,
        labels=counts,
        queue_joule=np.maximum(state.queue_joule + joule - mean, 0.0),  # chen-ch4 Eq. (4.21)
        spent_joule=state.spent_joule + joule,
        times=state.times + played.decision.selected,
    )


def evaluate(problem: Problem, params: Tensor, state: State) -> Mapping[str, float]:
    """Every device's own model on its own test samples."""
    return judge_own(problem, state.labels, state.own, state.origin)
