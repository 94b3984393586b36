"""What evaluation takes beside the network itself, batch by batch: one core each, in processor time, in turn.

The networks are LeNet and those of `any_network.py`, which the engine was not made for.

    python benchmarks/evaluation.py [NETWORK ...] [--samples 4096] [--turns 5] [--markdown]

The other side is the module in `eval()` under `torch.no_grad()`, at the best of several sizes of batches, images
channels-last or not; networks that mix the samples of a batch have those of fedcell. `times` is the median of its time
over fedcell's, `apart` the distance of the scores over their norm.
"""

import argparse
import os
import time
from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from any_network import NETS, Amount, problem_of
from torch import Tensor, nn
from zoo import MNIST, TEXT, WORDS, Net

from fedcell.learn.samples import Samples

SIZES = 32, 128, 512
SEED = 1


def lenet() -> nn.Module:
    """Two convolutions of few channels, three dense layers."""
    convolutions = (
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )
    dense = nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)
    return nn.Sequential(*convolutions, *dense)


EVERY = {"lenet": Net(MNIST, lenet)} | NETS


class Found(NamedTuple):
    """Medians of seconds, the setting of the other side, and the distance of the scores."""

    fedcell_s: float
    module_s: float
    setting: str
    apart: float


def judged(net: Net, n_samples: int) -> Samples:
    rng = np.random.default_rng(SEED)
    if net.shape == TEXT:
        x = rng.integers(0, WORDS, (n_samples, *net.shape)).astype(np.float32)
    else:
        x = rng.standard_normal((n_samples, *net.shape), dtype=np.float32)
    return Samples(x, np.zeros(n_samples, np.int64), torch.device("cpu"))


def seconds(work: Callable[[], Tensor]) -> tuple[float, Tensor]:
    begin = time.process_time()
    found = work()
    return time.process_time() - begin, found


def compare(net: Net, n_samples: int, turns: int) -> Found:
    learner, samples = problem_of(net, Amount(1, 1, True)).learner, judged(net, n_samples)
    architecture = learner.architectures[0]
    params = architecture.whole(architecture.module)
    modules = {False: architecture.replica(torch.device("cpu")).eval()}
    if len(net.shape) == 3:
        modules[True] = architecture.replica(torch.device("cpu")).eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def ours() -> Tensor:
        return torch.cat([scores for _, scores in learner.scores(params, samples)])

    @torch.no_grad()
    def theirs(setting: tuple[int, bool]) -> Tensor:
        size, last = setting
        every = np.arange(n_samples)
        parts = [every[first : first + size] for first in range(0, n_samples, size)]
        if architecture.mixes_samples:
            parts = [index for index, _ in learner.scores(params, samples)]
        taken = (samples.take(index)[0] for index in parts)
        return torch.cat([modules[last](x if last or x.dim() < 4 else x.contiguous()) for x in taken])

    settings = list(product(SIZES, modules))
    best = min(settings, key=lambda one: min(seconds(lambda: theirs(one))[0] for _ in range(2)))
    ours()  # what is traced, is traced once
    times = [(seconds(ours)[0], seconds(lambda: theirs(best))[0]) for _ in range(turns)]
    fedcell_s, module_s = np.median(times, axis=0)
    wanted = theirs(best)
    apart = float((ours() - wanted).norm() / wanted.norm())
    return Found(float(fedcell_s), float(module_s), f"{best[0]}{', channels-last' * best[1]}", apart)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", nargs="*", help=f"of {', '.join(EVERY)}; all by default")
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--markdown", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"PyTorch {torch.__version__}, load {os.getloadavg()[0]:.1f}, {asked.samples} samples, median of {asked.turns}"
    )
    header = "network", "fedcell (ms)", "module (ms)", "its best batches", "times", "apart"
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}" if asked.markdown else "  ".join(header), flush=True)
    for name in asked.network or EVERY:
        found = compare(EVERY[name], asked.samples, asked.turns)
        times = f"{found.module_s / found.fedcell_s:.2f}"
        cells = (
            name,
            f"{1e3 * found.fedcell_s:.0f}",
            f"{1e3 * found.module_s:.0f}",
            found.setting,
            times,
            f"{found.apart:.0e}",
        )
        print(f"| {' | '.join(cells)} |" if asked.markdown else "  ".join(cells), flush=True)


if __name__ == "__main__":
    main()
