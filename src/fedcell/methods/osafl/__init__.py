"""OSAFL: clients plan their own round, the server scores their last normalised gradients by similarity.

A client that finds a plan runs `kappa_u` steps and sends `d_u = (w - w_u) / (lr kappa_u)`. If a client finds none, the
server uses its last `d_u` again. With `d` the mean of all `d_u`, `lambda_u = (chi + cos(d, d_u)) / (chi + 1)` and
scores `Delta_u`,

    w <- w - server_lr * lr * (1/U) sum_u Delta_u d_u

Nothing about a client's data, steps or hardware enters the scores `lambda`, `one` and `mean`.

Deviation: the paper fills the slot of a client never heard with `w / lr`, which makes the model explode; here it is 0
(`never_seen`), the gradient of a client that has not trained.

Reference: osafl (Pervej, Choi, Molisch: Online-Score-Aided Federated Learning), Algorithm 2, Eqs. (14)-(21), (35)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from torch import Tensor

from ...options import option
from ...types import Floats, Method, Observation, Problem, Round
from ..parts.classes import held_classes
from ..parts.client_planning.plan import ClientConfig, check_world, planned
from ..parts.contributions import Contributions, cosines, nothing, remember, weighted_sum
from ..parts.defaults import needs_sgd, rate
from . import diagnostics, theory
from .diagnostics import Memory


@dataclass(frozen=True)
class Config(ClientConfig):
    """Settings of OSAFL."""

    server_lr: float = option(
        5.0, "step of the server, eta tilde; with scores of 1 and so many steps it is FedAvg", above=0
    )
    score: str = option(
        "lambda",
        "weight of a client: its similarity, the minimiser of the bound, 1 for all, or for all the mean similarity "
        "of the clients heard, a step as long as that of lambda without its preferences",
        choices=("lambda", "kkt", "one", "mean"),
    )
    chi: float = option(1.0, "flattens similarities towards 1", least=1)
    never_seen: str = option(
        "zero", "contribution of a client never heard: none, or the paper's w / lr", choices=("zero", "paper")
    )
    smoothness: float = option(1.0, "smoothness beta of the loss (score=kkt)", above=0, needs="score=kkt")
    noise: float = option(1.0, "variance sigma^2 of a stochastic gradient (score=kkt)", least=0, needs="score=kkt")
    rho1: float = option(1.0, "gradient dissimilarity, slope (score=kkt, diagnose)", least=0)
    rho2: float = option(
        1.0, "gradient dissimilarity per unit of label distance (score=kkt)", least=0, needs="score=kkt"
    )
    shift: float = option(0.0, "squared change of a gradient by new data, Phi (score=kkt)", least=0, needs="score=kkt")
    psi: float = option(1.0, "weight of the bound's denominator (score=kkt)", above=0, needs="score=kkt")
    diagnose: bool = option(False, "record the terms of Theorem 1; costs four gradients of every client a round")


class State(NamedTuple):
    """The last gradient of every client, and the similarities and scores of the last round."""

    kept: Contributions
    similarity: Floats  # [n_devices], lambda
    score: Floats  # [n_devices], Delta
    memory: Memory | None  # of the diagnostics


def build(config: Config) -> Method:
    return planned(config)._replace(
        init=partial(init, config),
        aggregate=partial(aggregate, config),
        evaluate=evaluate,
        needs_labels=config.score == "kkt" or config.diagnose,
    )


def init(config: Config, problem: Problem, params: Tensor) -> State:
    check_world(problem)
    needs_sgd(config, problem)
    n = problem.world.n_devices
    memory = diagnostics.begin(n, params) if config.diagnose else None
    return State(nothing(n, len(params)), np.zeros(n), np.zeros(n), memory)


def aggregate(config: Config, problem: Problem, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    """Normalise, score, step; osafl Algorithm 2, lines 10 to 21."""
    lr = rate(config, problem, played.observation.round)
    kept = normalised(state.kept, lr, played)
    absent = params / lr if config.never_seen == "paper" and not kept.seen.all() else None
    equal = np.full(len(kept.seen), 1 / len(kept.seen))
    similarity = similarities(kept, config.chi, combined(kept, equal, params, absent), absent)
    score = scores(config, problem, played.observation, kept, similarity)
    step = combined(kept, equal * score, params, absent)  # osafl Eq. (17)
    memory = state.memory
    if memory is not None:
        memory = diagnostics.measure(config, problem, memory, params, played.observation, kept.steps, similarity, score)
    return params - config.server_lr * lr * step, State(kept, similarity, score, memory)


def normalised(kept: Contributions, lr: float, played: Round) -> Contributions:
    """Return the buffer with `d_u = (w - w_u) / (lr kappa_u)` of every client heard. Reference: osafl, Eq. (16)"""
    device, rows = played.received()
    steps = played.decision.steps[device]
    return remember(kept, device, rows, steps, scale=-1.0 / (lr * steps.astype(np.float64)))


def combined(kept: Contributions, weights: Floats, like: Tensor, absent: Tensor | None) -> Tensor:
    """`sum_u weights[u] d_u`, with `absent` as the row of every client never heard (None: zero)."""
    total = weighted_sum(kept, weights, like)
    return total if absent is None else total.add_(absent, alpha=float(weights[~kept.seen].sum()))


def similarities(kept: Contributions, chi: float, mean: Tensor, absent: Tensor | None = None) -> Floats:
    """`lambda_u = (chi + cos(d, d_u)) / (chi + 1)`, in [0, 1], `[n_devices]`. Reference: osafl, Eqs. (19)-(21)"""
    cosine = cosines(kept, mean)
    if absent is not None:
        size = float(mean.norm()) * float(absent.norm())
        cosine[~kept.seen] = float(mean @ absent) / size if size > 0 else 0.0
    return np.asarray((chi + np.clip(cosine, -1.0, 1.0)) / (chi + 1))


def scores(
    config: Config, problem: Problem, observation: Observation, kept: Contributions, similarity: Floats
) -> Floats:
    """Score of every client by the rule `config.score`: `Delta_u`, `[n_devices]`. Reference: osafl, Eqs. (33)-(35)"""
    if config.score == "lambda":
        return similarity
    if config.score == "one":
        return np.ones_like(similarity)
    if config.score == "mean":
        return np.full_like(similarity, similarity[kept.seen].mean() if kept.seen.any() else 1.0)
    lr, n = rate(config, problem, observation.round), len(similarity)
    constants = theory.Constants(lr, config.server_lr, config.smoothness, config.noise, config.rho1, config.rho2)
    distance = label_distance(problem, observation)
    return theory.best_scores(constants, np.full(n, 1 / n), kept.steps, similarity, config.shift, distance, config.psi)


def label_distance(problem: Problem, observation: Observation) -> Floats:
    """Distance of each client's label shares from those of all, in the present stores: `delta_u`, `[n_devices]`."""
    return theory.label_distance(held_classes(problem, observation.store))


def evaluate(problem: Problem, params: Tensor, state: State) -> Mapping[str, float]:
    """Accuracy and loss, the scores of the clients heard so far, and the terms of the bound if they are recorded."""
    seen = state.kept.seen
    columns = {"never_seen": float((~seen).sum())}
    if seen.any():
        mine = state.score[seen]
        columns |= {"score_mean": float(mine.mean()), "score_min": float(mine.min()), "score_max": float(mine.max())}
    if state.memory is not None:
        columns |= state.memory.columns
    return {**problem.learner.evaluate(params), **columns}
