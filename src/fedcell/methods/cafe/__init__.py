"""CAFe: everyone trains, the server waits until a deadline, and a quorum decides whether the round counts.

All devices get the model; `S` are those whose gradient arrives before the deadline `T`. With at least
`M` of them, `w <- w - eta_t sum_{k in S} a_k g_k`, else the round fails and `w` stays.

- `mcu`: `a_k = 1 / |S|`; a failed round drops its gradients.
- `awu`: `a_k` proportional to `Q(age_k) = min(age_k, cap)^power`, the age just before it drops.
- `agu`: `g_k` sums the gradients of device `k` since the last success, each from its own local model.

Ages grow with time and drop to `T` for the devices of `S` in a successful round. Gradients are of
the scaled loss: times `N |D_k| / sum_i |D_i|`. A round lasts `T` whether it counts or not.

The world draws the answers before training, so gradients that would be dropped are never computed;
their time and energy are spent all the same.

Reference: Liyanaarachchi, Thilakarathna, Ulukus, CAFe: Cost and Age aware Federated Learning, 2024.
"""

from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ... import radio
from ...errors import BadInput
from ...learn.prediction import probabilities
from ...options import option
from ...types import Bools, Decision, Floats, Ints, Method, Observation, Problem, Round, Start, Updates, Uplink
from ...world.devices import hardware
from ..parts import defaults
from ..parts.defaults import LocalConfig, default, mean_update, needs_sgd, rate
from ..parts.resources import waiting
from . import theory


@dataclass(frozen=True)
class Config(LocalConfig):
    """Settings of CAFe."""

    scheme: str = option("mcu", "how gradients of a round become a step", choices=("mcu", "awu", "agu"))
    quorum: int = option(1, "least number of answers that make a round count, M", least=1)
    decay: str = option(
        "auto",
        "step size: lr, lr / (1 + t / decay_rounds), or the theorem's; auto: inverse, and fixed for agu",
        choices=("auto", "fixed", "inverse", "theory"),
    )
    decay_rounds: float = option(
        500.0, "rounds after which the step has halved (decay=inverse)", above=0, needs="decay=auto|inverse"
    )
    smoothness: float = option(10.0, "smoothness L of the loss (decay=theory)", above=0, needs="decay=theory")
    convexity: float = option(0.1, "strong convexity mu of the loss (decay=theory)", above=0, needs="decay=theory")
    age_unit: str = option(
        "time",
        "age in seconds, or in rounds since the last contribution (awu)",
        choices=("time", "rounds"),
        needs="scheme=awu",
    )
    age_cap: float = option(10.0, "age beyond which the weight no longer grows (awu)", above=0, needs="scheme=awu")
    age_power: float = option(
        2.0, "power of the age in the weight; 0 weighs all alike (awu)", least=0, needs="scheme=awu"
    )
    agu: str = option(
        "literal",
        "average over the devices of the counting round, or over all that answered since the last (agu)",
        choices=("literal", "union"),
        needs="scheme=agu",
    )
    data_scale: bool = option(True, "scale gradients by the device's share of all samples")
    deadline_s: float | None = option(
        None, "how long the server waits for answers, T; none: world.deadline_s", above=0, infinite=True
    )


class State(NamedTuple):
    """What the server remembers. With agu, the local model of a device is `w` plus its row."""

    age_s: Floats  # [n_devices]
    age_rounds: Ints  # [n_devices], rounds since the last contribution
    gathered: Ints  # [n_devices], gradients since the last success (agu)
    rows: Tensor | None  # [n_gatherers, n_params], their steps summed, for the devices with `gathered > 0`
    success: float  # probability that a round counts (decay=theory)


def build(config: Config) -> Method:
    return default(config)._replace(
        init=partial(init, config),
        decide=partial(decide, config),
        broadcast=partial(broadcast, config),
        local=partial(local, config),
        aggregate=partial(aggregate, config),
        foretell=foretell,
        needs_rows=config.scheme == "agu",
    )


def init(config: Config, problem: Problem, params: Tensor) -> State:
    _check_deadline(config, problem)
    n, deadline_s = problem.world.n_devices, _deadline_s(config, problem)
    if config.quorum > n:
        raise BadInput(f"cafe.quorum = {config.quorum} but there are {n} devices: lower it to at most {n}")
    _check_edges(config, problem)
    needs_sgd(config, problem)
    return State(
        age_s=np.full(n, deadline_s if isfinite(deadline_s) else 0.0),
        age_rounds=np.zeros(n, dtype=np.int64),
        gathered=np.zeros(n, dtype=np.int64),
        rows=None,
        success=_expected_success(config, problem) if config.decay == "theory" else 1.0,
    )


def _deadline_s(config: Config, problem: Problem) -> float:
    return waiting(problem, config.deadline_s).world.settings.deadline_s


def _check_deadline(config: Config, problem: Problem) -> None:
    world_s = problem.world.settings.deadline_s
    if config.deadline_s is not None and config.deadline_s > world_s:
        raise BadInput(
            f"cafe.deadline_s = {config.deadline_s:g} is longer than world.deadline_s = {world_s:g}: lower the first, "
            "or raise the second"
        )


def _check_edges(config: Config, problem: Problem) -> None:
    """Refuse edge models with outage, whose draws a base station cannot foresee, and with `decay=theory`."""
    settings = problem.world.settings
    if settings.edge_rounds and settings.outage_threshold_db is not None:
        raise BadInput(
            "cafe does not go with world.edge_rounds if world.outage_threshold_db is set: it must know beforehand "
            "who answers, so set one of them to none or 0"
        )
    if settings.edge_rounds and config.decay == "theory":
        raise BadInput("cafe.decay = 'theory' does not go with world.edge_rounds: use inverse or fixed")


# ---------------------------------------------------------------- decide, broadcast, local


def decide(config: Config, problem: Problem, state: State, observation: Observation) -> Decision:
    """Everyone who is there gets the model; the round lasts as long as the deadline."""
    decision = defaults.decide(config, waiting(problem, config.deadline_s), state, observation)
    if isfinite(decision.deadline_s):
        decision = decision._replace(round_s=decision.deadline_s)
    uplink = radio.transmit(problem.world, observation, decision, problem.seed)
    return decision._replace(info=_columns(config, state, decision, uplink))


def broadcast(
    config: Config, problem: Problem, params: Tensor, state: State, observation: Observation, decision: Decision
) -> Start:
    """The models of the devices whose gradients will be used."""
    return _models(params, state, np.flatnonzero(_needed(config, problem, observation, decision)))


def foretell(problem: Problem, params: Tensor, state: State, x: Tensor) -> Floats:
    """What every device would predict, one input each, with the model it would start from."""
    return probabilities(problem.learner, _models(params, state, np.arange(len(x))), x)


def _models(params: Tensor, state: State, device: Ints) -> Start:
    """The global model, and local models for those that answered in failed rounds before."""
    if state.rows is None:
        return Start(params[None], np.zeros(len(device), dtype=np.int64))
    has_own = state.gathered[device] > 0
    own = state.rows[_places(state.gathered, device[has_own], params)]
    return Start(torch.cat([params[None], own.add_(params)]), np.where(has_own, np.cumsum(has_own), 0))


def local(
    config: Config, problem: Problem, state: State, start: Start, observation: Observation, decision: Decision
) -> Updates:
    """Train the devices whose gradients will be used."""
    needed = _needed(config, problem, observation, decision)
    return defaults.local(config, problem, state, start, observation, decision._replace(selected=needed))


def _needed(config: Config, problem: Problem, observation: Observation, decision: Decision) -> Bools:
    """Whose gradient is worth computing: AGU keeps every answer, the others those of rounds that count."""
    here = radio.transmit(problem.world, observation, decision, problem.seed).delivered
    return here if config.scheme == "agu" or here.sum() >= config.quorum else np.zeros_like(here)


def _columns(config: Config, state: State, decision: Decision, uplink: Uplink) -> dict[str, float]:
    """Columns of a row: whether the round counts, how many answer, time wasted (cafe Eq. (3)) and the mean age."""
    here = uplink.delivered
    counts = bool(here.sum() >= config.quorum)
    used = float(here.sum())
    if config.scheme == "agu":  # a success redeems gradients of failed rounds
        used += float(state.gathered[here | (config.agu == "union")].sum())
    return {
        "success": float(counts),
        "responders": float(here.sum()),
        "waste_s": uplink.round_s * (float(decision.selected.sum()) - used * counts),
        "mean_age_s": float(state.age_s.mean()) + uplink.round_s / 2,
    }


# ---------------------------------------------------------------- aggregate


def aggregate(config: Config, problem: Problem, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    """Step if the quorum holds, cafe Eq. (2), (19), (20); ages change in any case."""
    device = played.heard()
    factor = _step_factor(config, problem, state, played.observation)[device]
    counts = len(device) >= config.quorum
    state = state._replace(age_s=state.age_s + played.uplink.round_s, age_rounds=state.age_rounds + 1)
    if config.scheme == "agu":
        state = gather(state, device, _scaled(played.received()[1], factor))
        params = _average(config, params, state, device) if counts else params
    elif counts:
        params = mean_update(params, factor * _weights(config, state, device), played)
    return params, _synchronised(state, device, played.uplink.round_s) if counts else state


def _weights(config: Config, state: State, device: Ints) -> Floats:
    """`a_k`, summing to one: equal, or `Q(age)` of the age just before the drop (C15)."""
    if config.scheme != "awu":
        return np.full(len(device), 1 / max(len(device), 1))
    age = (state.age_s if config.age_unit == "time" else state.age_rounds)[device]
    q = np.minimum(age, config.age_cap) ** config.age_power  # cafe L401
    q = q / q.max() if q.max() > 0 else np.ones(len(q))  # equal ages weigh exactly alike
    return np.asarray(q / q.sum())


def _step_factor(config: Config, problem: Problem, state: State, observation: Observation) -> Floats:
    """`eta_t / lr * N |D_k| / sum_i |D_i|`, `[n_devices]`: what turns an update of size `lr` into the step."""
    decay = config.decay if config.decay != "auto" else "fixed" if config.scheme == "agu" else "inverse"
    factor = 1.0
    if decay == "inverse":
        factor = 1 / (1 + observation.round / config.decay_rounds)
    elif decay == "theory":
        eta = theory.step_size(observation.round + 1, config.smoothness, config.convexity, state.success)
        factor = float(eta) / rate(config, problem, observation.round)
    size = observation.store.size
    if not config.data_scale:
        return np.full(len(size), factor)
    return np.asarray(factor * (len(size) * size / max(size.sum(), 1)))  # cafe L63


def _synchronised(state: State, device: Ints, round_s: float) -> State:
    """After a success: the devices that took part are as old as the round, and all local models are global again."""
    age_s, age_rounds = state.age_s.copy(), state.age_rounds.copy()
    age_s[device], age_rounds[device] = round_s, 0
    return state._replace(age_s=age_s, age_rounds=age_rounds, gathered=np.zeros_like(state.gathered), rows=None)


# ---------------------------------------------------------------- gathered gradients


def gather(state: State, device: Ints, rows: Tensor) -> State:
    """The state with one more step of each of `device`."""
    gathered = state.gathered.copy()
    gathered[device] += 1
    if state.rows is None:
        return state._replace(gathered=gathered, rows=rows if len(device) else None)
    merged = rows.new_zeros((int(np.count_nonzero(gathered)), rows.shape[1]))
    merged.index_copy_(0, _places(gathered, np.flatnonzero(state.gathered), rows), state.rows)
    merged.index_add_(0, _places(gathered, device, rows), rows)
    return state._replace(gathered=gathered, rows=merged)


def _average(config: Config, params: Tensor, state: State, device: Ints) -> Tensor:
    """Step by the mean of the sums of this round's devices, or of all that gathered; cafe Eq. (20) and C18."""
    assert state.rows is not None  # a quorum has answered
    gatherer = np.flatnonzero(state.gathered)
    weights = np.isin(gatherer, device) | (config.agu == "union")
    return mean_update(params, weights / weights.sum(), state.rows)


def _places(gathered: Ints, device: Ints, like: Tensor) -> Tensor:
    """Where the rows of `device` lie among those of all devices that gathered something."""
    return torch.from_numpy((np.cumsum(gathered > 0) - 1)[device]).to(like.device)


def _scaled(rows: Tensor, factor: Floats) -> Tensor:
    if (factor == 1).all():
        return rows
    return rows * torch.from_numpy(factor.astype(np.float32)).to(rows.device)[:, None]


# ---------------------------------------------------------------- the theorem's step size


def _expected_success(config: Config, problem: Problem) -> float:
    """`1 - q` with the world's answer times if everyone is available, for the theorem's step size."""
    world, settings = problem.world, problem.world.settings
    if settings.response == "computed":
        raise BadInput("cafe.decay = 'theory' needs drawn answers: set world.response = 'exponential' or 'trace'")
    if world.response_trace_s is not None:
        p = np.full(world.n_devices, np.mean(world.response_trace_s <= _deadline_s(config, problem)))
    else:
        rate = hardware(settings, problem.seed).column("response_rate", settings.response_rate)
        p = theory.answer_probability(_deadline_s(config, problem), rate)
    p[: settings.n_fast] = 1.0  # those that answer at once
    return float(theory.poisson_binomial(p)[config.quorum :].sum())
