"""Edge servers: what placing, serving and counting cost, as a share of a whole round. The bar is 5 %.

    python benchmarks/edge.py [--rounds 8] [--files 16] [--method NAME] [--placement RULE ...] [scenario ...]

A run with servers and the same run without them are played side by side, one round of each in turn, so that whatever
else the machine does meets both. Every round is timed in processor seconds, and the part in which the servers do their
work, predictions included, beside it. Shares are medians over the rounds after the first two.
"""

import argparse
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import median
from typing import Any

from fedcell import methods
from fedcell.data.video.edge import NONE
from fedcell.data.video.settings import VideoConfig
from fedcell.scenarios import build_problem, get
from fedcell.simulate import simulate
from fedcell.types import Arrived, Problem

SCENARIOS = {"rawhfl": "rawhfl", "osafl": "osafl"}
WARM_UP = 2  # rounds
BAR = 0.05


def timed(problem: Problem, spent_s: list[float]) -> Problem:
    """The problem, with the seconds of every round's servers put into a list."""
    inner = problem.world.stream.serve
    assert inner is not None

    def serve(arrived: Arrived) -> tuple[Any, Mapping[str, float]]:
        begin = time.process_time()
        found = inner(arrived)
        spent_s.append(time.process_time() - begin)
        return found

    stream = problem.world.stream._replace(serve=serve)
    return problem._replace(world=problem.world._replace(stream=stream))


def played(scenario: str, text: str, rule: str, files: int, rounds: int, spent_s: list[float]) -> Iterator[float]:
    """Processor seconds of every round; those of the servers go into `spent_s`."""
    preset = get(scenario)
    video = replace(preset.config.video, edge_files=files if rule != NONE else 0, edge_placement=rule)
    config = replace(preset.config, rounds=rounds + 1, eval_every=rounds + 1, video=video)  # the last is evaluated
    problem, method = build_problem(config), methods.parse(text, preset.methods).build()
    rows = simulate(problem if rule == NONE else timed(problem, spent_s), method)
    for _ in range(rounds):
        begin = time.process_time()
        next(rows)
        yield time.process_time() - begin


def measure(scenario: str, text: str, rule: str, files: int, rounds: int) -> bool:
    """Print the share of one placement in the rounds of one method; whether it is below the bar."""
    spent_s: list[float] = []
    runs = [played(scenario, text, one, files, rounds, spent_s) for one in (rule, NONE)]
    pairs = [(next(runs[0]), next(runs[1])) for _ in range(rounds)][WARM_UP:]
    parts = spent_s[WARM_UP:]
    share = median(part / whole for part, (whole, _) in zip(parts, pairs, strict=True))
    more = median(whole / plain - 1 for whole, plain in pairs)
    print(
        f"{scenario:7s} {text:10s} {rule:10s} {1e3 * median(parts):7.2f} ms of "
        f"{1e3 * median(whole for whole, _ in pairs):8.1f} ms a round: {100 * share:5.2f} % "
        f"({'holds' if share < BAR else 'MISSED'}); over the run without servers {100 * more:+.1f} %",
        flush=True,
    )
    return share < BAR


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", default=list(SCENARIOS))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--method", default="")
    choices = [one for one in VideoConfig.__dataclass_fields__["edge_placement"].metadata["choices"] if one != NONE]
    parser.add_argument("--placement", nargs="+", choices=choices, default=choices)
    options = parser.parse_args()
    held = [
        measure(name, options.method or SCENARIOS.get(name, "fedavg"), rule, options.files, options.rounds)
        for name in options.scenarios
        for rule in options.placement
    ]
    return int(not all(held))


if __name__ == "__main__":
    raise SystemExit(main())
