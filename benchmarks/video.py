"""Video requests: seconds to draw a run's requests and stores, and the memory that its samples take.

    python benchmarks/video.py [--users 100] [--rounds 100] [--repeats 5]

Seconds are the best of the repeats. "As rows" is what the same training samples would take as stored feature rows.
Then the time of local training with each input of a step taken once, as a share of that with every sample, in turn. The
last lines are the exact ceilings of the drawn worlds, mean over users, with their spread over seeds.
"""

import argparse
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np

from fedcell import world
from fedcell.data.video import (
    OSAFL,
    RAWHFL,
    VideoConfig,
    bayes_accuracy,
    build_catalogue,
    draw_profiles,
    loss_floor,
    most_requested_share,
    most_similar_accuracy,
)
from fedcell.data.video.problem import VideoParts, video_problem_parts
from fedcell.learn.work import Work
from fedcell.scenarios import build_problem, get
from fedcell.types import Start

SEEDS = range(1, 11)
BATCH = 16_000  # samples of one step of 100 clients
WORLDS = {
    "content": OSAFL,
    "image": replace(OSAFL, layout="image"),
    "history": replace(OSAFL, features="history"),
    "rawhfl": RAWHFL,
}


def best_s(work: Callable[[], object], repeats: int) -> float:
    """Shortest time of a call in seconds, after one that warms up."""
    work()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def play(parts: VideoParts, rounds: int) -> None:
    """Let a whole run's requests arrive."""
    store, memory = parts.stream.start(1)
    for round in range(rounds):
        store, memory = parts.stream.arrive(1, round, store, memory)


def measure(name: str, settings: VideoConfig, users: int, rounds: int, repeats: int) -> None:
    """Print time and memory of one world."""
    parts = video_problem_parts(settings, users, rounds, 1)
    build_s = best_s(lambda: video_problem_parts(settings, users, rounds, 1), repeats)
    play_s = best_s(lambda: play(parts, rounds), repeats)
    index = np.random.default_rng(1).integers(0, len(parts.train), BATCH)
    take_s = best_s(lambda: parts.train.take(index), repeats)
    tracemalloc.start()
    play(video_problem_parts(settings, users, rounds, 1), rounds)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    as_rows = 4 * prod(parts.shape) * len(parts.train)
    print(
        f"{name:8s} draw all {build_s:6.3f} s   {rounds} rounds of arrivals {play_s:6.3f} s   "
        f"{BATCH} samples taken {take_s:6.3f} s   {len(parts.train)} samples in {parts.train.nbytes / 2**20:.1f} MiB "
        f"(peak {peak / 2**20:.1f}, as rows {as_rows / 2**20:.0f})",
        flush=True,
    )


def shared_inputs(scenario: str, per_step: int, repeats: int) -> None:
    """Print how much of a step is distinct inputs, and what training on each of them once saves."""
    problem = build_problem(get(scenario).config)
    store, learner = world.start(problem.world, 1).store, problem.learner
    device = np.arange(0, problem.world.n_devices, 4)
    held = store._replace(items=store.items[device], size=store.size[device])
    work = Work(device, held, np.full(len(device), problem.train.steps), problem.train.lr, per_step, round=0)
    start = Start(learner.initial()[None], np.zeros(len(device), dtype=np.int64))
    samples, inputs = learner.train_samples, learner.train_samples.inputs
    assert inputs is not None
    distinct = np.mean([len(np.unique(inputs[row[: min(n, per_step)]])) for row, n in zip(*held, strict=True)])
    times: dict[bool, list[float]] = {True: [], False: []}
    for once in [True, False] * (repeats + 1):
        samples.inputs = inputs if once else None
        begin = time.perf_counter()
        learner.train(start, work)
        times[once].append(time.perf_counter() - begin)
    ratio = min(times[True][1:]) / min(times[False][1:])
    print(f"{scenario:8s} {distinct:.0f} distinct inputs in a step of {per_step}: {ratio:.2f} of the time", flush=True)


def ceilings(name: str, settings: VideoConfig, users: int) -> None:
    """Print the ceilings of one world."""
    drawn = [(build_catalogue(settings, seed), draw_profiles(settings, users, seed)) for seed in SEEDS]
    texts = []
    for what in (bayes_accuracy, most_similar_accuracy, loss_floor, most_requested_share):
        values = [float(np.mean(what(*one))) for one in drawn]
        texts.append(f"{what.__name__} {np.mean(values):.4f} +- {np.std(values):.4f}")
    print(f"{name:16s} {'   '.join(texts)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(f"{options.users} users, {options.rounds} rounds, best of {options.repeats}")
    for name, settings in WORLDS.items():
        measure(name, settings, options.users, options.rounds, options.repeats)
    shared_inputs("osafl", 160, options.repeats)
    shared_inputs("rawhfl", 320, options.repeats)
    for k, scaling in product((1, 2), ("half", "unit")):
        ceilings(f"osafl K={k}, {scaling}", replace(OSAFL, similar=k, scaling=scaling), options.users)
    ceilings("rawhfl", RAWHFL, options.users)


if __name__ == "__main__":
    main()
