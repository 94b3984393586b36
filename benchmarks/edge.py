"""Edge servers: what placing, serving and counting cost, as a share of a whole round.

    python benchmarks/edge.py [--rounds 12] [--files 16] [--method NAME] [scenario ...]

Every round of a run is timed in processor seconds, and the part in which the servers do their work, predictions
included, beside it. Shares are the median over the rounds after the first two.
"""

import argparse
import time
from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import Any

from fedcell import methods
from fedcell.data.video.edge import NONE
from fedcell.data.video.settings import VideoConfig
from fedcell.scenarios import build_problem, get
from fedcell.simulate import simulate
from fedcell.types import Arrived, Problem

SCENARIOS = {"rawhfl": "rawhfl", "video": "osafl", "osafl": "osafl"}
WARM_UP = 2  # rounds


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


def measure(scenario: str, text: str, rule: str, files: int, rounds: int) -> None:
    """Print the share of one placement in the rounds of one method."""
    preset = get(scenario)
    video = replace(preset.config.video, edge_files=files, edge_placement=rule)
    config = replace(preset.config, rounds=rounds, eval_every=rounds, video=video)
    spent_s: list[float] = []
    problem, method = timed(build_problem(config), spent_s), methods.parse(text, preset.methods).build()
    whole_s, begin = [], time.process_time()
    for _ in simulate(problem, method):
        whole_s.append(time.process_time() - begin)
        begin = time.process_time()
    pairs = list(zip(spent_s, whole_s, strict=True))[WARM_UP:-1]  # the last round is evaluated
    share = median(part / whole for part, whole in pairs)
    print(
        f"{scenario:7s} {text:10s} {rule:10s} {1e3 * median(part for part, _ in pairs):7.2f} ms of "
        f"{1e3 * median(whole for _, whole in pairs):8.1f} ms a round: {100 * share:5.2f} %",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", default=list(SCENARIOS))
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--method", default="")
    options = parser.parse_args()
    rules = VideoConfig.__dataclass_fields__["edge_placement"].metadata["choices"]
    for scenario in options.scenarios:
        for rule in rules:
            if rule != NONE:
                text = options.method or SCENARIOS.get(scenario, "fedavg")
                measure(scenario, text, rule, options.files, options.rounds)


if __name__ == "__main__":
    main()
