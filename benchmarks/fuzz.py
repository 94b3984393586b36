"""Configurations made of extremes: how many run, how many are refused with a sentence, and how many raise more.

    python benchmarks/fuzz.py [--n 10000] [--seed 0] [--first 0]

Every configuration is a small world with one to four settings, of the run or of its method, at the ends of what their
options allow, or beyond. Options say what their ends are, so a new one is tried by being there. Sizes stay small, since
a model that does not fit into memory is no error of the code. A configuration that raises anything but a FedcellError,
or whose method breaks a budget, is printed with the command that repeats it.
"""

import argparse
import random
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import Field
from math import inf
from typing import Any, NamedTuple

from fedcell import coding, methods, options, scenarios
from fedcell.errors import ContractError, Diverged, FedcellError
from fedcell.option_values import LARGE, TINY, members_of
from fedcell.options import Law
from fedcell.resolve import resolve
from fedcell.scenarios import build_problem
from fedcell.simulate import simulate

SMALL = {
    "rounds": "2",
    "world.n_devices": "4",
    "train.steps": "2",
    "train.batch_size": "8",
    "train.device": "cpu",
    "model.name": "logistic",
}
BEYOND = 0.1  # share of configurations with values that options refuse
MOST_SAMPLES = 1e7  # of options that are the size of a store
LONGEST_S = 20  # of one configuration, in time of its own on the CPU: other work on the machine is not its fault
MOST_COUNT = 6  # of a whole number that is a size
WORLDS: tuple[dict[str, str], ...] = (
    {},
    {"world.access": "own_band", "world.pathloss": "power_law", "world.fading": "exponential"},
    {"world.access": "block", "world.n_blocks": "3", "world.outage_threshold_db": "20"},
    {"world.topology": "cells", "world.n_cells": "2"},
    {"world.topology": "cells", "world.n_cells": "2", "world.edge_rounds": "2"},
    {"world.response": "exponential", "world.deadline_s": "0.8", "world.clock": "deadline"},
    {"world.energy_per_round_joule": "1e-3", "world.battery_joule": "1e-2"},
    {"stream.kind": "binomial"},
    {"stream.kind": "markov"},
    {"data.name": "video", "video.n_genres": "2", "video.files_per_genre": "5"},
)
NEEDS = {"video": "data.name", "stream": "stream.kind"}  # sections that change nothing unless another key is there
LEFT_OUT = (
    "scenario",
    "train.shards",
    "train.device",
    "train.engine",
    "train.compile",
)  # of the machine, not of numbers


class Configuration(NamedTuple):
    """Something to run."""

    method: str  # NAME or NAME+CODING
    settings: dict[str, str]

    def command(self) -> str:
        """How to repeat it."""
        return f"fedcell run {self.method} " + " ".join(f"--set '{key}={text}'" for key, text in self.settings.items())


def extremes(entry: Field[Any], value: Any) -> list[str]:
    """Texts at the ends of what an option allows, and beyond; nothing for options that are no numbers."""
    rule, kinds = entry.metadata, members_of(entry.type)
    if rule.get("choices"):
        return list(rule["choices"])
    if bool in kinds:
        return ["true", "false"]
    if int in kinds and float not in kinds:
        least = int(rule["least"] if rule["least"] is not None else 0)
        most = min(int(rule["most"]), MOST_COUNT) if rule["most"] is not None else MOST_COUNT
        return [str(one) for one in dict.fromkeys((least - 1, least, least + 1, 2, most))]
    if float in kinds or Law in kinds:
        ends = [rule[name] for name in ("above", "least", "most") if rule[name] is not None]
        near = [end * (1 + 1e-9) if end else TINY for end in ends]
        numbers = [*ends, *near, TINY, 1e-30, 1e-9, 1.0, 1e9, 1e20, 1e30, LARGE, 1e39, 1e200, -1.0, -1e30, inf]
        if rule["most"] == MOST_SAMPLES:
            numbers = [one for one in numbers if not 1e3 < one <= MOST_SAMPLES]
        laws = ["1e-30~1e30", "0..1e20"] if Law in kinds else []
        return [*dict.fromkeys(repr(float(one)) for one in numbers), *laws]
    return []


def every_option(method: str) -> Iterator[tuple[str, list[str]]]:
    """Keys of the run and of a method, each with its extremes."""
    for key, entry, value in options.keys(scenarios.Config()):
        if (
            key not in LEFT_OUT
            and not key.startswith(("data.name", "model.name"))
            and (found := extremes(entry, value))
        ):
            yield key, found
    yield from own_options(method)


def own_options(method: str) -> Iterator[tuple[str, list[str]]]:
    """Keys of a method, each with its extremes."""
    for key, entry, value in options.keys(methods.load(method).Config()):
        if found := extremes(entry, value):
            yield f"{methods.word(method)}.{key}", found


def drawn(number: int, seed: int = 0) -> Configuration:
    """The configuration of that number."""
    rng = random.Random(f"{seed} {number}")
    method = rng.choice(methods.names())
    if rng.random() < 0.1:
        method = f"{method}+{rng.choice(coding.names())}"
    place = rng.choice(WORLDS)
    idle = [section for section, by in NEEDS.items() if by not in place]
    known = {key: texts for key, texts in every_option(method) if key.partition(".")[0] not in idle}
    chosen = rng.sample(sorted(known), rng.randint(1, 4))
    beyond = rng.random() < BEYOND
    picked = {key: rng.choice(known[key] if beyond else allowed(method, key, known[key])) for key in chosen}
    return Configuration(method, SMALL | place | picked)


def allowed(method: str, key: str, texts: list[str]) -> list[str]:
    """Those that the option takes by itself."""
    prefix = f"{methods.word(method)}."
    settings = methods.load(method).Config() if key.startswith(prefix) else scenarios.get("cell").config
    taken = []
    for text in texts:
        try:
            options.override(settings, {key.removeprefix(prefix): text})
            taken.append(text)
        except FedcellError:
            continue
    return taken or texts


def attempt(one: Configuration) -> str:
    """`ran`, `diverged`, `refused`, or the traceback."""
    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = resolve(scenarios.get("cell"), [one.method], one.settings)
            choice = found.methods[0]
            assert isinstance(choice, methods.Choice)
            for _ in simulate(build_problem(found.config), choice.build()):
                pass
        return "ran"
    except Diverged:
        return "diverged"
    except ContractError:  # by a method of ours
        return traceback.format_exc()
    except FedcellError:
        return "refused"
    except TooSlowError:
        return "slow"
    except Exception:
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


class TooSlowError(Exception):
    """It took longer than anybody would wait here."""


def stop(*_: object) -> None:
    raise TooSlowError


def main() -> int:
    parser = argparse.ArgumentParser(description="Configurations made of extremes.")
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args()
    counts: Counter[str] = Counter()
    begun_s = time.monotonic()
    for number in range(args.first, args.first + args.n):
        one = drawn(number, args.seed)
        found = attempt(one)
        kind = found if found in ("ran", "diverged", "refused", "slow") else "traceback"
        counts[kind] += 1
        if kind == "slow":
            print(f"{number}: longer than {LONGEST_S} s: {one.command()}", flush=True)
        if kind == "traceback":
            lines = [line for line in found.splitlines() if line.strip()]
            print(f"{number}: {one.command()}\n    {lines[-3].strip()}\n    {lines[-1]}", flush=True)
    print(f"{args.n} configurations in {time.monotonic() - begun_s:.0f} s: {dict(counts)}")
    return 1 if counts["traceback"] else 0


if __name__ == "__main__":
    sys.exit(main())
