"""Who is eligible, who is chosen and what it costs, round by round: worlds and decisions without any training.

No decision of these methods looks at a model or at data, so their energies are exact without learning, on the same
channels as the runs of the tables. Ten drops of devices are the ten trials of the paper. `booked` sums a drop up in the
columns that figures and tables need; `cases` make runs of it, which are kept like others.
"""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from fedcell import methods, radio, world
from fedcell.experiment import Case, Row
from fedcell.experiment.judging import values_of
from fedcell.methods.rawhfl import State
from fedcell.options import override
from fedcell.scenarios import Config, get
from fedcell.types import Bools, Decision, Floats, Observation, Problem, Store

CONFIG = get("rawhfl").config
SEEDS = tuple(range(31, 41))  # fresh: a reading of the local round was chosen by trial runs on seed 1
N_DEVICES, N_CELLS, EDGE_ROUNDS = CONFIG.world.n_devices, CONFIG.world.n_cells, CONFIG.world.edge_rounds
ROUNDS = CONFIG.rounds  # edge rounds; `EDGE_ROUNDS` of them make a global round
N_PARAMS = 219_648
SIZES = (2, 4, 6)  # clients per cell, Z
EARLY = 100  # edge rounds that are kept one by one
SHORT = {"exact": EARLY, "sca": 12}  # edge rounds of entries that take long
SCA_SEEDS = SEEDS[:5]
PLANNED = 40  # edge rounds that the eligibility with planned power is counted in
PERCENT = np.arange(101)

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


# ---------------------------------------------------------------- as runs


def name(entry: str) -> str:
    """What the drops of an entry are called."""
    return f"drop {entry}"


def cases(entries: Sequence[str]) -> list[Case]:
    """The drops of some entries, `eligible` for who could train; a quick look has them all, too."""
    out = []
    for entry in entries:
        how = entry.split()[-1]
        config = override(CONFIG, {"rounds": SHORT.get(how, ROUNDS)})
        method, own = ENTRIES.get(entry, ("rawhfl", {}))
        seeds = SCA_SEEDS if how == "sca" else SEEDS
        measure = partial(eligible if entry == "eligible" else booked, *(() if entry == "eligible" else (entry,)))
        out.append(Case(name(entry), config, method, dict(own), seeds=seeds, measure=measure))
    return out


def booked(entry: str, config: Config) -> dict[str, Any]:
    """What one drop costs: totals, the course over the rounds, and the laws of the energies of rounds and clients."""
    one = book(entry, (config.seed,), config.rounds)
    joule, chosen = one.joule[0], one.chosen[0]
    rounds = joule.sum(axis=1)
    member = places(config.seed).world.topology.cell == np.arange(N_CELLS)[:, None]
    each = joule[chosen] if chosen.any() else np.zeros(1)
    meets = could("max", (config.seed,), config.rounds)[0] & one.delivered[0] if entry in RAWHFL else one.delivered[0]
    return {
        "total_joule": float(rounds.sum()),
        "running_joule": rounds.cumsum()[EDGE_ROUNDS - 1 :: EDGE_ROUNDS].tolist(),
        "early_joule": rounds[:EARLY].tolist(),
        "round_percentiles": np.percentile(rounds, PERCENT).tolist(),
        "cell_median_joule": float(np.median(joule @ member.T)),
        "client_mean_joule": float(each.mean()),
        "client_percentiles": np.percentile(each, PERCENT).tolist(),
        "chosen": chosen.sum(axis=0).tolist(),
        "meets_limits": not bool((chosen & ~meets).any()),
    }


def eligible(config: Config) -> dict[str, Any]:
    """In how many rounds every client could train at full clock and power, and the share with planned ones."""
    seeds = (config.seed,)
    return {
        "eligible": could("max", seeds, config.rounds)[0].sum(axis=0).tolist(),
        "full_share": float(could("max", seeds, PLANNED).mean()),
        "planned_share": float(could("exact", seeds, PLANNED).mean()),
    }


def column(rows: Sequence[Row], entry: str, what: str) -> Floats:
    """A column of the drops of an entry, `[n_seeds]` or `[n_seeds, ...]`."""
    found = sorted((row["seed"], row[what]) for row in rows if row["case"] == name(entry))
    return np.array([value for _, value in found], dtype=np.float64)


def total_joule(rows: Sequence[Row], entry: str) -> Floats:
    """Energy of a whole run on every drop."""
    return values_of(rows, name(entry), lambda row: float(row["total_joule"]))
