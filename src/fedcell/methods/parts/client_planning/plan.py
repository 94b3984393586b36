"""What OSAFL and its modified baselines share: each client plans its own round, and who cannot is a straggler.

Settings, the `decide` seam, and the way from a world to the client problem. Not a method itself: it
has no `build`.

Reference: osafl, sections 2 and 4
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ....errors import BadInput
from ....options import option
from ....radio import rate
from ....radio.forecast import as_on_shannon, noise_and_interference_watt, room
from ....types import Bools, Decision, Floats, Method, Observation, Problem
from .. import defaults
from ..defaults import LocalConfig, most_steps
from ..mini_batches import StepConfig, full_speed, samples_per_step
from ..mini_batches import local as local
from ..schedulers import schedule
from ..turns import refuse_air
from .problem import Client, ClientPlan, Limit
from .slots import in_turn
from .solvers import alternate, closed_power, exact, sca_power


@dataclass(frozen=True)
class ClientConfig(StepConfig, LocalConfig):
    """Settings of every method whose clients plan their own round."""

    effort: str = option("plan", "steps, clock and power are the client's own plan", choices=("plan",))
    blocks: str = option("first", "these methods take no resource blocks", choices=("first",))
    solver: str = option(
        "closed",
        "how a client plans: the paper's alternation with its power step in closed form or by successive convex "
        "approximation, or the most steps that any plan can pay for",
        choices=("closed", "sca", "exact"),
    )
    start_cpu: float = option(0.5, "clock the plan starts from, as a share of the highest", above=0, most=1)
    start_power: float = option(0.5, "power the plan starts from, as a share of the highest", above=0, most=1)
    epsilon: float = option(0.5, "weight of computing in the client's objective; it cancels", least=0, most=0.999)
    passes: int = option(10, "most passes of the alternation, and of the approximation inside", least=1)
    tolerance: float = option(1e-6, "relative change at which they stop", above=0)


def planned(config: ClientConfig) -> Method:
    """The seams all these methods share; a method adds its state and aggregation."""
    return defaults.default(config)._replace(decide=partial(decide, config), local=partial(local, config))


def check_world(problem: Problem) -> None:
    """Refuse a world whose radio leaves a client nothing to plan."""
    refuse_air(problem, "the client planner of osafl and the m_* methods")
    if problem.world.settings.access == "block":
        raise BadInput(
            "the client planner of osafl and the m_* methods does not go with world.access = 'block': it plans the "
            "power on a band that a device knows beforehand, so use own_band, fdma or tdma"
        )
    if problem.train.epochs:
        raise BadInput(
            f"the client planner of osafl and the m_* methods does not go with train.epochs = {problem.train.epochs}: "
            "it plans local steps, so set train.epochs=0, and train.steps to the most"
        )


# ---------------------------------------------------------------- decide


def decide(config: ClientConfig, problem: Problem, state: Any, observation: Observation) -> Decision:
    """Every scheduled client plans its steps, clock and power; those without a plan stay out and spend nothing."""
    check_world(problem)
    steps, samples = most_steps(config, problem), samples_per_step(config, problem)
    tried = schedule(config.scheduler, config.n_selected, problem, observation, steps, samples)
    draft = full_speed(config, problem, observation, tried)
    client = client_problem(problem, observation, draft)
    if problem.world.settings.access == "tdma":
        plan = in_turn(partial(make_plan, config), client, observation.topology.cell, tried)
    else:
        plan = make_plan(config, client)
    return draft._replace(
        selected=tried & plan.feasible,
        steps=np.maximum(plan.steps, 1),
        cpu_hz=plan.cpu_hz,
        power_watt=plan.power_watt,
        info=columns(tried, plan),
    )


def client_problem(problem: Problem, observation: Observation, draft: Decision) -> Client:
    """The client problem of every device in this world and round.

    Args:
        problem: the world.
        observation: this round's channels, hardware and charge.
        draft: bands, payloads, samples per step and, as limits, steps, clocks and powers.
    """
    noise, interference = noise_and_interference_watt(problem.world, observation, draft)
    left = room(problem.world, observation, draft)
    # Answer times that the world draws do not depend on the work, so the deadline takes no part in the plan.
    deadline_s = left.deadline_s if observation.response_s is None else np.inf
    return Client(
        snr_per_watt=rate.sinr(1.0, observation.gain, noise, interference),
        bandwidth_hz=draft.bandwidth_hz,
        payload_bit=as_on_shannon(problem.world, observation, draft).payload_bit,
        cycles_per_step=observation.devices.cycles_per_step(draft.samples_per_step),
        capacitance=observation.devices.capacitance,
        most_steps=draft.steps,
        cpu_hz=draft.cpu_hz,
        power_watt=draft.power_watt,
        budget_joule=left.budget_joule,
        deadline_s=np.full(problem.world.n_devices, deadline_s),
    )


def make_plan(config: ClientConfig, client: Client, least_power: float | Floats = 0.0) -> ClientPlan:
    """Solve the client problem as the settings say, with a least power as a share of the highest.

    The alternation ends with the power it started from, so a start at the least power keeps to it.
    """
    f, p = client.cpu_hz * config.start_cpu, client.power_watt * np.maximum(config.start_power, least_power)
    if config.solver == "exact":
        return exact(client, f, p, least_power=least_power)
    block = closed_power
    if config.solver == "sca":
        block = partial(sca_power, epsilon=config.epsilon, iterations=config.passes, tolerance=config.tolerance)
    return alternate(client, f, p, block, passes=config.passes, tolerance=config.tolerance)


def columns(tried: Bools, plan: ClientPlan) -> dict[str, float]:
    """Columns of a row: stragglers, and how many of them time, energy, power or the CPU kept out."""
    count = np.bincount(plan.limit[tried], minlength=len(Limit))
    reasons = {f"stragglers_{limit.name.lower()}": float(count[limit]) for limit in Limit if limit != Limit.NONE}
    return {"stragglers": float(count[1:].sum()), **reasons}


def data_shares(observation: Observation) -> Floats:
    """`p_u = D_u / sum D` over all devices, `[n_devices]`."""
    size = observation.store.size.astype(np.float64)
    return size / max(size.sum(), 1.0)
