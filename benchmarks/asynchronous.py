"""What asynchrony costs the machine: 1,000 devices on an event clock against synchronous rounds of the same work.

FedBuff has all devices on the way and steps with every `K` arrivals, so that about `K` start anew and train in one
call. It is held against FedAvg with `K` devices picked at random in every round and, for a model that engines train in
batches of devices, against FedAvg with all 1,000, by the processor time per update that was trained. Rounds alternate;
ratios are those of medians, and their bar is 1.2. Ratios by the clock depend on what else the machine does.

    python benchmarks/asynchronous.py [--rounds 12]
"""

import argparse
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import fedcell
from fedcell import methods
from fedcell.options import override
from fedcell.scenarios import Config, build_problem
from fedcell.simulate import simulate
from fedcell.types import Problem, Row, Snapshot

BAR = 1.2
N_DEVICES = 1000
LENET = {"model.name": "cnn", "model.channels": (10, 20), "model.hidden": (50,)}
CASES: dict[str, tuple[int, dict[str, Any], tuple[str, ...]]] = {  # K, settings, what else to hold it against
    "LeNet, K = 100": (100, LENET, ()),
    "LeNet, K = 10": (10, LENET, ()),
    "logistic, K = 100": (100, {"model.name": "logistic"}, ("fedavg",)),
}
WORLD = {  # slow and fast devices, each on a band of its own, whatever it does
    "world.n_devices": N_DEVICES,
    "world.access": "own_band",
    "world.cpu_hz": "1e8~2e9",
    "world.cycles_per_sample": 1e6,
    "train.steps": 5,
    "train.batch_size": 32,
    "data.partition": "iid",
    "eval_every": 10**6,
}


def problem_of(settings: dict[str, Any], rounds: int) -> Problem:
    rng = np.random.default_rng(1)
    n = 6 * N_DEVICES
    x, y = rng.random((n, 1, 28, 28), dtype=np.float32), rng.integers(0, 10, n)
    data = fedcell.from_arrays(x, y, x[:10], y[:10])
    return build_problem(override(Config(), {**WORLD, **settings, "rounds": rounds}), data)


class Timed:
    """Rounds of one method, with the seconds of each per update that was trained."""

    def __init__(self, problem: Problem, method: str) -> None:
        self.rounds: Iterator[tuple[Row, Snapshot]] = simulate(problem, methods.parse(method).build())
        self.seconds: list[tuple[float, float]] = []  # of the processor, of the clock

    def play(self) -> None:
        begun = time.process_time(), time.perf_counter()
        row, _ = next(self.rounds)
        trained = row.metrics.get("started", row.n_selected)
        ended = time.process_time(), time.perf_counter()
        self.seconds.append(((ended[0] - begun[0]) / trained, (ended[1] - begun[1]) / trained))

    def median_s(self) -> tuple[float, float]:
        """Without the first rounds, which warm up; the very first trains all that start together."""
        processor, clock = np.median(self.seconds[2:], axis=0)
        return float(processor), float(clock)


def measure(name: str, rounds: int) -> bool:
    k, settings, more = CASES[name]
    problem = problem_of(settings, rounds + 3)  # the last round is evaluated and not played
    names = (f"fedbuff:buffer={k}", f"fedavg:scheduler=random,n_selected={k}", *more)
    ours, *others = (Timed(problem, method) for method in names)
    for _ in range(rounds + 2):
        for one in (ours, *others):
            one.play()
    (cpu_s, clock_s), holds = ours.median_s(), True
    print(f"{name}: {1e3 * cpu_s:.3f} ms of processor time per update asynchronous", flush=True)
    for method, other in zip(names[1:], others, strict=True):
        their_cpu_s, their_clock_s = other.median_s()
        ratio = cpu_s / their_cpu_s
        holds &= ratio <= BAR
        print(
            f"    {method}: {1e3 * their_cpu_s:.3f} ms, ratio {ratio:.2f} (bar {BAR:g}: "
            f"{'holds' if ratio <= BAR else 'MISSED'}), by the clock {clock_s / their_clock_s:.2f}",
            flush=True,
        )
    return holds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12, help="timed rounds of each (default: 12)")
    rounds = parser.parse_args().rounds
    held = [measure(name, rounds) for name in CASES]
    return 0 if all(held) else 1


if __name__ == "__main__":
    raise SystemExit(main())
