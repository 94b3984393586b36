"""AMP-FL: devices train parts of the model that fit the deadline, and old gradients stand for what is left out.

The server cuts a sub-model for every scheduled device. In each layer it keeps the share `psi` of the units (filters,
neurons) with which the device computes and sends in time, and takes those first that the device has not trained for
longest. With `G_k` the last gradient of every entry, zero before the first,

    w <- w - lr (1/K) sum_k G_k

over all `K` devices. A unit's age is the number of rounds since the device trained it; bands go to the devices whose
kept units have the largest sum of `(age + 1)^2`, which lets the mean squared age fall most.

Settings choose other rules for units, other schedulers, a fixed ratio, or no compensation. All of them share channels,
draws and batches.

Reference: chen-ch6 (Chen, Efficient Federated Learning over Wireless Networks, chapter 6), Eqs. (6.1)-(6.20)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...errors import BadInput
from ...options import option
from ...radio.downlink import download
from ...radio.forecast import times
from ...rng import uniforms
from ...types import Bools, Decision, Floats, Ints, Method, Observation, Problem, Round, Start, Updates
from ..parts import defaults
from ..parts.contributions import Contributions, nothing, remember, rows_of, weighted_sum
from ..parts.defaults import TrainingConfig, mean_update, needs_sgd, rate, setting, steps_of, work_of
from ..parts.matching import draft
from ..parts.resources import waiting
from ..parts.turns import MATCHED, refuse_turns
from . import submodels
from .schedule import ROUNDING, SCHEDULERS, BandOffers, Bands, offers, omega, unit_masks, unit_order
from .theory import age_cost, next_age, output_scale
from .units import Units, entry_masks, importance, kept_units, load, units_of


@dataclass(frozen=True)
class Config(TrainingConfig):
    """Settings of AMP-FL, its baselines and its schedulers."""

    scheduler: str = option(
        "omega",
        "who trains on which band: the largest sum of squared ages of kept units, the least pruning, the strongest "
        "channels, or lots",
        choices=tuple(SCHEDULERS),
    )
    n_selected: int = option(10, "devices picked per cell and round in a world without resource blocks", least=1)
    keep: float | None = option(
        None, "share of units kept in every layer; none: as the deadline allows", above=0, most=1
    )
    deadline_s: float | None = option(None, "time to compute and send; none: world.deadline_s", above=0, infinite=True)
    clock: str = option(
        "world", "a round lasts as the world's clock says, or always deadline_s", choices=("world", "deadline")
    )
    mask_rule: str = option(
        "oldest",
        "units kept: trained longest ago, of the largest weights, or any",
        choices=("oldest", "importance", "random"),
    )
    score: str = option(
        "l1", "importance of a unit: the sum of the magnitudes of its weights, or their sum", choices=("l1", "sum")
    )
    ties: str = option("random", "which of units equally old come first", choices=("random", "index"))
    cache: str = option(
        "auto",
        "old gradients stand for what was not trained; off: the mean over devices (mean_over), with 0 for what they "
        "pruned; auto: on for mask_rule=oldest",
        choices=("auto", "on", "off"),
    )
    mean_over: str = option(
        "heard",
        "without old gradients, the mean is over the devices heard, or over all with 0 for those not heard",
        choices=("heard", "all"),
        needs="cache!=on",
    )
    row_overwrite: bool = option(False, "a kept unit replaces its whole row, with 0 for inputs that were pruned")
    min_one_unit: bool = option(False, "keep one unit in layers that would lose all, even if that is late")
    memory: str = option(
        "server",
        "who keeps the gradients: the server; or devices, and the server their mean",
        choices=("server", "device"),
    )
    form: str = option(
        "auto",
        "sub-models are trained as small networks (on a GPU padded to one shape), or as the full one with a mask; "
        "auto: small networks",
        choices=("auto", "extract", "mask"),
    )

    @property
    def compensates(self) -> bool:
        return self.cache == "on" or (self.cache == "auto" and self.mask_rule == "oldest")


class State(NamedTuple):
    """What is kept between rounds; a field is None if the settings do not need it."""

    age: Ints  # [n_devices, n_regions], rounds since a device trained a unit; one region if nothing can be cut
    kept: Contributions | None  # last gradients, entry by entry
    mean: Tensor | None  # [n_params], their mean at the server (memory=device)
    score: Floats | None  # [n_units], importance of each in the present model


def build(config: Config) -> Method:
    return Method(
        init=partial(init, config),
        decide=partial(decide, config),
        broadcast=defaults.broadcast,
        local=partial(local, config),
        aggregate=partial(aggregate, config),
        needs_rows=True,
        evaluate=evaluate,
        sends="parts of a model",
        statistics="refused",
    )


def init(config: Config, problem: Problem, params: Tensor) -> State:
    refuse_turns(problem, "the matching of devices and bands", MATCHED)
    _refuse(config, problem)
    if config.compensates:
        needs_sgd(config, problem)
    n, units = problem.world.n_devices, network(problem)
    return State(
        age=np.zeros((n, sum(regions(units))), dtype=np.int64),
        kept=nothing(n, len(params)) if config.compensates else None,
        mean=torch.zeros_like(params) if config.compensates and config.memory == "device" else None,
        score=scores(config, units, params),
    )


def _refuse(config: Config, problem: Problem) -> None:
    edge_rounds, of_world_s = problem.world.settings.edge_rounds, problem.world.settings.deadline_s
    if config.clock == "deadline" and not isfinite(of_world_s if config.deadline_s is None else config.deadline_s):
        raise BadInput("pruning.clock = 'deadline' needs a finite pruning.deadline_s or world.deadline_s: set one")
    if waits(config) and edge_rounds:
        raise BadInput(
            f"pruning.min_one_unit waits longer in some cells and world.edge_rounds = {edge_rounds} keeps one deadline "
            "for all: set pruning.min_one_unit=false, or a fixed pruning.keep"
        )


def waits(config: Config) -> bool:
    """Whether the deadline is extended for devices that would lose a whole layer; never with a fixed keep ratio."""
    return config.min_one_unit and config.keep is None


def network(problem: Problem) -> Units:
    """The units of the problem's network; refuses networks that cannot be cut."""
    learner = problem.learner
    return units_of(learner.architectures[0], learner.train_samples.shape)


def regions(units: Units) -> tuple[int, ...]:
    """Units per layer; a network without hidden units is one region, trained whole or not at all."""
    return units.sizes or (1,)


def scores(config: Config, units: Units, params: Tensor) -> Floats | None:
    if config.mask_rule != "importance":
        return None
    return importance(units, params, absolute=config.score == "l1") if units.sizes else np.zeros(1)


# ---------------------------------------------------------------- decide, local


def decide(config: Config, problem: Problem, state: State, observation: Observation) -> Decision:
    """Find keep ratios, kept units and weights, then match bands. Reference: chen-ch6, Algorithms 9 and 10"""
    units = network(problem)
    plan = full_model(config, problem, observation)
    found = offers(problem, observation, plan, regions(units), config.keep, config.min_one_unit)
    order = unit_order(priority(config, problem, state, observation), regions(units))
    worth = omega(state.age, order, found.counts)
    band = SCHEDULERS[config.scheduler](Bands(problem, observation, found, worth, config.n_selected))
    device = np.flatnonzero(band >= 0)
    counts, share = found.counts[device, band[device]], np.ones(len(band))
    share[device] = found.share[device, band[device]]
    keep = unit_masks([part[device] for part in order], counts)
    decision = plan._replace(
        selected=band >= 0,
        block=band if problem.world.settings.access == "block" else np.full_like(band, -1),
        samples_per_step=plan.samples_per_step * share**2,  # chen-ch6 Eqs. (6.5), (6.6)
        payload_bit=plan.payload_bit * share**2,  # chen-ch6 Eqs. (6.4), (6.7)
        download_bit=plan.payload_bit * share**2,  # the sub-model, as on the way up
        mask=None if keep.all() else entry_masks(units, keep, problem.learner.device),
        info=columns(units, found, plan, counts, share[device]),
    )
    return in_time(config, problem, observation, decision)


def full_model(config: Config, problem: Problem, observation: Observation) -> Decision:
    """Draft a decision in which everyone trains the full model at full clock and power."""
    plan = draft(
        waiting(problem, config.deadline_s),
        observation,
        steps_of(config, problem, observation.store),
        setting(config, problem, "batch_size"),
        config.n_selected,
    )
    return plan._replace(round_s=plan.deadline_s) if config.clock == "deadline" else plan


def priority(config: Config, problem: Problem, state: State, observation: Observation) -> Floats:
    """`[n_devices, n_regions]`: within a layer, units of higher priority are kept first."""
    n_devices, n_regions = state.age.shape
    device, unit = np.arange(n_devices)[:, None], np.arange(n_regions)
    if config.mask_rule == "importance":
        return np.broadcast_to(np.asarray(state.score), state.age.shape)
    lots = uniforms(problem.seed, observation.round, "pruned units", device, unit)
    if config.mask_rule == "random":
        return lots
    return state.age + (lots if config.ties == "random" else np.zeros_like(lots))  # chen-ch6


def in_time(config: Config, problem: Problem, observation: Observation, decision: Decision) -> Decision:
    """Extend the deadline for devices that are late because they keep a unit in every layer (`min_one_unit`)."""
    if not waits(config) or not decision.selected.any() or observation.response_s is not None:
        return decision
    down = download(problem.world, observation, decision)
    compute_s, upload_s = times(problem.world, observation, decision)
    ends_s = compute_s + upload_s + (0.0 if down is None else down.seconds)
    last_s = float(ends_s[decision.selected].max())
    if last_s <= decision.deadline_s * (1 + ROUNDING):
        return decision
    late_s = last_s * (1 + ROUNDING)
    return decision._replace(deadline_s=late_s, round_s=late_s if config.clock == "deadline" else decision.round_s)


def columns(units: Units, found: BandOffers, plan: Decision, counts: Ints, share: Floats) -> dict[str, float]:
    """Columns of a row: who could train, what was kept, its load by `psi^2` and exactly, how far outputs fade."""
    told = {"n_feasible": float(found.feasible.any(axis=1).sum())}
    if not len(share):
        return told
    sizes = np.array(units.sizes, dtype=np.int64)
    n_params, flops = load(units, counts[:, : len(sizes)])
    all_params, all_flops = load(units, sizes)
    return told | {
        "keep_mean": float(share.mean()),
        "keep_min": float(share.min()),
        "keep_max": float(share.max()),
        "load": float((share**2).mean()),
        "load_parameters": float((n_params / all_params).mean()),
        "load_flops": float((flops / all_flops).mean()),
        "exact_payload_bit": float((n_params / all_params).sum() * plan.payload_bit[0]),
        "output_scale": float(output_scale((counts[:, : len(sizes)] / sizes)[:, units.last_norm :]).mean()),
    }


def local(
    config: Config, problem: Problem, state: State, start: Start, observation: Observation, decision: Decision
) -> Updates:
    """Local SGD on the sub-models. Reference: chen-ch6, Eq. (6.1)"""
    work = work_of(config, problem, observation, decision)
    form = "extract" if config.form == "auto" else config.form
    return submodels.train(problem.learner, network(problem), start, work, form)


# ---------------------------------------------------------------- aggregate


def aggregate(config: Config, problem: Problem, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    """Step with the newest gradient of every entry and device; update ages. Reference: chen-ch6, Eqs. (6.2), (6.9)"""
    units, lr = network(problem), rate(config, problem, played.observation.round)
    device, rows = played.received()
    masks = heard_masks(played)
    state = state._replace(age=next_age(state.age, trained(units, state, device, masks)))
    if config.row_overwrite and masks is not None:
        masks = entry_masks(units, kept_units(units, masks), masks.device, whole_rows=True)
    if state.kept is None:
        # Deviation: the printed update divides by K; for rules without cache the source says "averaged", no more
        n_mean = len(device) if config.mean_over == "heard" else problem.world.n_devices
        params = mean_update(params, np.full(len(device), 1 / max(n_mean, 1)), rows)
    else:
        params, state = compensated(lr, params, state, played, masks)
    return params, state._replace(score=scores(config, units, params))


def compensated(lr: float, params: Tensor, state: State, played: Round, masks: Tensor | None) -> tuple[Tensor, State]:
    """Step to `w - lr (1/K) sum_k G_k`.

    With `memory=device` the server updates its mean of the `G_k`; else it computes the mean from all `G_k`.

    Reference: chen-ch6, section 3.1, Algorithm 11
    """
    assert state.kept is not None
    device, rows = played.received()
    scale, n = np.full(len(device), -1.0 / lr), len(state.age)
    kept = remember(state.kept, device, rows, played.decision.steps[device], scale, mask=masks)
    if state.mean is None:
        return params - lr * weighted_sum(kept, np.full(n, 1 / n), params), state._replace(kept=kept)
    change = rows / -lr - rows_of(state.kept, device, params)
    if masks is not None:
        change = change * masks
    mean = state.mean + change.sum(dim=0) / n
    return params - lr * mean, state._replace(kept=kept, mean=mean)


def heard_masks(played: Round) -> Tensor | None:
    """The masks of the devices heard, `[n_rows, n_params]`; None if all were whole."""
    masks = played.decision.mask
    if masks is None:
        return None
    arrived = played.uplink.delivered[played.updates.device]
    return masks if arrived.all() else masks[torch.from_numpy(arrived).to(masks.device)]


def trained(units: Units, state: State, device: Ints, masks: Tensor | None) -> Bools:
    """`alpha m`: which units of which device arrived, `[n_devices, n_regions]`."""
    found = np.zeros(state.age.shape, dtype=np.bool_)
    found[device] = True if masks is None else kept_units(units, masks)
    return found


def evaluate(problem: Problem, params: Tensor, state: State) -> Mapping[str, float]:
    """Accuracy and loss; mean age of units, mean squared age, and `A_t`, its sum over the units of a device."""
    age = state.age.astype(np.float64)
    ages = {"age_mean": float(age.mean()), "age_square": float((age**2).mean()), "age_cost": age_cost(state.age)}
    return {**problem.learner.evaluate(params), **ages}
