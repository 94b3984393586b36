"""Who is eligible, who is chosen and what it costs, round by round: worlds and decisions without any training.

No decision of these methods looks at a model or at data, so their energies are exact without learning, on the same
channels as the runs of the tables. Ten drops of devices are the ten trials of the paper.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from fedcell import methods, radio, world
from fedcell.methods.rawhfl import State
from fedcell.options import override
from fedcell.scenarios import get
from fedcell.types import Bools, Decision, Floats, Observation, Problem, Store

CONFIG = get("rawhfl").config
SEEDS = tuple(range(1, 11))
N_DEVICES, N_CELLS, EDGE_ROUNDS = CONFIG.world.n_devices, CONFIG.world.n_cells, CONFIG.world.edge_rounds
ROUNDS = CONFIG.rounds  # edge rounds; `EDGE_ROUNDS` of them make a global round
N_PARAMS = 219_648
SIZES = (2, 4, 6)  # clients per cell, Z

RAWHFL = {f"rawhfl Z={z}": ("rawhfl", {"allocation": "max", "z": z}) for z in SIZES}
HIERARCHICAL = {f"h_fedavg {mode}": ("h_fedavg", {"mode": mode}) for mode in ("m1", "m2", "ub", "relay")}
ENTRIES: Mapping[str, tuple[str, Mapping[str, Any]]] = MappingProxyType(
    {
        **RAWHFL,
        **HIERARCHICAL,
        **{f"{name} no limit": (method, {**own, "psi": own["z"]}) for name, (method, own) in RAWHFL.items()},
        **{f"rawhfl Z={z} {how}": ("rawhfl", {"allocation": how, "z": z}) for z in SIZES for how in ("exact", "sca")},
        "h_fedavg m2 per cell": ("h_fedavg", {"mode": "m2", "all_of": "cell"}),
    }
)


class Book(NamedTuple):
    """What one method does on every seed, `[n_seeds, n_rounds, n_devices]` each."""

    chosen: Bools
    delivered: Bools
    joule: Floats

    def total_joule(self) -> Floats:
        """Energy of all devices in all rounds, `[n_seeds]`."""
        return np.asarray(self.joule.sum(axis=(1, 2)))


def places(seed: int) -> Problem:
    """The radio world of the paper with stores that never change and nothing to learn."""
    stores = Store(np.zeros((N_DEVICES, 1), dtype=np.int64), np.ones(N_DEVICES, dtype=np.int64))
    drop = world.build_world(CONFIG.world, world.static_stream(stores), N_PARAMS, 0.0, seed)
    learner: Any = None
    return Problem(drop, learner, CONFIG.train, seed, ROUNDS, CONFIG.eval_every)


@cache
def seen(seed: int, rounds: int = ROUNDS) -> tuple[Problem, tuple[Observation, ...]]:
    """A world, and what is observed in its edge rounds."""
    problem = places(seed)
    state, out = world.start(problem.world, seed), []
    for round in range(rounds):
        observation, state = world.observe(problem.world, state, seed, round)
        out.append(observation)
    return problem, tuple(out)


@cache
def book(entry: str, seeds: tuple[int, ...] = SEEDS, rounds: int = ROUNDS) -> Book:
    """Decisions of an entry and their costs; no battery runs down, so that rounds meet in the choice before alone."""
    name, own = ENTRIES[entry]
    module = methods.load(name)
    method = module.build(override(module.Config(), own, where=f"{name}."))
    parts: list[list[tuple[Any, ...]]] = []
    for seed in seeds:
        problem, observations = seen(seed, rounds)
        previous, rows = np.zeros(N_DEVICES, dtype=np.bool_), []
        for observation in observations:
            decision: Decision = method.decide(problem, State(previous, None), observation)
            uplink = radio.transmit(problem.world, observation, decision, seed)
            previous = decision.selected
            rows.append((previous, uplink.delivered, uplink.compute_joule + uplink.radio_joule))
        parts.append(rows)
    return Book(*(np.array([[row[i] for row in rows] for rows in parts]) for i in range(3)))


@cache
def could(allocation: str, seeds: tuple[int, ...] = SEEDS, rounds: int = ROUNDS) -> Bools:
    """Who could do a local step, `[n_seeds, n_rounds, n_devices]`; `z` is large enough to choose them all."""
    config = override(methods.load("rawhfl").Config(), {"allocation": allocation, "z": N_DEVICES, "psi": N_DEVICES})
    decide = methods.load("rawhfl").build(config).decide
    nobody = State(np.zeros(N_DEVICES, dtype=np.bool_), None)
    return np.array([[decide(*_at(seed, n, rounds, nobody)).selected for n in range(rounds)] for seed in seeds])


def _at(seed: int, number: int, rounds: int, state: State) -> tuple[Problem, State, Observation]:
    problem, observations = seen(seed, rounds)
    return problem, state, observations[number]
