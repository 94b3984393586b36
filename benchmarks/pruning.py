"""Training sub-models: milliseconds as small networks and as masked full ones against the full model, in one run.

Ten devices, 8 steps of 64 (VGG-like: 2 steps of 16) with keep ratios of 1, 0.75, 0.5 and 0.25; both forms and the full
model take turns. Beside the times are the shares of parameters and FLOPs that are kept. `--mixed` gives every device
its own keep ratio, as deadlines do, so that no two small networks have the same shape.

    python benchmarks/pruning.py [--repeat 5] [--only mnist] [--device cuda] [--mixed] [--tf32]

    python benchmarks/pruning.py --rounds 300   # a run of AMP-FL on MNIST; the bar is 5 minutes on two cores

Read the ratios: they were taken in turn on one machine, whose load moves both sides alike.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from fedcell import methods
from fedcell.learn import models
from fedcell.learn.architecture import Architecture
from fedcell.learn.learner import Learner
from fedcell.learn.samples import Samples
from fedcell.learn.settings import ModelConfig, TrainConfig
from fedcell.learn.setup import initialise
from fedcell.learn.work import Work
from fedcell.methods.pruning import submodels
from fedcell.methods.pruning.units import Units, entry_masks, load, units_of
from fedcell.scenarios import build_problem, get
from fedcell.simulate import simulate
from fedcell.types import Bools, Floats, Start, Store, Updates

BAR_S = 300.0
KEEPS = (1.0, 0.75, 0.5, 0.25)
N_DEVICES, PER_DEVICE = 10, 300


class Load(NamedTuple):
    """A network and the work of one device."""

    model: ModelConfig
    shape: tuple[int, ...]
    steps: int
    batch_size: int


LOADS = {
    "mnist": Load(ModelConfig(name="cnn", hidden=(128,)), (1, 28, 28), 8, 64),
    "vgg-like": Load(
        ModelConfig(name="cnn", channels=(64, 128, 256, 256), kernel=3, padding=1, hidden=(128,)), (3, 32, 32), 2, 16
    ),
    "vgg11": Load(ModelConfig(name="vgg11", hidden=(128,), norm="batch"), (3, 32, 32), 8, 64),
}


def setting(load: Load, device: torch.device, tf32: bool) -> tuple[Learner, Units, Start, Work]:
    """The learner, units, start point and work of a load, on made-up samples."""
    rng = np.random.default_rng(1)
    n_samples = 2000
    x = rng.standard_normal((n_samples, *load.shape), dtype=np.float32)
    samples = Samples(x, rng.integers(0, 10, n_samples), device)
    net = Architecture.of(initialise(lambda: models.build(load.model, load.shape, 10), 1))
    learner = Learner([net], samples, samples, TrainConfig(tf32=tf32), 1)
    store = Store(rng.integers(0, n_samples, (N_DEVICES, PER_DEVICE)), np.full(N_DEVICES, PER_DEVICE))
    steps = np.full(N_DEVICES, load.steps)
    work = Work(np.arange(N_DEVICES), store, steps, lr=0.01, batch_size=load.batch_size, round=0)
    start = Start(learner.initial()[None], np.zeros(N_DEVICES, dtype=np.int64))
    return learner, units_of(net, load.shape), start, work


def keep_units(units: Units, keep: Floats) -> Bools:
    """Random units of every layer, `[n_devices, n_units]`, for one keep ratio per device."""
    rng, parts = np.random.default_rng(2), []
    for size in units.sizes:
        lots = rng.random((len(keep), size)).argsort(axis=1)
        parts.append(lots < np.maximum(np.floor(keep * size + 1e-9), 1)[:, None])
    return np.concatenate(parts, axis=1)


def compare(name: str, device: torch.device, repeat: int, mixed: bool, tf32: bool) -> None:
    """Best times of the three ways, taken in turn."""
    learner, units, start, work = setting(LOADS[name], device, tf32)
    n_params, steps = units.architecture.n_params, work.steps[0]
    print(f"{name}: {n_params} parameters, {N_DEVICES} devices, {steps} steps of {work.batch_size}; milliseconds")
    print("  keep  parameters   FLOPs      full   extract      mask  extract/full  mask/full")
    small = submodels.train_one_by_one if device.type == "cpu" else partial(submodels.train_padded, worth=1.0)
    for keep in KEEPS:
        spread = np.linspace(-0.05, 0.05, N_DEVICES) if mixed and keep < 1 else np.zeros(N_DEVICES)
        kept = keep_units(units, keep + spread)
        part = work._replace(mask=entry_masks(units, kept, device))
        ways: list[Callable[[], Updates]] = [
            partial(learner.train, start, work),
            partial(small, learner, units, start, part),
            partial(submodels.train, learner, units, start, part, "mask"),
        ]
        full, extract, mask = best_ms(ways, device, repeat)
        now, whole = load(units, units.counts(kept)), load(units, np.array(units.sizes))
        shares = f"{(now[0] / whole[0]).mean():12.2f}{(now[1] / whole[1]).mean():8.2f}"
        times = f"{full:10.0f}{extract:10.0f}{mask:10.0f}{extract / full:14.2f}{mask / full:11.2f}"
        print(f"{keep:6.2f}{shares}{times}")
    if device.type == "cuda":
        print(f"  peak memory {torch.cuda.max_memory_reserved() / 2**30:.1f} GiB")


def best_ms(ways: Sequence[Callable[[], Updates]], device: torch.device, repeat: int) -> Floats:
    """Least milliseconds of each, in turns; the first turn warms up."""
    taken = np.full((repeat + 1, len(ways)), np.inf)
    for turn in range(repeat + 1):
        for place, train in enumerate(ways):
            begun = time.perf_counter()
            train()
            if device.type == "cuda":
                torch.cuda.synchronize()
            taken[turn, place] = 1e3 * (time.perf_counter() - begun)
    return taken[1:].min(axis=0)


def run(rounds: int, device: str) -> bool:
    """A run of AMP-FL on MNIST with an evaluation every ten rounds; whether it meets the bar, scaled to its rounds."""
    preset = get("pruning")
    config = replace(preset.config, rounds=rounds, eval_every=10, train=replace(preset.config.train, device=device))
    problem, method = build_problem(config), methods.parse("pruning", preset.methods).build()
    begun = time.perf_counter()
    *_, (row, _) = simulate(problem, method)
    seconds = time.perf_counter() - begun
    bar = BAR_S * rounds / 300
    accuracy = row.metrics["accuracy"]
    print(f"AMP-FL on MNIST: {rounds} rounds in {seconds:.0f} s (bar {bar:.0f} s), accuracy {accuracy:.3f}")
    return seconds <= bar


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", choices=tuple(LOADS))
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--mixed", action="store_true")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--rounds", type=int, default=0)
    asked = parser.parse_args()
    if asked.rounds:
        return int(not run(asked.rounds, asked.device))
    usual = ("mnist", "vgg-like") if asked.device == "cpu" else ("mnist", "vgg11")
    for name in [asked.only] if asked.only else usual:
        compare(name, torch.device(asked.device), asked.repeat, asked.mixed, asked.tf32)
    return 0


if __name__ == "__main__":
    sys.exit(main())
