"""Who trains in a round of KFL, on which band and at which power: queues of energy, or a simple scheduler.

Not a method itself: it has no `build`.

Reference: chen-ch4, section 4
"""

from collections.abc import Callable
from math import inf, isfinite
from typing import TYPE_CHECKING

import numpy as np

from ... import radio
from ...types import Decision, Floats, Ints, Observation, Problem
from ..parts.classes import held_classes
from ..parts.defaults import setting, steps_of
from ..parts.resources import plan, sending, waiting
from ..parts.schedulers import schedule
from . import energy
from .means import missed_knowledge, payload_bit

if TYPE_CHECKING:
    from . import Config, State

NO_DEADLINE_S = 1.0  # the deadline in a world without one
ENERGY = ("lyapunov", "rotation", "myopic")
WEIGHTS: dict[str, Callable[[int, int], float]] = {  # gamma_t of round t of T
    "harmonic": lambda t, n_rounds: 1.0 / (t + 1.0),  # Deviation: printed as 1/t, which has no value at t = 0
    "constant": lambda t, n_rounds: 1.0,
    "rising": lambda t, n_rounds: (t + 1.0) / n_rounds,
}
COUNTS: dict[str, Callable[[int, int, int], int]] = {  # devices of round t, from n on average
    "fixed": lambda t, n_rounds, n: n,
    "even": lambda t, n_rounds, n: (t + 1) * (2 * n + 1) // 2 - t * (2 * n + 1) // 2,
    "ascend": lambda t, n_rounds, n: round(1 + (2 * n - 1) * t / max(n_rounds - 1, 1)),
    "descend": lambda t, n_rounds, n: round(1 + (2 * n - 1) * (n_rounds - 1 - t) / max(n_rounds - 1, 1)),
}


def decide(config: "Config", problem: Problem, state: "State", observation: Observation) -> Decision:
    """Choose devices, and give them band and power."""
    decision = _decided(config, problem, state, observation)
    missed = missed_knowledge(held_classes(problem, observation.store), decision.selected)
    return decision._replace(info={**decision.info, "missed_knowledge": missed})


def _decided(config: "Config", problem: Problem, state: "State", observation: Observation) -> Decision:
    draft = _draft(config, problem, observation)
    budget = budget_joule(config, problem)
    if config.scheduler not in ENERGY:
        return _unlimited(config, problem, state, observation, draft, budget)
    settings, cell = problem.world.settings, observation.topology.cell
    left = left_joule(config, problem, state, observation) if config.hard_budget else np.full(len(cell), inf)
    share, power, joule = np.zeros(len(cell)), np.zeros(len(cell)), np.zeros(len(cell))
    n_feasible = 0
    for number in np.unique(cell):  # every cell has a band of its own
        at = np.flatnonzero(cell == number)
        offer, grant = _granted(config, problem, state, observation, draft, left, at)
        chosen = at[grant.device]
        share[chosen], power[chosen], joule[chosen] = grant.share, grant.power_watt, grant.joule
        n_feasible += int(energy.feasible(offer).sum())
    return draft._replace(
        selected=share > 0,
        bandwidth_hz=(np.ceil(share) if settings.access == "tdma" else share) * settings.bandwidth_hz,
        power_watt=power,
        info={"n_feasible": float(n_feasible), "band": float(share.sum()), **_columns(state, budget, joule)},
    )


def _draft(config: "Config", problem: Problem, observation: Observation) -> Decision:
    """Draft the work of every device at full speed: its local training, and one upload of class means."""
    batch = setting(config, problem, "batch_size")
    steps = 1 if config.epochs else steps_of(config, problem, observation.store)
    nobody, world_s = np.zeros(problem.world.n_devices, dtype=np.bool_), problem.world.settings.deadline_s
    draft = plan(problem, observation, nobody, steps, float(batch))
    if config.epochs:
        size = observation.store.size
        n_steps = np.maximum(config.epochs * -(-size // batch), 1)
        draft = draft._replace(steps=n_steps, samples_per_step=config.epochs * size / n_steps)
    bits = np.full(problem.world.n_devices, payload_bit(problem))  # class means go both ways
    return draft._replace(
        payload_bit=bits,
        download_bit=bits,
        deadline_s=config.deadline_s or (world_s if isfinite(world_s) else NO_DEADLINE_S),
    )


def _granted(
    config: "Config",
    problem: Problem,
    state: "State",
    observation: Observation,
    draft: Decision,
    spendable_joule: Floats,
    at: Ints,
) -> tuple[energy.Offer, energy.Grant]:
    """The offer of the devices `at` of one band, and who is chosen; with `tdma`, for the best start of the slots."""
    starts: list[float | None] = [None]
    if problem.world.settings.access == "tdma":
        starts = list(energy.starts_s(problem, observation, draft, at))
    offers = [energy.offer_of(problem, observation, draft, spendable_joule, at, start_s) for start_s in starts]
    found = [(offer, _chosen(config, problem, state, observation, offer, at)) for offer in offers]

    def worth(pair: tuple[energy.Offer, energy.Grant]) -> tuple[float, float]:
        device, joule = pair[1].device, pair[1].joule
        if config.scheduler != "lyapunov":
            return float(len(device)), -float(joule.sum())
        reward = _reward(config, problem, observation, at)
        return float((reward[device] - state.queue_joule[at][device] * joule).sum()), 0.0

    return max(found, key=worth)


def _reward(config: "Config", problem: Problem, observation: Observation, at: Ints) -> Floats:
    """`R_k = V gamma_t D_k` of the devices `at`."""
    worth = config.trade * WEIGHTS[config.fade](observation.round, problem.n_rounds)
    return np.asarray(worth * observation.store.size[at].astype(np.float64))


def _chosen(
    config: "Config", problem: Problem, state: "State", observation: Observation, offer: energy.Offer, at: Ints
) -> energy.Grant:
    """Choose among the devices `at` of one band, by the scheduler of the settings."""
    t, n_rounds = observation.round, problem.n_rounds
    if config.scheduler == "lyapunov":
        reward = _reward(config, problem, observation, at)
        return energy.by_queues(offer, state.queue_joule[at], reward, config.zero_queue)
    if config.scheduler == "rotation":
        return energy.in_turns(offer, state.times[at], COUNTS[config.pattern](t, n_rounds, config.n_selected))
    left = left_joule(config, problem, state, observation)[at]
    # Deviation: printed as T - t + 1 with t from 0, which leaves a part of the budget unused
    return energy.by_allowance(offer, left / (n_rounds - t + (config.myopic_rounds == "printed")))


def _unlimited(
    config: "Config", problem: Problem, state: "State", observation: Observation, draft: Decision, budget: Floats
) -> Decision:
    """Decide by a simple scheduler, with equal shares and full power, regardless of energy budgets."""
    n, bit = COUNTS[config.pattern](observation.round, problem.n_rounds, config.n_selected), payload_bit(problem)
    mine = waiting(sending(problem, bit, bit), config.deadline_s)
    selected = schedule(config.scheduler, n, mine, observation, draft.steps, draft.samples_per_step)
    full = plan(mine, observation, selected, draft.steps, draft.samples_per_step, config.blocks)
    decision = full._replace(download_bit=draft.download_bit)
    uplink = radio.transmit(problem.world, observation, decision, problem.seed)  # no draw changes what is spent
    return decision._replace(info=_columns(state, budget, uplink.spent_joule))


def budget_joule(config: "Config", problem: Problem) -> Floats:
    """Energy budget of every device for the whole run: `E_k`, `[n_devices]`."""
    if config.mean_energy_joule is None:
        return problem.world.devices.battery_joule
    return np.full(problem.world.n_devices, config.mean_energy_joule * problem.n_rounds)


def left_joule(config: "Config", problem: Problem, state: "State", observation: Observation) -> Floats:
    """What is left of every device's budget, `[n_devices]`: its charge, with what it gained, if that is the budget."""
    if config.mean_energy_joule is None:
        return observation.battery_joule
    return np.maximum(budget_joule(config, problem) - state.spent_joule, 0.0)


def _columns(state: "State", budget: Floats, joule: Floats) -> dict[str, float]:
    """Columns of a row: the largest used share of a budget after this round, and the queues before it."""
    return {
        "used_max": float(((state.spent_joule + joule) / budget).max()),
        "queue_mean": float(state.queue_joule.mean()),
        "queue_max": float(state.queue_joule.max()),
    }
