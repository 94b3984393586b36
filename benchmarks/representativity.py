"""Scheduling by representativity and latency: milliseconds of a decision, of the memory and of dividing the band.

The cell is that of the `representativity_mnist` scenario; gradients are random rows of the published network's size.
What a round costs beside the training is a decision and the distances of the devices that were heard. The bars: 100
devices under 50 ms beside the training; the band of 1,000 devices in under 50 ms, within a relative 1e-6 of a reference
solver.

    python benchmarks/representativity.py [--repeat 7]
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import brentq

from fedcell.data.settings import DataConfig
from fedcell.learn.memory import keep_freed_memory
from fedcell.learn.settings import ModelConfig
from fedcell.methods.parts.resources import plan
from fedcell.methods.representativity import Config, State, decide
from fedcell.methods.representativity.band import alone
from fedcell.methods.representativity.memory import Memory, blank, heard
from fedcell.options import override
from fedcell.scenarios import build_problem, get
from fedcell.solve.equal_finish import equal_finish
from fedcell.types import Problem
from fedcell.world import observe, start

N_PARAMS = 550_346
BAR_MS, BAR_ERROR = 50.0, 1e-6


def cell(n_devices: int) -> Problem:
    """The scenario's cell with a payload as published; what is learned plays no part."""
    base = replace(
        get("representativity_mnist").config,
        data=DataConfig(name="digits", partition="iid"),
        model=ModelConfig(name="logistic"),
    )
    bits = N_PARAMS * 16 / 650
    changes = {"world.n_devices": n_devices, "world.bits_per_parameter": bits, "train.device": "cpu"}
    return build_problem(override(base, changes))


def memory_of(n_devices: int, n_params: int) -> Memory:
    """Rows in ten groups, as devices with two classes each are."""
    rng = torch.Generator().manual_seed(1)
    group = torch.randn(10, n_params, generator=rng)
    rows = group[torch.arange(n_devices) % 10] + 0.5 * torch.randn(n_devices, n_params, generator=rng)
    rows *= 30.0 / rows.norm(dim=1, keepdim=True)
    return heard(blank(n_devices, n_params), np.arange(n_devices), -rows, np.ones(n_devices, dtype=np.int64), 1.0)


class Took(NamedTuple):
    """Milliseconds of some calls; a median far above the best says that the machine was busy."""

    median: float
    best: float

    def plus(self, other: "Took") -> "Took":
        return Took(self.median + other.median, self.best + other.best)

    def __str__(self) -> str:
        return f"{self.median:.2f} ms (best {self.best:.2f})"


def milliseconds(work: Callable[[int], object], repeat: int) -> Took:
    """Times of some calls, after one to warm up."""
    work(0)
    took = []
    for number in range(1, repeat + 1):
        before = time.perf_counter()
        work(number)
        took.append(1e3 * (time.perf_counter() - before))
    return Took(float(np.median(took)), min(took))


def decisions(problem: Problem, memory: Memory, repeat: int) -> dict[str, Took]:
    """Time of `decide` on a new channel each time, policy by policy."""
    begun = start(problem.world, problem.seed)
    seen = [observe(problem.world, begun, problem.seed, round)[0] for round in range(repeat + 1)]
    out = {}
    for policy in ("representativity", "latency", "both"):
        config = Config(policy=policy, n_selected=problem.world.n_devices // 10)
        state = State(memory, None, None)
        out[policy] = milliseconds(lambda n: decide(config, problem, state, seen[n]), repeat)  # noqa: B023
    return out


def refresh(memory: Memory, n_params: int, repeat: int) -> Took:
    """Time of the distances of ten devices in a hundred that were heard."""
    n = len(memory.norm)
    device = np.sort(np.random.default_rng(1).permutation(n)[: n // 10])
    delta, steps = torch.randn(len(device), n_params), np.ones(len(device), dtype=np.int64)
    return milliseconds(lambda _: heard(memory, device, delta, steps, 1.0), repeat)


def band(n_devices: int, repeat: int) -> tuple[float, float]:
    """Time of dividing the band among all, and the largest relative error of the common end."""
    problem, worst, took = cell(n_devices), 0.0, []
    begun = start(problem.world, problem.seed)
    for round in range(repeat):
        observation, _ = observe(problem.world, begun, problem.seed, round)
        found = alone(problem, observation, plan(problem, observation, observation.available, 8, 64))
        before = time.perf_counter()
        split = equal_finish(found.compute_s, found.upload_s)
        took.append(1e3 * (time.perf_counter() - before))
        lag = found.compute_s.max() - found.compute_s
        top = 2 * found.upload_s.sum()
        x = brentq(lambda x: (found.upload_s / (x + lag)).sum() - 1, 1e-12, top, xtol=1e-15, rtol=1e-14)  # noqa: B023
        worst = max(worst, abs(float(split.time) / (found.compute_s.max() + x) - 1))
    return float(np.median(took)), worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=7)
    repeat, missed = parser.parse_args().repeat, False
    keep_freed_memory()  # as in a run
    for n_devices, n_params in ((100, N_PARAMS), (1000, N_PARAMS // 10)):
        memory = memory_of(n_devices, n_params)
        found = decisions(cell(n_devices), memory, repeat)
        distances = refresh(memory, n_params, repeat)
        bar = f", bar {BAR_MS:g} ms" if n_devices == 100 else ""
        for policy, took in found.items():
            beside = took.plus(distances) if policy != "latency" else took
            print(f"{n_devices:5d} devices, {policy}: decision {took}; all beside the training {beside}{bar}")
            missed |= n_devices == 100 and beside.median > BAR_MS
        print(f"{n_devices:5d} devices, distances of {n_devices // 10} rows of {n_params} numbers: {distances}")
    band_ms, worst = band(1000, repeat)
    print(f" 1000 devices, band: {band_ms:.2f} ms (bar {BAR_MS:g} ms), relative error {worst:.1e} (bar {BAR_ERROR:g})")
    return int(missed or band_ms > BAR_MS or worst > BAR_ERROR)


if __name__ == "__main__":
    sys.exit(main())
