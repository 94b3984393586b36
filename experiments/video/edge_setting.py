"""What the experiments on edge servers share: servers that are watched in one run, and what they bring after training.

Servers change nothing that is learned, so that one run measures every storage size and three ways of filling: `eager`
fetches whatever is expected to be asked for more often, `thrifty` only if that pays within the round
(`video.edge_margin=1`), `passing` fetches nothing and keeps files that a miss brings past (`edge_prefetch=false`).
Rules that need no model are watched in the run of Top-Popular, which trains nothing, on the same requests. "After
training" is the last quarter of the rounds.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedcell.data.video import build_catalogue, draw_profiles
from fedcell.data.video.edge import watched
from fedcell.data.video.edge_ceilings import hit_ceiling, static_hit_ceiling
from fedcell.experiment import Case, Row
from fedcell.experiment.judging import Measure, Part, by_seed, inside
from fedcell.rng import SETUP
from fedcell.scenarios import Config, build_problem
from fedcell.types import Arrived, Floats, Problem
from fedcell.world.build import places
from fedcell.world.edge import Edge

ROOMS = (1, 2, 4, 8, 16)
WAYS = {"eager": {}, "thrifty": {"margin": 1.0}, "passing": {"prefetch": False}}
KEPT = ("hit_ratio", "video_backhaul_bit")  # of every server; requests are the same for all
COMMON = ("requests", "request_bit")
PLAIN = "top_popular"
AFTER = 0.75  # share of the rounds that are training
DRAWS = 200  # joint states of a ceiling


def name(rule: str, room: int, way: str = "eager") -> str:
    """What the columns of a server begin with."""
    return f"{rule} {room} {way} "


def edges(rules: Sequence[str]) -> list[Edge]:
    """Servers of every size, filled in all ways; caches that learn from requests have one way."""
    return [
        Edge(rule, room, prefix=name(rule, room, way), **how)
        for rule in rules
        for room in ROOMS
        for way, how in WAYS.items()
        if way == "eager" or rule in ("predicted", "genie")
    ]


def build_plain(config: Config) -> Problem:
    """Servers whose rules need no model, and those that go by the ranking of Top-Popular."""
    return _watched(config, ("predicted", "popular", "lru", "lfu", "genie", "random"))


def build_predicted(config: Config) -> Problem:
    """Servers that go by what users' models foretell."""
    return _watched(config, ("predicted",))


def _watched(config: Config, rules: Sequence[str]) -> Problem:
    problem = watched(build_problem(config), config.video, edges(rules))
    serve = problem.world.stream.serve
    assert serve is not None
    first = edges(rules)[0].prefix

    def fewer(arrived: Arrived) -> tuple[Any, Mapping[str, float]]:
        memory, columns = serve(arrived)
        kept = {key: value for key, value in columns.items() if key.endswith(KEPT)}
        return memory, {key: columns[first + key] for key in COMMON} | kept

    stream = problem.world.stream._replace(serve=fewer)
    return problem._replace(world=problem.world._replace(stream=stream))


def ceilings(config: Config) -> dict[str, float]:
    """The best hit ratios there can be, with and without knowing what users asked for last."""
    world = build_catalogue(config.video, config.seed), draw_profiles(config.video, config.world.n_devices, config.seed)
    cell = places(config.world, config.seed, SETUP).cell
    found = {f"ceiling {room}": hit_ceiling(*world, cell, room, config.seed, DRAWS).mean for room in ROOMS}
    return found | {f"static {room}": static_hit_ceiling(*world, cell, room) for room in ROOMS}


def ceiling_case(key: str, config: Config, seeds: Sequence[int]) -> Case:
    return Case(key, config, PLAIN, seeds=seeds, measure=ceilings)


# ---------------------------------------------------------------- reading rows


def column(row: Row, key: str) -> Floats:
    """A column by round; 0 in rounds without requests."""
    return np.array([0.0 if value is None else value for value in row[key]])


def hits(server: str, since: float = AFTER) -> Measure:
    """Hit ratio of a server after a share of the rounds."""

    def measure(row: Row) -> float:
        begin = int(since * len(row["requests"]))
        n, ratio = column(row, "requests")[begin:], column(row, f"{server}hit_ratio")[begin:]
        return float((n * ratio).sum() / n.sum())

    return measure


def spared(server: str, since: float = AFTER) -> Measure:
    """Share of the requested bits that the backhaul was spared after a share of the rounds; fetching counts."""

    def measure(row: Row) -> float:
        begin = int(since * len(row["requests"]))
        asked, carried = (column(row, key)[begin:].sum() for key in ("request_bit", f"{server}video_backhaul_bit"))
        return float(1 - carried / asked)

    return measure


def curve(row: Row, server: str, at: Sequence[int], width: int) -> Floats:
    """Hit ratio over the `width` rounds up to each of some rounds."""
    n, ratio = column(row, "requests"), column(row, f"{server}hit_ratio")
    total, part = (np.concatenate([[0.0], np.cumsum(values)]) for values in (n, n * ratio))
    ends, begins = np.array(at), np.maximum(np.array(at) - width, 0)
    return np.asarray((part[ends] - part[begins]) / np.maximum(total[ends] - total[begins], 1))


Side = tuple[str, Measure]  # a case, and a number of it


def more(rows: Sequence[Row], high: Side, low: Side, label: str) -> Part:
    """One number is larger than another, seed by seed, also of another case."""
    left, right = by_seed(rows, *high), by_seed(rows, *low)
    return inside(label, np.array([left[seed] - right[seed] for seed in sorted(left.keys() & right.keys())]), low=0.0)


def mean_by_room(rows: Sequence[Row], case: str, of: Callable[[int], Measure]) -> list[float]:
    """The mean of a number over seeds, for every storage size."""
    return [float(np.mean(list(by_seed(rows, case, of(room)).values()))) for room in ROOMS]


def told(rows: Sequence[Row], *sides: Side) -> str:
    """The means of some numbers over seeds, side by side."""
    return ", ".join(f"{np.mean(list(by_seed(rows, *side).values())):.3f}" for side in sides)
