"""One decision of FL-GR: powers, weights and the matching of devices and resource blocks, in milliseconds.

The cell is that of the `recycling` scenario with random staleness, at its own energy budget and at one so tight that
every power needs the closed form. The bars: 100 devices on 10 blocks in under 5 ms, 1,000 on 100 in under 200 ms.

    python benchmarks/matching.py [--repeat 20]
"""

import argparse
import sys
import time
from dataclasses import replace

import numpy as np

from fedcell.data.settings import DataConfig
from fedcell.learn.settings import ModelConfig
from fedcell.methods.recycling import Config, decide, init
from fedcell.options import override
from fedcell.scenarios import build_problem, get
from fedcell.types import Problem
from fedcell.world import observe, start

BARS_MS = {(100, 10): 5.0, (1000, 100): 200.0}
BUDGETS_JOULE = {"budget of the scenario": "1.1", "tight budgets": "0.336"}


def cell(n_devices: int, n_blocks: int, budget: str) -> Problem:
    """The scenario's cell with a payload as published; what is learned plays no part."""
    base = replace(
        get("recycling").config,
        data=DataConfig(name="digits", partition="iid"),
        model=ModelConfig(name="logistic"),
    )
    changes = {
        "world.n_devices": n_devices,
        "world.n_blocks": n_blocks,
        "world.energy_per_round_joule": budget,
        "world.cpu_hz": "0.8e9",
        "world.bits_per_parameter": 122_626 * 16 / 650,
        "train.device": "cpu",
    }
    return build_problem(override(base, changes))


def milliseconds(problem: Problem, repeat: int) -> list[float]:
    """Time of `decide` on a new channel each time."""
    config = Config()
    rng, state = np.random.default_rng(1), init(config, problem, problem.learner.initial())
    begun, out = start(problem.world, problem.seed), []
    for round in range(repeat):
        observation, _ = observe(problem.world, begun, problem.seed, round)
        state = state._replace(staleness=rng.integers(0, 40, problem.world.n_devices))
        before = time.perf_counter()
        decide(config, problem, state, observation)
        out.append(1e3 * (time.perf_counter() - before))
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=20)
    asked, slow = parser.parse_args(), False
    for (n_devices, n_blocks), bar_ms in BARS_MS.items():
        for name, budget in BUDGETS_JOULE.items():
            took = milliseconds(cell(n_devices, n_blocks, budget), asked.repeat)
            print(
                f"{n_devices:5d} devices x {n_blocks:3d} blocks, {name}: median {np.median(took):7.2f} ms, "
                f"best {min(took):7.2f} ms (bar {bar_ms:g} ms)"
            )
            slow |= float(np.median(took)) > bar_ms
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
