"""Joint assignment: who trains on which resource block so that most samples arrive, within time and energy.

    python examples/joint_assignment.py [ROUNDS]

With `K_k` the samples of device `k` and `q_kb` the chance that its upload on block `b` is lost, the assignment with the
largest `sum K_k (1 - q_kb)` over pairs that meet the deadline and the energy budget. Compared with the same devices on
random blocks, and with random devices on random blocks, in the authors' world: 9 users up to 500 m away, 6 blocks with
the interference of their list, 10 mW, 1 MHz a block, a way down of 20 MHz, 0.5 s and 3 mJ.

Reference: Chen et al., A Joint Learning and Communications Framework for Federated Learning Over Wireless Networks,
IEEE Transactions on Wireless Communications, 2021
"""

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import fedcell
from fedcell.methods import fedavg
from fedcell.methods.parts.defaults import setting
from fedcell.methods.parts.matching import Pairs, draft, given, match, pairs
from fedcell.options import option
from fedcell.rng import stream
from fedcell.types import Decision, Floats, Ints, Method, Observation, Problem

ORDERS = ("optimal", "random-blocks", "random")


@dataclass(frozen=True)
class Config(fedavg.Config):
    """Settings of FedAvg, and how devices and blocks are put together."""

    assignment: str = option(
        "optimal", "the best pairs, the best devices on random blocks, or all random", choices=ORDERS
    )


def build(config: Config) -> Method:
    return fedavg.build(config)._replace(decide=partial(decide, config))


def decide(config: Config, problem: Problem, state: Any, observation: Observation) -> Decision:
    steps, batch_size = (setting(config, problem, name) for name in ("steps", "batch_size"))
    work = draft(problem, observation, steps, batch_size, config.n_selected)
    found = pairs(problem, observation, work)
    weight = observation.store.size[:, None] * found.success
    band = match(problem, observation, weight, config.n_selected)
    if config.assignment != "optimal":
        band = shuffled(config, problem, observation, found, band)
    arrives = float(np.where(band >= 0, weight[np.arange(len(band)), np.maximum(band, 0)], 0.0).sum())
    return given(problem, work, found, band)._replace(info={"samples_expected": arrives})


def shuffled(config: Config, problem: Problem, observation: Observation, found: Pairs, best: Ints) -> Ints:
    """Random blocks, for the best devices or for random ones; a pair that is not feasible stays out."""
    rng, n_blocks = stream(problem.seed, observation.round, "joint_assignment"), found.success.shape[1]
    chosen = np.flatnonzero(best >= 0)
    if config.assignment == "random":
        chosen = rng.permutation(len(best))[:n_blocks]
    block: Ints = np.full(len(best), -1, dtype=np.int64)
    block[chosen] = rng.permutation(n_blocks)[: len(chosen)]
    usable = found.feasible[np.arange(len(block)), np.maximum(block, 0)] & (block >= 0)
    return np.where(usable, block, -1)


# ---------------------------------------------------------------- the authors' world

LISTED_WATT = (np.array([0.05, 0.07, 0.09, 0.11, 0.13, 0.15]) - 0.04) * 1e-6  # interference on each block
SETTINGS = {
    "world.n_devices": 9,
    "world.radius_m": 500,
    "world.device_table": "devices.csv",
    "world.access": "block",
    "world.n_blocks": 6,
    "world.bandwidth_hz": 1e6,
    "world.noise_watt": 1e-14,
    "world.interference_over_noise": "@blocks.csv:over_noise",
    "world.outage_threshold_db": 10 * np.log10(1.08),
    "world.pathloss": "power_law",
    "world.reference_gain_db": 0,
    "world.power_dbm": 10,
    "world.cycles_per_sample": 1e3,  # computing is nearly free in the paper
    "world.downlink": "unicast",
    "world.downlink_bandwidth_hz": 20e6,
    "world.station_power_dbm": 30,
    "world.downlink_interference_watt": 1.8e-7,
    "world.deadline_s": 0.5,
    "world.energy_per_round_joule": 3e-3,
    "data.partition": "counts",
    "data.counts": "100,200,300,50,150,50,100,200,100",
}


def write_world(distance_m: Floats) -> None:
    """The lists of the paper as tables: a line per device, a line per block."""
    devices = "".join(f"{one:.6f},0\n" for one in distance_m)
    Path("devices.csv").write_text("x_m,y_m\n" + devices)
    Path("blocks.csv").write_text("over_noise\n" + "".join(f"{one / 1e-14:.6f}\n" for one in LISTED_WATT))


def main(rounds: int, n_draws: int = 3) -> None:
    final: dict[str, list[float]] = {order: [] for order in ORDERS}
    for draw in range(n_draws):
        write_world(np.random.default_rng(draw).uniform(1, 500, 9))
        methods = [f"{__file__}:assignment={order}" for order in ORDERS]
        records = fedcell.run(methods, "cell", {**SETTINGS, "rounds": rounds, "seed": draw + 1})
        for order, one in zip(ORDERS, records, strict=True):
            expected = one.columns["samples_expected"].mean()
            final[order].append(float(one.columns["accuracy"][-1]))
            print(f"draw {draw}, {order}: {expected:.0f} samples expected, accuracy {100 * final[order][-1]:.1f} %")
    for order in ORDERS:
        print(f"{order}: accuracy {100 * np.mean(final[order]):.1f} % in the mean over {n_draws} draws")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
