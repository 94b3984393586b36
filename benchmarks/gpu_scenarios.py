"""Whole rounds of scenarios on one GPU: milliseconds a round, and those of local training, of one or two checkouts.

    python benchmarks/gpu_scenarios.py [--before CHECKOUT] [--only NAME ...] [--rounds 8]

Every workload runs in a process of its own, with `--before` of both checkouts in turn. Made-up images stand in for
CIFAR-10, because speed does not depend on what images show. Products are in TensorFloat-32; the first three rounds,
which compile and record, do not count, and nothing is evaluated before the last round.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
WARM = 3
LOADS: dict[str, tuple[str, str, dict[str, Any]]] = {  # scenario, method, settings of the method
    "AMP-FL, VGG-11 cut to the deadline": ("pruning_vgg", "pruning", {}),
    "FedAvg, VGG-11": ("pruning_vgg", "fedavg", {}),
    "FL-GR, VGG-11": ("recycling_vgg", "recycling", {}),
    "20 devices by lot, CNN": ("representativity", "representativity", {"policy": "random", "n_selected": 20}),
    "OSAFL, CNN": ("osafl_cnn", "osafl", {}),
    "OSAFL, SqueezeNet1": ("osafl_squeezenet", "osafl", {}),
    "OSAFL, LSTM": ("osafl_lstm", "osafl", {}),
}


def measured(name: str, rounds: int) -> dict[str, float]:
    """Median milliseconds of a round and of its training, and the largest memory in GiB, in this process."""
    import torch

    from fedcell import methods
    from fedcell.learn.learner import Learner
    from fedcell.options import override
    from fedcell.scenarios import build_problem, get
    from fedcell.simulate import simulate

    scenario, method, settings = LOADS[name]
    spent, train = [0.0], Learner._train

    def wait() -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def timed(*given: Any) -> torch.Tensor:
        wait()
        begin = perf_counter()
        found = train(*given)
        wait()
        spent[-1] += perf_counter() - begin
        return found

    Learner._train = timed  # type: ignore[method-assign, assignment]
    preset = get(scenario)
    config = override(preset.config, {"rounds": rounds, "eval_every": rounds, "train.tf32": True})
    problem = build_problem(config, made_up() if config.data.name == "cifar10" else None)
    module = methods.load(method)
    played = simulate(problem, module.build(override(module.Config(), {**preset.methods.get(method, {}), **settings})))
    seconds, begin = [], perf_counter()
    for _ in played:
        wait()
        seconds.append(perf_counter() - begin)
        begin = perf_counter()
        spent.append(0.0)
    counted = slice(min(WARM, rounds - 1), rounds - (rounds > WARM + 1))  # the last one is evaluated
    memory = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0
    return {
        "round_ms": 1e3 * median(seconds[counted]),
        "train_ms": 1e3 * median(spent[:rounds][counted]),
        "memory_gib": memory,
    }


def made_up() -> Any:
    """Images of ten classes in the shapes of CIFAR-10."""
    from fedcell.data import Dataset

    rng = np.random.default_rng(0)
    labels = [np.tile(np.arange(10), n) for n in (5000, 200)]
    means = rng.normal(size=(10, 3, 32, 32)).astype(np.float32)
    images = [means[y] + 2 * rng.standard_normal((len(y), 3, 32, 32), dtype=np.float32) for y in labels]
    return Dataset("cifar10", images[0], labels[0], images[1], labels[1], 10)


def child(checkout: Path, name: str, rounds: int) -> dict[str, float]:
    """`measured` in a process with the code of a checkout."""
    command = [sys.executable, __file__, "--child", name, "--rounds", str(rounds)]
    told = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(checkout / "src")}, check=True, capture_output=True, text=True
    )
    return dict(json.loads(told.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="another checkout of fedcell")
    parser.add_argument("--only", choices=list(LOADS), action="append")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--child", choices=list(LOADS), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(measured(asked.child, asked.rounds)))
        return
    checkouts = {"before": asked.before.resolve()} if asked.before else {}
    checkouts["now"] = ROOT
    print("| workload | " + " | ".join(f"{side}: round (training), ms | GiB" for side in checkouts) + " |")
    print("|---" * (1 + 2 * len(checkouts)) + "|")
    for name in asked.only or LOADS:
        found = [child(checkout, name, asked.rounds) for checkout in checkouts.values()]
        cells = [f"{one['round_ms']:.0f} ({one['train_ms']:.0f}) | {one['memory_gib']:.1f}" for one in found]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
