"""FL-GR: the server steps with the newest gradient of every device, recycled if a device was not heard.

With `g_k = (w - w_k) / lr` of the devices heard and `G_k` the last one of each, zero before the first,

    w <- w - lr (1/K) sum_k G_k

over all `K` devices. Who trains is the matching of devices and resource blocks that lets the expected mean square of
the staleness `tau_k`, rounds since a device was heard, fall most: a pair weighs `(tau_k + 1)^2` times the probability
that its upload survives, at the highest power its energy allows.

Settings choose other rules for gradients that were not received, and other schedulers. All of them share the pairs,
powers and draws.

Reference: chen-ch5 (Chen, Efficient Federated Learning over Wireless Networks, chapter 5), Eqs. (5.3)-(5.34)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ... import radio
from ...errors import Diverged
from ...options import option
from ...rng import stream
from ...types import Decision, Floats, Ints, Method, Observation, Problem, Round
from ..m_fedavg import average, with_models
from ..parts.contributions import Contributions, nothing, remember, rows_of, weighted_sum
from ..parts.defaults import LocalConfig, default, local, mean_update, needs_sgd, rate, setting, steps_of
from ..parts.matching import Pairs, draft, given, match, pairs
from ..parts.turns import MATCHED, refuse_turns
from . import diagnostics
from .diagnostics import Memory
from .theory import expected_square_staleness, next_staleness


@dataclass(frozen=True)
class Config(LocalConfig):
    """Settings of FL-GR, its baselines and its schedulers."""

    rule: str = option(
        "recycle",
        "what stands for a device that was not heard: its last gradient; the same with the server keeping the mean and "
        "devices their own; a zero gradient; nothing, the mean being over the devices heard; its last model",
        choices=("recycle", "memory_friendly", "zero", "received", "models"),
    )
    freeze_if_none: bool = option(False, "leave the model as it is in a round in which nobody was heard")
    scheduler: str = option(
        "staleness",
        "weight of a device beside its chance to be heard: squared staleness, none, the norm of its gradient; or lots",
        choices=("staleness", "success", "gradient", "random"),
    )
    norms: str = option(
        "oracle",
        "gradient norms (scheduler=gradient): of a mini-batch on every device, at no cost; or of the last gradient "
        "received, the largest of all for devices never heard",
        choices=("oracle", "cached"),
        needs="scheduler=gradient",
    )
    n_selected: int = option(10, "devices picked per cell and round in a world without resource blocks", least=1)
    effort: str = option("fixed", "every device does `steps`", choices=("fixed",))
    blocks: str = option("matched", "who gets which resource block: the scheduler's matching", choices=("matched",))
    prox: float = option(0.0, "strength of the pull to the global model; with rule=received it is FedProx", least=0)
    diagnose: bool = option(False, "record the errors of reusing gradients and models; trains every device each round")


class State(NamedTuple):
    """What is kept between rounds; a field is None if the settings do not need it."""

    staleness: Ints  # [n_devices], rounds since a device was heard
    norm: Floats  # [n_devices], of the last gradient received, 0 before the first
    kept: Contributions | None  # last gradients (recycle), those of the devices (memory_friendly), last models
    mean: Tensor | None  # [n_params], the server's mean gradient (memory_friendly)
    origin: Tensor | None  # [n_params], stands for the model of a device never heard (models)
    model: Tensor | None  # [n_params], the present one (norms=oracle)
    memory: Memory | None  # of the diagnostics


def build(config: Config) -> Method:
    return default(config)._replace(
        init=partial(init, config),
        decide=partial(decide, config),
        local=partial(local, config, prox=config.prox),
        aggregate=partial(aggregate, config),
        needs_rows=True,
        evaluate=evaluate,
    )


def init(config: Config, problem: Problem, params: Tensor) -> State:
    refuse_turns(problem, "the matching of devices and bands", MATCHED)
    n = problem.world.n_devices
    keeps = config.rule in ("recycle", "memory_friendly", "models")
    if config.rule in ("recycle", "memory_friendly") or config.scheduler == "gradient":
        needs_sgd(config, problem)
    return State(
        staleness=np.zeros(n, dtype=np.int64),
        norm=np.zeros(n),
        kept=nothing(n, len(params)) if keeps else None,
        mean=torch.zeros_like(params) if config.rule == "memory_friendly" else None,
        origin=params if config.rule == "models" else None,
        model=params if _asks_everyone(config) else None,
        memory=diagnostics.begin(n, params) if config.diagnose else None,
    )


def _asks_everyone(config: Config) -> bool:
    return config.scheduler == "gradient" and config.norms == "oracle"


# ---------------------------------------------------------------- decide


def decide(config: Config, problem: Problem, state: State, observation: Observation) -> Decision:
    """Weigh every pair, match, and send at the power of the pair. Reference: chen-ch5, Algorithm 8"""
    steps, batch = steps_of(config, problem, observation.store), setting(config, problem, "batch_size")
    plan = draft(problem, observation, steps, batch, config.n_selected)
    found = pairs(problem, observation, plan)
    weight = WEIGHTS[config.scheduler](config, problem, state, observation, found)
    band = match(problem, observation, np.where(found.feasible, weight, 0.0), config.n_selected)
    decision = given(problem, plan, found, band)
    return decision._replace(info=columns(problem, state, observation, decision, found, band))


def by_staleness(config: Config, problem: Problem, state: State, observation: Observation, found: Pairs) -> Floats:
    """Squared staleness times the chance to be heard: `(tau + 1)^2 P`. Reference: chen-ch5, Eq. (5.32)"""
    return (state.staleness[:, None] + 1.0) ** 2 * found.success


def by_success(config: Config, problem: Problem, state: State, observation: Observation, found: Pairs) -> Floats:
    """The chance to be heard: `P`. Reference: chen-ch5, section 5.2 (STP)"""
    return found.success


def by_gradient(config: Config, problem: Problem, state: State, observation: Observation, found: Pairs) -> Floats:
    """The norm of the gradient times the chance to be heard: `|g| P`. Reference: chen-ch5, section 5.2 (GI) and A-8"""
    if state.model is None:
        norm = np.where(state.norm > 0, state.norm, state.norm.max() or 1.0)
    else:
        norm = diagnostics.gradient_norms(config, problem, state.model, observation)
    if not np.isfinite(norm).all():
        raise Diverged(f"round {observation.round}: gradients left the finite numbers: lower the learning rate")
    return norm[:, None] * found.success


def at_random(config: Config, problem: Problem, state: State, observation: Observation, found: Pairs) -> Floats:
    """Draw a number for every device, so that the highest are matched; far smaller draws decide who gets which block.

    Reference: chen-ch5, section 5.2 (Random)
    """
    lot = stream(problem.seed, observation.round, "schedule").random(len(found.success))
    return lot[:, None] + 1e-9 * stream(problem.seed, observation.round, "schedule blocks").random(found.success.shape)


WEIGHTS: dict[str, Callable[[Config, Problem, State, Observation, Pairs], Floats]] = {
    "staleness": by_staleness,
    "success": by_success,
    "gradient": by_gradient,
    "random": at_random,
}


def columns(
    problem: Problem, state: State, observation: Observation, decision: Decision, found: Pairs, band: Ints
) -> dict[str, float]:
    """Columns of a row: devices with a feasible pair; mean square staleness, expected and, if foreseeable, real."""
    chance = np.take_along_axis(found.success, np.maximum(band, 0)[:, None], axis=1)[:, 0]
    told = {
        "n_feasible": float(found.feasible.any(axis=1).sum()),
        "asgs_pred": expected_square_staleness(state.staleness, np.where(decision.selected, chance, 0.0)),
    }
    settings = problem.world.settings
    if settings.edge_rounds and settings.outage_threshold_db is not None and settings.outage != "same_fading":
        return told  # an edge cannot foresee draws that are made for the whole network
    heard = radio.transmit(problem.world, observation, decision, problem.seed).delivered
    return told | levels(next_staleness(state.staleness, heard))


def levels(staleness: Ints) -> dict[str, float]:
    """Columns of a row: real mean square staleness, mean staleness."""
    return {"asgs_real": float(np.mean(staleness.astype(np.float64) ** 2)), "stale_mean": float(staleness.mean())}


# ---------------------------------------------------------------- aggregate


def aggregate(config: Config, problem: Problem, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    """Step by the rule of the settings, and update staleness and norms."""
    device, rows = played.received()
    lr = rate(config, problem, played.observation.round)
    staleness, norm = next_staleness(state.staleness, played.uplink.delivered), state.norm.copy()
    norm[device] = torch.linalg.vector_norm(rows, dim=1).double().cpu().numpy() / lr
    memory = state.memory
    if memory is not None:
        memory = diagnostics.measure(config, problem, memory, params, played)
    state = state._replace(staleness=staleness, norm=norm, memory=memory)
    if len(device) or not config.freeze_if_none:
        params, state = RULES[config.rule](lr, params, state, played)
    return params, state._replace(model=None if state.model is None else params)


def recycle(lr: float, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    """`w - lr (1/K) sum_k G_k` over all devices. Reference: chen-ch5, Eqs. (5.5)-(5.7)"""
    assert state.kept is not None
    kept = with_gradients(state.kept, lr, played)
    return params - lr * weighted_sum(kept, _equal(state), params), state._replace(kept=kept)


def memory_friendly(lr: float, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    """The server's mean moves by `(1/K) sum (g_k - G_k)` of the devices heard. Reference: chen-ch5, Algorithm 7"""
    assert state.kept is not None
    assert state.mean is not None
    device, rows = played.received()
    before = rows_of(state.kept, device, params)
    change = (rows / -lr - before).sum(dim=0) / len(state.staleness)
    mean = state.mean + change
    return params - lr * mean, state._replace(mean=mean, kept=with_gradients(state.kept, lr, played))


def zero(lr: float, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    """`w - lr (1/K) sum g_k` over the devices heard. Reference: chen-ch5, Eq. (5.8)"""
    device, rows = played.received()
    return mean_update(params, _equal(state)[device], rows), state


def received(lr: float, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    """Step by the mean over the devices heard. Reference: chen-ch5, section 3.3 (W/GR)"""
    device, rows = played.received()
    return mean_update(params, np.full(len(device), 1 / max(len(device), 1)), rows), state


def models(lr: float, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    """Average the last models; the start model stands for devices not heard. Reference: chen-ch5, section 5.1 (MC)"""
    assert state.kept is not None
    assert state.origin is not None
    kept = with_models(state.kept, params, played)
    return average(kept, state.origin, _equal(state)), state._replace(kept=kept)


RULES: dict[str, Callable[[float, Tensor, State, Round], tuple[Tensor, State]]] = {
    "recycle": recycle,
    "memory_friendly": memory_friendly,
    "zero": zero,
    "received": received,
    "models": models,
}


def with_gradients(kept: Contributions, lr: float, played: Round) -> Contributions:
    """Return the buffer with `(w - w_k) / lr` of every device heard. Reference: chen-ch5, Eqs. (5.5), (5.6)"""
    device, rows = played.received()
    return remember(kept, device, rows, played.decision.steps[device], scale=np.full(len(device), -1.0 / lr))


def _equal(state: State) -> Floats:
    return np.full(len(state.staleness), 1 / len(state.staleness))


def evaluate(problem: Problem, params: Tensor, state: State) -> Mapping[str, float]:
    """Accuracy and loss, staleness, and what the diagnostics found."""
    found = {**problem.learner.evaluate(params), **levels(state.staleness)}
    return found if state.memory is None else {**found, **state.memory.columns()}
