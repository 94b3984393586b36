"""Local training against a plain PyTorch loop: milliseconds per round and peak memory, in one alternated run.

Five workloads: 100 clients with 1 to 5 ragged steps of 32 samples (FCN, LeNet, CNN, LSTM), and 1000
clients with 5 steps of 10 (logistic regression). Both sides train the same clients from the same
model on the same batches and keep one flat update per client; their updates are compared at the end.

    python benchmarks/engine.py [--rounds 5] [--only lenet] [--device cuda] [--before ../old]

With `--before` the engine of another checkout stands in for the plain loop: what a change did to speed.
Read the ratios: they were taken in turn on one machine, whose load moves both sides alike.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedcell.learn import models
from fedcell.learn.architecture import Architecture
from fedcell.learn.engines.common import Batches, Job
from fedcell.learn.engines.gpu.cuda_graphs import Replays
from fedcell.learn.learner import Learner
from fedcell.learn.samples import Samples
from fedcell.learn.settings import ModelConfig, TrainConfig
from fedcell.learn.setup import initialise
from fedcell.learn.work import Work
from fedcell.types import Start, Store


class Load(NamedTuple):
    """One workload and the ratio to the plain loop it must reach."""

    model: ModelConfig
    shape: tuple[int, ...]
    n_classes: int
    bar: float
    n_clients: int = 100
    steps: tuple[int, int] = (1, 5)
    batch_size: int = 32
    per_client: int = 300


LOADS = {
    "fcn": Load(ModelConfig(name="mlp", hidden=(640, 256)), (3168,), 100, 1.5),
    "lenet": Load(ModelConfig(name="cnn", channels=(10, 20), hidden=(50,)), (1, 28, 28), 10, 1.8),
    "cnn": Load(ModelConfig(name="cnn", channels=(32, 64), kernel=3, padding=1, hidden=(128,)), (3, 32, 32), 100, 1.5),
    "lstm": Load(ModelConfig(name="lstm", layers=1), (10,), 100, 1.2),
    "logistic": Load(ModelConfig(name="logistic"), (784,), 10, 8.0, 1000, (5, 5), 10, 60),
}


def setting(load: Load, device: torch.device, engine: str = "auto") -> tuple[Learner, Start, Work]:
    """The learner, start point and work of a workload, on made-up samples."""
    rng = np.random.default_rng(1)
    n_samples = min(load.n_clients * load.per_client, 6000)
    x = rng.standard_normal((n_samples, *load.shape), dtype=np.float32)
    if load.model.name == "lstm":
        x = rng.integers(0, load.n_classes, x.shape).astype(np.float32)
    samples = Samples(x, rng.integers(0, load.n_classes, n_samples), device)
    module = initialise(lambda: models.build(load.model, load.shape, load.n_classes), 1)
    learner = Learner([Architecture.of(module)], samples, samples, TrainConfig(engine=engine), 1)
    store = Store(
        rng.integers(0, n_samples, (load.n_clients, load.per_client)), np.full(load.n_clients, load.per_client)
    )
    steps = rng.integers(load.steps[0], load.steps[1] + 1, load.n_clients)
    work = Work(np.arange(load.n_clients), store, steps, lr=0.05, batch_size=load.batch_size, round=0)
    return learner, Start(learner.initial()[None], np.zeros(load.n_clients, dtype=np.int64)), work


def plain_samples(learner: Learner) -> tuple[Tensor, Tensor]:
    """x and y as plain code holds them: row-major, channels first."""
    x, y = learner.train_samples.take(torch.arange(len(learner.train_samples), device=learner.device))
    return torch.empty(x.shape, device=learner.device).copy_(x), y


def plain_loop(learner: Learner, start: Start, work: Work, samples: tuple[Tensor, Tensor]) -> Tensor:
    """What most code does: one module, autograd, `torch.optim.SGD`, default threads."""
    architecture = learner.architectures[0]
    out = torch.empty(len(work.steps), architecture.n_params, device=learner.device)
    data, seed = learner.train_samples, learner.seed
    job = Job(architecture, data, start.points, start.of_row, work, "shuffle", seed, out, Replays())
    batches = Batches(job)
    module = architecture.replica(learner.device)
    parameters = list(module.parameters())
    for row, steps in enumerate(work.steps):
        nn.utils.vector_to_parameters(start.points[0].clone(), parameters)
        optimiser = torch.optim.SGD(parameters, lr=work.lr)
        index = torch.from_numpy(batches.of_row(row, int(steps))).view(int(steps), -1).to(learner.device)
        for batch in index:
            optimiser.zero_grad()
            functional.cross_entropy(module(samples[0][batch]), samples[1][batch]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        out[row] = nn.utils.parameters_to_vector(parameters).detach() - start.points[0]
    return out


def aggregate(delta: Tensor) -> Tensor:
    """Mean update and the cosine of every update with it, as methods with scores do."""
    mean = delta.mean(0)
    return (delta @ mean) / (delta.norm(dim=1) * mean.norm())


def once(train: Callable[[], Tensor], device: torch.device) -> float:
    """Seconds of one round: training, mean and cosines; the updates are dropped at the end, as in a run."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    begin = time.perf_counter()
    aggregate(train())
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def side(way: str, load: Load, device: str, link: Connection) -> None:
    """A process that trains a round in one of the two ways whenever it is asked to, and answers with the seconds."""
    learner, start, work = setting(load, torch.device(device))
    samples = plain_samples(learner)
    ways: dict[str, Callable[[], Tensor]] = {
        "engine": lambda: learner.train(start, work).delta,
        "plain": lambda: plain_loop(learner, start, work, samples),
    }
    link.send(ways[way]().cpu().numpy())  # to be compared; warms up, too
    while link.recv():
        link.send(once(ways[way], torch.device(device)))


def here(way: str, load: Load, device: str) -> Connection:
    """A link to `side` in a process of its own."""
    near, far = get_context("spawn").Pipe()
    get_context("spawn").Process(target=side, args=(way, load, device, far), daemon=True).start()
    return near


def elsewhere(tree: Path, name: str, device: str) -> Connection:
    """A link to `side` of another checkout: its own benchmark on its own sources."""
    near, far = get_context("spawn").Pipe()
    code = (
        "import sys; from multiprocessing.connection import Connection; sys.path.insert(0, sys.argv[1])\n"
        "import engine; engine.side('engine', engine.LOADS[sys.argv[2]], sys.argv[3], Connection(int(sys.argv[4])))"
    )
    command = [sys.executable, "-c", code, str(tree / "benchmarks"), name, device, str(far.fileno())]
    subprocess.Popen(command, pass_fds=[far.fileno()], env=os.environ | {"PYTHONPATH": str(tree / "src")})
    return near


def compare(name: str, load: Load, device: str, rounds: int, before: Path | None) -> None:
    """Alternate the engine and the plain loop, or a former engine, and print the best of each and their ratio."""
    other = "plain loop" if before is None else "before"
    links = {
        "engine": here("engine", load, device),
        other: here("plain", load, device) if before is None else elsewhere(before.resolve(), name, device),
    }
    mine, theirs = (link.recv() for link in links.values())
    apart = float(np.linalg.norm(mine - theirs) / np.linalg.norm(theirs))
    times: dict[str, list[float]] = {way: [] for way in links}
    for _ in range(rounds):
        for way, link in links.items():
            link.send(True)
            times[way].append(link.recv())
    for link in links.values():
        link.send(False)
    best = {way: min(seconds) * 1e3 for way, seconds in times.items()}
    ratio = best[other] / best["engine"]
    middle = float(np.median(times[other]) / np.median(times["engine"]))
    verdict = "" if before is not None else f"; bar {load.bar:g}: {'holds' if ratio >= load.bar else 'MISSED'}"
    print(
        f"{name:10s} engine {best['engine']:8.1f} ms   {other} {best[other]:8.1f} ms   ratio {ratio:5.2f} "
        f"(medians {middle:5.2f}{verdict})   updates differ by {apart:.1e}",
        flush=True,
    )


def growth(rounds: int, device: torch.device) -> None:
    """Time of 1000 logistic clients over the time of 100."""
    best = {}
    for n_clients in (100, 1000):
        learner, start, work = setting(LOADS["logistic"]._replace(n_clients=n_clients), device)
        seconds = [once(lambda: learner.train(start, work).delta, device) for _ in range(2 * rounds + 1)]  # noqa: B023
        best[n_clients] = min(seconds[1:])
    ratio = best[1000] / best[100]
    verdict = "holds" if ratio < 10 else "MISSED"
    print(f"growth     1000 logistic clients take {ratio:.1f}x the time of 100 (bar 10: {verdict})")


def resident(field: str) -> int:
    """Bytes of a line of /proc/self/status: VmRSS is now, VmHWM the peak."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


def memory(name: str) -> None:
    """In a fresh process: peak resident memory of three rounds over what the process had before them."""
    learner, start, work = setting(LOADS[name], torch.device("cpu"))
    learner.evaluate(start.points[0])  # so that library start-up is not charged to training
    small = work._replace(
        **{f: getattr(work, f)[:2] for f in ("device", "steps")}, store=Store(*(p[:2] for p in work.store))
    )
    learner.train(Start(start.points, start.of_row[:2]), small)
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again from here
    before = resident("VmRSS")
    for _ in range(3):
        updates = learner.train(start, work).delta.numel() * 4
    peak = resident("VmHWM")
    data = len(learner.train_samples) * int(np.prod(learner.train_samples.shape)) * 4
    print(json.dumps({"extra": peak - before, "updates": updates, "data": data}))


def report_memory(name: str) -> None:
    command = [sys.executable, __file__, "--memory", name]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    bar = 2 * found["updates"] + found["data"]
    mib = {key: value / 2**20 for key, value in found.items()}
    print(
        f"{name:10s} peak over idle {mib['extra']:7.1f} MiB; updates {mib['updates']:.1f}, data {mib['data']:.1f}; "
        f"bar 2 x updates + data = {bar / 2**20:.1f} MiB: {'holds' if found['extra'] < bar else 'MISSED'}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=list(LOADS), action="append")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--before", metavar="TREE", type=Path, help="another checkout, in place of the plain loop")
    parser.add_argument("--memory", choices=list(LOADS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        memory(options.memory)
        return
    device = torch.device(options.device)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {options.device}, best of {options.rounds}")
    for name in options.only or LOADS:
        compare(name, LOADS[name], options.device, options.rounds, options.before)
    if options.before:
        return
    growth(options.rounds, device)
    if options.device == "cpu":
        for name in options.only or LOADS:
            report_memory(name)


if __name__ == "__main__":
    main()
