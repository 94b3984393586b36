"""RawHFL: each cell trains its best few clients, with steps, clock and power from one allocation problem.

In every round a cell chooses `z` clients, at most `psi` of which it also chose in the round before. The choice weighs
local steps against joules by `theta`, and every client chosen meets its deadline and its energy budget. With
`d_u = w_u - w` the update of a chosen client and `ok_u` whether it arrived,

    w <- w + (1 / |chosen|) sum_u ok_u d_u

so that a lost upload shortens the step. With `world.edge_rounds` every base station does this with an edge model of
its own, which is the paper's hierarchy. Without it, one server averages over all cells.

Deviation: `allocation=exact`, the default, is the true optimum of the paper's problem and spends a few percent of what
the paper reports; its energies fit `allocation=max`, the best clients at full clock and power.

Reference: rawhfl (Pervej, Molisch: Resource-Aware Hierarchical Federated Learning in Wireless Video Caching Networks),
Algorithms 1 and 2, Eqs. (15), (28), (29)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from torch import Tensor

from ...errors import BadInput
from ...options import option
from ...radio import rate
from ...radio.forecast import success_probability
from ...types import Bools, Decision, Floats, Method, Observation, Problem, Round
from ..parts import defaults
from ..parts.client_planning.plan import client_problem
from ..parts.client_planning.problem import Client, Limit
from ..parts.defaults import LocalConfig, mean_update, most_steps
from ..parts.mini_batches import StepConfig, full_speed, local
from ..parts.turns import refuse_air
from . import diagnostics
from .allocation import Allocation, allocate, allocate_blocks, allocate_in_turn
from .diagnostics import Memory
from .sca import Settings, allocate_sca
from .selection import Cells

USUAL_Z = 4


@dataclass(frozen=True)
class Config(StepConfig):
    """Settings of RawHFL."""

    n_batches: int = option(10, "mini-batches that make one local step", least=1)
    allocation: str = option(
        "exact",
        "steps, clock, power and choice: the optimum; the best choice at full clock and power, which fits the paper's "
        "energies; or the paper's successive linear programs",
        choices=("exact", "max", "sca"),
    )
    z: int | None = option(
        None, f"clients chosen per cell and round; none: one for each block (access=block), else {USUAL_Z}", least=1
    )
    theta: float = option(0.4, "weight of a local step against a joule, which has the rest", least=0, most=1)
    psi: int | None = option(
        None, "most clients of a cell chosen twice in a row; none: half of z, rounded up; z: no limit", least=0
    )
    least_power: float = option(
        0.0,
        "lowest power as a share of the highest; 1 wherever uploads can be lost (world.outage_threshold_db)",
        least=0,
        most=1,
    )
    sca_iterations: int = option(
        50, "most linear programs of a round (allocation=sca)", least=1, needs="allocation=sca"
    )
    sca_penalty: float = option(
        1.0, "penalty on choosing a client by halves, rho (allocation=sca)", least=0, needs="allocation=sca"
    )
    sca_step: float | None = option(
        0.2,
        "largest relative change of clock and power in one program; none: as printed, which collapses and is then "
        "stopped, see the column collapsed (allocation=sca)",
        above=0,
        most=0.999,
        needs="allocation=sca",
    )
    reweigh: bool = option(False, "divide what arrives by the known probability that it does; unbiased under outage")
    diagnose: bool = option(False, "record the terms of Theorem 1; costs three gradients of every client that trains")


class State(NamedTuple):
    """What a server remembers."""

    previous: Bools  # [n_devices], chosen the last time
    memory: Memory | None  # of the diagnostics


def build(config: Config) -> Method:
    return defaults.default(LocalConfig())._replace(
        init=partial(init, config),
        decide=partial(decide, config),
        local=partial(local, config),
        aggregate=partial(aggregate, config),
        evaluate=evaluate,
    )


def init(config: Config, problem: Problem, params: Tensor) -> State:
    slots(config, problem)
    most_steps(config, problem)
    nobody = np.zeros(problem.world.n_devices, dtype=np.bool_)
    return State(nobody, diagnostics.begin(params) if config.diagnose else None)


# ---------------------------------------------------------------- decide


def slots(config: Config, problem: Problem) -> tuple[int, int]:
    """Return `z` and `psi` in this world; raise BadInput if the settings do not go with it."""
    refuse_air(problem, "the allocation of rawhfl")
    settings = problem.world.settings
    if settings.access == "tdma" and config.allocation == "sca":
        raise BadInput(
            "rawhfl.allocation = 'sca' does not go with world.access = 'tdma': its linear programs have no slots, so "
            "use allocation=exact or max, or another access"
        )
    blocks = settings.n_blocks if settings.access == "block" else None
    if blocks is not None and config.z is not None and config.z > blocks:
        raise BadInput(
            f"rawhfl.z = {config.z} does not go with world.access = 'block' and world.n_blocks = {blocks}: every "
            f"client chosen needs a block, so lower z to {blocks} or raise world.n_blocks"
        )
    z = config.z or blocks or USUAL_Z
    return z, -(-z // 2) if config.psi is None else config.psi


def decide(config: Config, problem: Problem, state: State, observation: Observation) -> Decision:
    """Solve the allocation problem of every cell; who is not chosen spends nothing."""
    z, psi = slots(config, problem)
    world, topology = problem.world, observation.topology
    draft = full_speed(config, problem, observation, np.ones(world.n_devices, dtype=np.bool_))
    if world.settings.access == "fdma":  # z equal bands, so that each is known before the choice
        draft = draft._replace(bandwidth_hz=np.full(world.n_devices, world.settings.bandwidth_hz / z))
    cells = Cells(topology.cell, world.n_cells, observation.available, state.previous, z, psi)
    found, extra = solve(config, problem, observation, client_problem(problem, observation, draft), cells)
    return draft._replace(
        selected=found.selected,
        steps=np.maximum(found.steps, 1),
        cpu_hz=found.cpu_hz,
        power_watt=found.power_watt,
        block=found.block if world.settings.access == "block" else draft.block,
        info={**columns(found, cells, config.theta), **extra},
    )


def solve(
    config: Config, problem: Problem, observation: Observation, client: Client, cells: Cells
) -> tuple[Allocation, dict[str, float]]:
    """Allocate with the solver that the settings name; also return the columns of that solver."""
    # Deviation: the problem knows no outage, so if there is any nobody saves power.
    lossy = problem.world.settings.outage_threshold_db is not None
    least_power = 1.0 if lossy else config.least_power
    interference = _on_bands(problem, observation, client)
    if config.allocation == "sca":  # Deviation: a program has no blocks, so clients plan on the worst
        client = on_blocks(problem, observation, client, interference.max(axis=0, keepdims=True), 0)
        settings = Settings(config.sca_iterations, config.sca_penalty, config.sca_step, least_power=least_power)
        found = allocate_sca(client, cells, config.theta, settings)
        return found.allocation, {"programs": float(found.iterations), "collapsed": float(found.collapsed.sum())}
    if np.ptp(interference, axis=0).any():
        client = on_blocks(problem, observation, client, interference, slice(None))
        return allocate_blocks(client, cells, config.theta, config.allocation, least_power), {}
    client = on_blocks(problem, observation, client, interference, 0)
    rule = allocate_in_turn if problem.world.settings.access == "tdma" else allocate
    return rule(client, cells, config.theta, config.allocation, least_power), {}


def _on_bands(problem: Problem, observation: Observation, client: Client) -> Floats:
    """Interference on every block, `[n_blocks, 1]`, or `[n_blocks, n]` if it depends on the cell."""
    found, settings = observation.interference_watt, problem.world.settings
    if found.ndim == 2:
        return found.T if settings.access == "block" else found.T * client.bandwidth_hz / settings.bandwidth_hz
    return found[:, None] if settings.access == "block" else np.zeros((1, 1))


def on_blocks(
    problem: Problem, observation: Observation, client: Client, interference_watt: Floats, which: int | slice
) -> Client:
    """Give clients the SNR that they have on resource blocks.

    Args:
        problem: the world with its noise.
        observation: this round's channels.
        client: limits and prices, `[n]`.
        interference_watt: of every block, `[n_blocks, 1]` or `[n_blocks, n]`.
        which: one block, or a slice of them.

    Returns: the clients, `[n]` for one block, `[n_blocks, n]` for a slice of all.
    """
    noise = rate.noise_watt(client.bandwidth_hz, problem.world.noise_watt_per_hz, problem.world.settings.noise_watt)
    snr = rate.sinr(1.0, observation.gain, noise, interference_watt)
    wide = (np.broadcast_to(part, snr.shape)[which] for part in client._replace(snr_per_watt=snr))
    return Client._make(wide)


def columns(found: Allocation, cells: Cells, theta: float) -> dict[str, float]:
    """Columns of a row, counts per cell: the objective and its terms, who could train, and why others could not."""
    out = cells.available & (found.limit != Limit.NONE)
    count = np.bincount(found.limit[out], minlength=len(Limit)) / cells.n_cells
    eligible = (cells.available & ~out).sum() / cells.n_cells
    return {
        "objective": found.objective(theta),
        "objective_steps": found.steps_term,
        "objective_joule": found.joule_term,
        "eligible": float(eligible),
        "repeated": float((found.selected & cells.previous).sum() / cells.n_cells),
        **{f"ineligible_{limit.name.lower()}": float(count[limit]) for limit in Limit if limit != Limit.NONE},
    }


# ---------------------------------------------------------------- aggregate, evaluate


def aggregate(config: Config, problem: Problem, params: Tensor, state: State, played: Round) -> tuple[Tensor, State]:
    """Step by the mean over the chosen clients; a lost upload counts as zero. Reference: rawhfl, Eq. (15)"""
    device = played.heard()
    chosen = played.decision.selected
    weight = np.full(len(device), 1 / max(int(chosen.sum()), 1))
    # `q_u`: plans are in time, so only outage loses uploads
    success = success_probability(problem.world, played.observation, played.decision)
    if config.reweigh:
        weight = weight / success[device]
    following, memory = mean_update(params, weight, played), state.memory
    if memory is not None:
        memory = diagnostics.measure(config, problem, memory, params, played, success)
    return following, State(chosen, memory)


def evaluate(problem: Problem, params: Tensor, state: State) -> Mapping[str, float]:
    """Accuracy and loss, and the terms of the bound if they are recorded."""
    columns = {} if state.memory is None else state.memory.columns
    return {**problem.learner.evaluate(params), **columns}
