"""What codings cost beside training: CPU time of coding a row over that of training it, coding by coding.

    python benchmarks/coding.py [--devices 20] [--repeats 5] [--only lenet] [--coding topk stc]

A row is the update of a device after 5 steps of 32 samples, of LeNet (22 thousand parameters) or of an FCN (2 million).
Coding it is all that a coded method adds to a round: what the device kept is added, the sum encoded, counted and
decoded, and what was not sent is kept. Training and codings take turns. Seconds are CPU time of all threads, the median
of the repeats after one that warms up, so that other work on the machine hardly shows. The bar is 0.1 with LeNet.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
from engine import LOADS, setting

from fedcell import methods, world
from fedcell.coding import Sampling
from fedcell.methods.parts import summed
from fedcell.methods.parts.coded import init, remembered
from fedcell.methods.parts.encoding import CodedState, encode
from fedcell.methods.parts.resources import plan
from fedcell.options import override
from fedcell.scenarios import build_problem, get
from fedcell.simulate import begin
from fedcell.types import Updates

CODINGS = (
    *("cast:to=float16", "cast:to=int8", "powersgd", "private", "private:dp=local", "qsgd", "randk"),
    *("sign", "sign:scale=one", "stc", "topk"),
)
STEPS = 5


def cpu_s(work: Callable[[], object]) -> float:
    """CPU seconds of all threads."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def measured(name: str, n_devices: int, repeats: int, chosen: list[str]) -> None:
    """Print the line of every coding."""
    load = LOADS[name]._replace(n_clients=n_devices, steps=(STEPS, STEPS))
    learner, start, work = setting(load, torch.device("cpu"))
    plain = build_problem(override(get("cell").config, {"world.n_devices": n_devices, "model.name": "logistic"}))
    problem = plain._replace(learner=learner)
    fedavg = methods.parse("fedavg").build()
    seen, _ = world.observe(problem.world, begin(plain, fedavg).world, 1, 0)
    decision = plan(problem, seen, seen.available, STEPS, load.batch_size)
    delta = learner.train(start, work).delta.clone()
    updates, states = Updates(work.device, delta), dict[str, CodedState]()

    def code(text: str) -> None:
        choice = methods.parse(f"fedavg+{text}")
        coding = choice.module.coding.build(choice.config)
        if coding.at_sum is not None:  # the server gets a sum: devices clip, and add noise or not
            memory = coding.at_sum.start(problem, Sampling("all", 1.0, n_devices))
            made = summed.encode(coding.at_sum, problem, summed.SummedState(None, memory), updates, seen, decision)
            made.delta.sum()
            return
        state = states.get(text) or init(fedavg, coding, problem, start.points[0])
        found = encode(coding, problem, state, updates, seen, decision)
        found.delta.sum()  # what the server decodes
        if state.rest is not None:
            state = state._replace(rest=remembered(state.rest, found.kept.rest, work.device, decision.steps))
        states[text] = state

    jobs: dict[str, Callable[[], object]] = {"train": lambda: learner.train(start, work).delta.sum()}
    jobs |= {text: partial(code, text) for text in CODINGS if text.partition(":")[0] in chosen}
    times: dict[str, list[float]] = {job: [] for job in jobs}
    for _ in range(repeats + 1):
        for job, do in jobs.items():
            times[job].append(cpu_s(do))
    train_s = median(times.pop("train")[1:])
    print(f"{name}: {learner.n_params:,} parameters, {1e3 * train_s / n_devices:.3g} ms of CPU time to train a row")
    for job, found in times.items():
        each = median(found[1:])
        print(f"  {job:18} {1e3 * each / n_devices:8.3g} ms a row, {each / train_s:6.3f} of training")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=("lenet", "fcn"))
    parser.add_argument("--coding", nargs="+", default=sorted({text.partition(":")[0] for text in CODINGS}))
    args = parser.parse_args()
    for name in [args.only] if args.only else ["lenet", "fcn"]:
        measured(name, args.devices, args.repeats, args.coding)


if __name__ == "__main__":
    main()
