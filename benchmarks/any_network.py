"""fedcell beside a plain PyTorch loop on networks that it was not made for, in one alternated run each.

The networks are those of `zoo.py` and `zoo_later.py`.

Clients (ten) do steps (ten) in a round, in fedcell as a user would run it and in a plain loop (one module, autograd,
`torch.optim.SGD`) at its best setting: one thread or two, images channels-last or not. Both train the same clients on
the same mini-batches from the same model.

    python benchmarks/any_network.py [NETWORK ...] [--rounds 5] [--clients 10] [--steps 10] [--one-core] [--markdown]

`times` is the median time of the plain loop over that of fedcell. `apart` is the distance of the models after a round
over the way they went, `rounding` the same for two settings of the plain loop, which differ in the order of sums alone.
With `--one-core` both have one core, and processor time counts: what a busy machine can measure.
"""

import argparse
import copy
import os
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from zoo import NETS as FIRST
from zoo import TEXT, WORDS, Net
from zoo_later import NETS as LATER

import fedcell
from fedcell import methods, world
from fedcell.learn.batches import draw_batches
from fedcell.learn.setup import initialise
from fedcell.learn.tasks import LEARNED
from fedcell.methods.parts.defaults import work_of
from fedcell.options import override
from fedcell.scenarios import Config, build_problem
from fedcell.simulate import simulate
from fedcell.types import Problem

SEED, SAMPLES, CLASSES, LR = 1, 640, 10, 0.02
TRIED = 2  # clients of the plain loop with each setting
METHOD = "fedavg:weights=equal"
NETS = FIRST | LATER
CLOCKS = {False: time.perf_counter, True: time.process_time}


class Amount(NamedTuple):
    """Of work in a round, and whether each side has one core and counts processor time."""

    clients: int
    steps: int
    one_core: bool


class Setting(NamedTuple):
    """Of the plain loop."""

    threads: int
    channels_last: bool

    def __str__(self) -> str:
        return f"{self.threads} thread{'s' * (self.threads > 1)}{', channels-last' * self.channels_last}"


def problem_of(net: Net, amount: Amount) -> Problem:
    """What fedcell is given: made-up samples of classes that differ, and a network."""
    rng = np.random.default_rng(SEED)
    y = np.arange(SAMPLES) % CLASSES
    if net.shape == TEXT:
        x = rng.integers(0, WORDS, (len(y), *net.shape))
        x = np.where(rng.random(x.shape) < 0.3, x // CLASSES * CLASSES + y[:, None], x).astype(np.float32)
        y = np.roll(x.astype(np.int64), -1, 1) if net.task == "next-token" else y
    else:
        means = 0.5 * rng.standard_normal((CLASSES, *net.shape), dtype=np.float32)
        x = means[y] + 0.5 * rng.standard_normal((len(y), *net.shape), dtype=np.float32)
    settings = {
        "seed": SEED,
        "eval_every": 1_000_000,
        "rounds": 1_000_000,
        "world.n_devices": amount.clients,
        "world.access": "own_band",
        "world.pathloss": "power_law",
        "world.cycles_per_sample": "1e3",
        "data.partition": "iid",
        "train.lr": LR,
        "train.steps": amount.steps,
        "train.workers": int(amount.one_core),
        "train.batch_size": net.batch_size,
        "train.device": "cpu",
    }
    if net.task != "classification":
        settings["data.task"] = net.task
    dataset = fedcell.from_arrays(x, y, x[:10], y[:10], task=net.task)
    return build_problem(override(Config(), settings), dataset, initialise(net.build, SEED))


class Plain:
    """The plain loop."""

    def __init__(self, net: Net, amount: Amount) -> None:
        self.problem = problem_of(net, amount)
        self.module = self.problem.learner.architectures[0].replica(torch.device("cpu"))
        self.parameters, self.state = list(self.module.parameters()), world.start(self.problem.world, SEED)
        self.begin, self.start = self.model(), copy.deepcopy(self.module.state_dict())
        learner = self.problem.learner
        self.x, self.y = (one.clone() for one in learner.train_samples.take(np.arange(len(learner.train_samples))))
        self.loss = LEARNED[net.task].loss

    def model(self) -> Tensor:
        return torch.cat([one.detach().reshape(-1) for one in self.parameters])

    def draws(self, number: int) -> NDArray[np.int64]:
        """The samples of every client and step of a round, as fedcell draws them."""
        choice = methods.parse(METHOD)
        observation, self.state = world.observe(self.problem.world, self.state, SEED, number)
        given = work_of(
            choice.config, self.problem, observation, choice.build().decide(self.problem, None, observation)
        )
        n_draws = given.steps * given.batch_size
        flat, first = draw_batches(given.store, given.device, n_draws, self.problem.train.sampling, SEED, number)
        return flat[first[:, None] + np.arange(n_draws[0])].reshape(len(first), given.steps[0], -1)

    def round(self, batches: NDArray[np.int64], setting: Setting) -> Tensor:
        """The mean of the clients' models after a round from the first model."""
        torch.set_num_threads(setting.threads)
        layout = torch.channels_last if setting.channels_last else torch.contiguous_format
        if any(one.dim() == 4 for one in self.parameters):
            self.module.to(memory_format=layout)  # type: ignore[call-overload]
        x = self.x.contiguous(memory_format=layout) if self.x.dim() == 4 else self.x
        total = torch.zeros_like(self.begin)
        for client in batches:
            self.module.load_state_dict(self.start)
            optimiser = torch.optim.SGD(self.parameters, lr=LR)
            for batch in client:
                optimiser.zero_grad()
                self.loss(self.module(x[batch]), self.y[batch]).mean().backward()  # type: ignore[no-untyped-call]
                optimiser.step()
            total += self.model() - self.begin
        return self.begin + total / len(batches)


def fedcell_side(name: str, amount: Amount, link: Connection) -> None:
    """A process that plays a round whenever it is asked to: seconds, model, and what trained it."""
    if amount.one_core:
        torch.set_num_threads(1)
    problem, now = problem_of(NETS[name], amount), CLOCKS[amount.one_core]
    rounds = simulate(problem, methods.parse(METHOD).build())
    while link.recv():
        begin = now()
        _, after = next(rounds)
        link.send((now() - begin, after.params.numpy(), "; ".join(problem.learner.trained_by)))


def plain_side(name: str, amount: Amount, link: Connection) -> None:
    """A process that trains some clients with the setting that it is sent, until that is None: seconds and model."""
    plain, now = Plain(NETS[name], amount), CLOCKS[amount.one_core]
    batches = plain.draws(0)
    link.send((plain.begin.numpy(), plain.x.dim() == 4))
    while (asked := link.recv()) is not None:
        setting, n_clients = asked
        begin = now()
        model = plain.round(batches[:n_clients], setting)
        link.send((now() - begin, model.numpy()))


def start(side: Any, *about: Any) -> Connection:
    near, far = get_context("spawn").Pipe()
    get_context("spawn").Process(target=side, args=(*about, far), daemon=True).start()
    return near


def ask(link: Connection, what: Any) -> Any:
    link.send(what)
    return link.recv()


class Found(NamedTuple):
    """What a comparison found: medians of seconds, and distances."""

    name: str
    n_params: int
    fedcell_s: float
    plain_s: float
    setting: Setting
    apart: float
    rounding: float
    told: str

    @property
    def cells(self) -> tuple[str, ...]:
        seconds = (f"{1e3 * one:.0f}" for one in (self.fedcell_s, self.plain_s))
        distances = (f"{one:.0e}" for one in (self.apart, self.rounding))
        times = f"{self.plain_s / self.fedcell_s:.2f}"
        return self.name, f"{self.n_params:,}", *seconds, str(self.setting), times, *distances


def compare(name: str, rounds: int, amount: Amount) -> Found:
    """Find the best setting of the plain loop on some clients, then alternate."""
    ours, plain = (start(side, name, amount) for side in (fedcell_side, plain_side))
    begin, images = plain.recv()
    model = ask(ours, True)[1][: len(begin)]
    threads = sorted({1, 1 if amount.one_core else len(os.sched_getaffinity(0))})
    settings = [Setting(n, last) for last in sorted({False, images}) for n in threads]
    tried = {one: min(ask(plain, (one, TRIED))[0] for _ in range(2)) for one in settings}
    best = min(settings, key=lambda one: tried[one])
    theirs, others = (ask(plain, (one, amount.clients))[1] for one in (best, max(settings, key=lambda one: tried[one])))
    way = np.linalg.norm(theirs - begin)
    apart, rounding = (float(np.linalg.norm(one - theirs) / way) for one in (model, others))
    times = [(ask(ours, True)[0], ask(plain, (best, amount.clients))[0]) for _ in range(rounds)]
    _, _, told = ask(ours, True)
    ours.send(False)
    plain.send(None)
    fedcell_s, plain_s = np.median(times, axis=0)
    return Found(name, len(begin), float(fedcell_s), float(plain_s), best, apart, rounding, told)


HEADER = "network", "parameters", "fedcell (ms)", "plain loop (ms)", "its best setting", "times", "apart", "rounding"
WIDTHS = 18, 10, 12, 15, 24, 6, 7, 8


def row(cells: tuple[str, ...], markdown: bool) -> str:
    if markdown:
        return f"| {' | '.join(cells)} |"
    return " ".join(f"{cell:>{n}s}" for cell, n in zip(cells, WIDTHS, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", nargs="*", help=f"of {', '.join(NETS)}; all by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--steps", type=int, default=10, help="of every client in a round")
    parser.add_argument("--one-core", action="store_true", help="one core for each, in processor time")
    parser.add_argument("--markdown", action="store_true")
    asked = parser.parse_args()
    amount = Amount(asked.clients, asked.steps, asked.one_core)
    print(f"PyTorch {torch.__version__}, load {os.getloadavg()[0]:.1f}, {amount}, median of {asked.rounds}")
    print(row(HEADER, asked.markdown) + ("\n|" + "---|" * len(HEADER)) * asked.markdown, flush=True)
    for name in asked.network or NETS:
        found = compare(name, asked.rounds, amount)
        print(row(found.cells, asked.markdown) + f"  {found.told}" * (not asked.markdown), flush=True)


if __name__ == "__main__":
    main()
