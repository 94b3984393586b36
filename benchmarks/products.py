"""Dense layers on one core: GFLOP/s of PyTorch's products and of the compiled kernels, in processor time.

For each layer the output, the gradient by the input, and an SGD step of the weight that is a product:

    taskset -c 0 python benchmarks/products.py [--times 15]

Both sides take turns; each number is the best of all turns.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch

from fedcell.learn.engines.cpu.native import DENSE, Native, gathered, library

WORK = 4e8  # operations in a turn, so that the clock is fine enough
LAYERS = [  # samples, inputs, outputs
    *((10, 784, 10), (10, 784, 200), (10, 200, 200), (10, 3136, 512)),  # logistic regression, 2NN, CNNs
    *((20, 784, 200), (32, 784, 64), (32, 784, 512), (32, 3136, 512), (32, 3168, 640)),  # MLPs, OSAFL's FCN
    *((64, 784, 200), (48, 3168, 640), (160, 3168, 640)),
    *((300, 784, 64), (1000, 784, 512)),  # whole stores
]


def seconds(call: Callable[[], Any], n_operations: float) -> float:
    """Processor time of a call."""
    repeats = max(int(WORK / n_operations), 1)
    begin = time.process_time()
    for _ in range(repeats):
        call()
    return (time.process_time() - begin) / repeats


def both(n: int, n_in: int, n_out: int) -> list[tuple[Callable[[], Any], Callable[[], Any]]]:
    """PyTorch's call and ours, for each of the three products."""
    x, weight, bias, sent = (torch.randn(shape) for shape in ((n, n_in), (n_out, n_in), (n_out,), (n, n_out)))
    y, found, rate, sizes = torch.empty_like(sent), torch.empty_like(x), torch.tensor(-1e-9), [n, n_in, n_out]

    def ours(kernel: str, *tensors: torch.Tensor) -> Callable[[], Any]:
        return gathered([Native(DENSE, kernel, sizes, *tensors)])[0]

    return [
        (lambda: torch.addmm(bias, x, weight.T, out=y), ours("dense", x, weight, bias, y)),
        (lambda: torch.mm(sent, weight, out=found), ours("dense_by_input", sent, weight, found)),
        (lambda: weight.addmm_(sent.T, x, alpha=-1e-9), ours("dense_moved", sent, x, weight, rate)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=15, help="turns of each side")
    times = parser.parse_args().times
    if library(DENSE) is None:
        raise SystemExit("no compiler: nothing to compare")
    torch.set_num_threads(1)
    print("| samples | inputs | outputs | output | by input | step of the weight |\n|---|---|---|---|---|---|")
    for layer in LAYERS:
        n_operations = 2.0 * layer[0] * layer[1] * layer[2]
        cells = []
        with torch.inference_mode():
            for pair in both(*layer):
                turns = [[seconds(call, n_operations) for call in pair] for _ in range(times)]
                theirs, ours = (n_operations / min(column) / 1e9 for column in zip(*turns, strict=True))
                cells.append(f"{theirs:.0f}, {ours:.0f}")
        print(f"| {' | '.join(map(str, layer))} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
