"""TensorFloat-32 and bfloat16 beside float32: accuracy, loss and milliseconds per round of the same runs.

    python benchmarks/precision.py [--rounds 60] [--seeds 3] [--devices 20] [--device cuda]

FedAvg with LeNet and with the CNN of `engine.py` on made-up images of ten classes that overlap; every device trains in
every round, for 5 steps of 32. All precisions see the same images, devices and mini-batches. Seconds are those of the
median round, without the first three, in which kernels are compiled and steps recorded.
"""

import argparse
from time import perf_counter
from typing import Any

import numpy as np
import torch
from engine import LOADS

from fedcell import from_arrays, methods
from fedcell.options import override, to_dict
from fedcell.scenarios import Config, build_problem
from fedcell.simulate import simulate

PRECISIONS = ("float32", "tf32", "bf16")  # the last two are settings
APART, WARM = 0.2, 3  # between the means of two classes, in deviations of a pixel; rounds that do not count


def images(shape: tuple[int, ...], n: int, seed: int) -> tuple[Any, Any]:
    """So many images and their labels."""
    coarse = np.random.default_rng(0).standard_normal((10, shape[0], shape[1] // 4, shape[2] // 4), dtype=np.float32)
    means = coarse.repeat(4, axis=2).repeat(4, axis=3)  # patterns that convolutions can see
    x = np.random.default_rng(seed).standard_normal((n, *shape), dtype=np.float32)
    y = np.arange(n) % 10
    return x + APART * means[y], y


def run(name: str, precision: str, seed: int, asked: argparse.Namespace) -> tuple[float, float, float]:
    """(accuracy, loss, seconds of a round)."""
    load = LOADS[name]
    train = {"train.steps": 5, "train.batch_size": 32, "train.device": asked.device}
    train |= {f"train.{one}": one == precision for one in PRECISIONS[1:]}
    model = {f"model.{key}": value for key, value in to_dict(load.model).items()}
    others = {"world.n_devices": asked.devices, "rounds": asked.rounds, "eval_every": asked.rounds, "seed": seed}
    config = override(Config(), {**train, **model, **others})
    data = from_arrays(*images(load.shape, 100 * asked.devices, seed), *images(load.shape, 5000, 99))
    marks, last = [perf_counter()], None
    for row, _ in simulate(build_problem(config, data), methods.parse("fedavg").build()):
        if asked.device == "cuda":
            torch.cuda.synchronize()
        marks.append(perf_counter())
        last = row
    assert last is not None
    return last.metrics["accuracy"], last.metrics["loss"], float(np.median(np.diff(marks)[WARM:-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--devices", type=int, default=20)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="a CPU has no TensorFloat-32")
    asked = parser.parse_args()
    if asked.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("this machine shows no CUDA GPU: give --device cpu")
    print("| network | precision | accuracy by seed | loss by seed | ms per round |\n|---|---|---|---|---|")
    for name in ("lenet", "cnn"):
        for precision in PRECISIONS:
            found = [run(name, precision, seed, asked) for seed in range(1, asked.seeds + 1)]
            accuracy, loss = (", ".join(f"{one[place]:.4f}" for one in found) for place in (0, 1))
            ms = 1e3 * float(np.median([one[2] for one in found]))
            print(f"| {name} | {precision} | {accuracy} | {loss} | {ms:.2f} |", flush=True)


if __name__ == "__main__":
    main()
