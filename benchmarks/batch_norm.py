"""Batch norm with running statistics against group norm: seconds of a round of ResNet-18, engine by engine.

    python benchmarks/batch_norm.py [--devices 20] [--steps 5] [--batch 32] [--width 64] [--repeats 5] [--engine auto]

Random images of 3 x 32 x 32. A round is the local training of all devices, nothing else; seconds are the best of the
repeats, after two rounds that warm up. The last column is the time as a multiple of that with group norm.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from fedcell.learn.architecture import Architecture
from fedcell.learn.learner import Learner
from fedcell.learn.samples import Samples
from fedcell.learn.settings import TrainConfig
from fedcell.learn.setup import pick_device
from fedcell.learn.work import Work
from fedcell.types import Start, Store

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

from resnet18 import resnet18

HELD = 200  # samples of a device


def grouped(module: nn.Module) -> nn.Module:
    """The network with group norms in the place of batch norms."""
    for name, part in list(module.named_modules()):
        if isinstance(part, nn.BatchNorm2d):
            owner, _, last = name.rpartition(".")
            setattr(module.get_submodule(owner), last, nn.GroupNorm(min(32, part.num_features), part.num_features))
    return module


def round_s(learner: Learner, start: Start, work: Work, repeats: int) -> float:
    """Shortest time of a round in seconds."""
    times = []
    for _ in range(repeats + 2):
        begun = time.perf_counter()
        found = learner.train(start, work).delta
        if found.is_cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
        del found
    return min(times[2:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {"devices": 20, "steps": 5, "batch": 32, "width": 64, "repeats": 5}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--engine", default="auto")
    args = parser.parse_args()
    device, rng = pick_device("auto"), np.random.default_rng(1)
    x = rng.standard_normal((args.devices * HELD, 3, 32, 32)).astype(np.float32)
    data = Samples(x, rng.integers(0, 10, len(x)), device)
    store = Store(np.arange(len(x)).reshape(args.devices, HELD), np.full(args.devices, HELD))
    work = Work(np.arange(args.devices), store, np.full(args.devices, args.steps), 0.05, args.batch, round=0)
    print(f"{args.devices} devices, {args.steps} steps of {args.batch} on {device}, engine {args.engine}")
    first = None
    for name, buffers in (("group norm", "average"), ("batch norm", "average"), ("batch norm", "local")):
        torch.manual_seed(1)
        module = resnet18(width=args.width)
        layout = Architecture.of(grouped(module) if name == "group norm" else module, buffers)
        learner = Learner([layout], data, data, TrainConfig(engine=args.engine), seed=1)
        start = Start(learner.initial()[None], np.zeros(args.devices, dtype=np.int64))
        took_s = round_s(learner, start, work, args.repeats)
        first = first or took_s
        print(f"{name}, {buffers}: {took_s:.4g} s, {took_s / first:.2f}")


if __name__ == "__main__":
    main()
