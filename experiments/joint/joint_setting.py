"""Chen et al.'s world by its lists, and who trains on which block."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.methods.parts.matching import Pairs, draft, given, match, pairs
from fedcell.options import override
from fedcell.rng import SETUP, stream
from fedcell.scenarios import Config, get
from fedcell.types import Decision, Floats, Ints, Observation, Problem, Store
from fedcell.world import build_world, observe, start, static_stream

MEBI = 1024.0**2  # they count bits and hertz in these
NOISE_WATT = 1e-14
LISTED_WATT = {  # on each block
    6: 1e-6 * (np.array([0.05, 0.07, 0.09, 0.11, 0.13, 0.15]) - 0.04),
    9: 1e-6 * np.maximum(np.array([0.03, 0.06, 0.07, 0.08, 0.1, 0.11, 0.12, 0.14, 0.15]) - 0.04, 0.0),
}
SAMPLES = (100, 200, 300, 400, 500, 400, 300, 200, 100)
ORDERS = {
    "optimal": "the optimal pairs",
    "blocks": "the same users on random blocks",
    "random": "random users and blocks",
}
STEPS, LR = 5, 0.05
CAPACITANCE, N_PARAMS = 1e-27, 39760
SETTINGS: dict[str, Any] = {
    "world.n_devices": len(SAMPLES),
    "world.radius_m": 500,
    "world.min_distance_m": 0.5,
    "world.access": "block",
    "world.bandwidth_hz": MEBI,
    "world.noise_watt": NOISE_WATT,
    "world.outage_threshold_db": 10 * np.log10(1.08),
    "world.pathloss": "power_law",
    "world.reference_gain_db": 0,
    "world.exponent": 2,
    "world.power_dbm": 10,
    "world.cpu_hz": 1e9,
    "world.cycles_per_sample": 1.0,  # a round of computing is 2e-8 J in the paper
    "world.capacitance": CAPACITANCE,
    "world.bits_per_parameter": 16,
    "world.downlink": "unicast",
    "world.downlink_bandwidth_hz": 20 * MEBI,
    "world.station_power_dbm": 30,
    "world.downlink_interference_watt": 0.06 * 3e-6,
    "world.deadline_s": 0.5,
    "world.energy_per_round_joule": 3e-3,
    "model.name": "mlp",
    "model.hidden": (50,),
    "data.partition": "counts",
    "data.counts": SAMPLES,
    "train.steps": STEPS,
    "train.lr": LR,
    "train.batch_size": 0,
}


def base(rounds: int) -> Config:
    """The settings without the lists of a draw, which lie in files."""
    return override(get("mnist").config, SETTINGS | {"rounds": rounds, "eval_every": 5})


def distances_m(seed: int) -> Floats:
    """How far away the users of a draw are."""
    return stream(seed, SETUP, "experiment.places").uniform(1.0, 500.0, len(SAMPLES))


@contextmanager
def listed(config: Config, n_blocks: int) -> Iterator[Config]:
    """The settings with the lists of a draw as tables, for as long as the context lasts."""
    with tempfile.TemporaryDirectory() as folder:
        devices, blocks = Path(folder, "devices.csv"), Path(folder, "blocks.csv")
        devices.write_text("x_m,y_m\n" + "".join(f"{one!r},0\n" for one in distances_m(config.seed).tolist()))
        over_noise = (LISTED_WATT[n_blocks] / NOISE_WATT).tolist()
        blocks.write_text("over_noise\n" + "".join(f"{one!r}\n" for one in over_noise))
        tables = {
            "world.device_table": str(devices),
            "world.n_blocks": n_blocks,
            "world.interference_over_noise": f"@{blocks}:over_noise",
        }
        yield override(config, tables)


def stage(config: Config) -> tuple[Problem, Observation]:
    """The world of the settings in its first round, with as many samples as are listed and nothing to learn."""
    store = Store(np.zeros((len(SAMPLES), max(SAMPLES)), dtype=np.int64), np.array(SAMPLES))
    world = build_world(config.world, static_stream(store), N_PARAMS, 1.0, config.seed)
    observation, _ = observe(world, start(world, config.seed), config.seed, 0)
    return Problem(world, None, None, config.seed, 1), observation  # type: ignore[arg-type]


def decide(order: str, problem: Problem, state: Any, observation: Observation) -> Decision:
    """The block of every user by one of `ORDERS`, with the samples that are expected to arrive."""
    work = draft(problem, observation, STEPS, 0.0, len(SAMPLES))
    found = pairs(problem, observation, work)
    weight = observation.store.size[:, None] * found.success
    band = match(problem, observation, weight, len(SAMPLES))
    if order != "optimal":
        band = shuffled(order, problem, observation, found, band)
    expected = float(np.where(band >= 0, weight[np.arange(len(band)), np.maximum(band, 0)], 0.0).sum())
    return given(problem, work, found, band)._replace(info={"expected": expected})


def shuffled(order: str, problem: Problem, observation: Observation, found: Pairs, best: Ints) -> Ints:
    """Random blocks for the best users, or for random ones; a pair that is not feasible stays out."""
    rng, n_blocks = stream(problem.seed, observation.round, "experiment.blocks"), found.success.shape[1]
    chosen = np.flatnonzero(best >= 0) if order == "blocks" else rng.permutation(len(best))[:n_blocks]
    block: Ints = np.full(len(best), -1, dtype=np.int64)
    block[chosen] = rng.permutation(n_blocks)[: len(chosen)]
    usable = found.feasible[np.arange(len(block)), np.maximum(block, 0)] & (block >= 0)
    return np.where(usable, block, -1)
