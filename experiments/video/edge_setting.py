"""What the experiments on edge servers share: servers that are watched in one run, and what they bring after training.

Servers change nothing that is learned, so that one run measures every storage size and three ways of filling: `eager`
fetches whatever is expected to be asked for more often in the next round, `thrifty` only if that pays within five
rounds (`video.edge_horizon=5`, `edge_margin=1`; the genie has the margin alone), `passing` fetches
nothing and keeps files that a miss brings past (`edge_prefetch=false`, looking as far). Five rounds were chosen with
exact laws in place of models, on seed 1. Rules that need no model are watched in the run of Top-Popular, which trains
nothing, on the same requests. "After training" is the last quarter of the rounds.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from fedcell.data.video import build_catalogue, draw_profiles
from fedcell.data.video.edge import watched
from fedcell.data.video.edge_ceilings import hit_ceiling, static_hit_ceiling
from fedcell.experiment import Case, Row
from fedcell.experiment.judging import Measure, Part, by_seed, inside
from fedcell.experiment.plots import dress
from fedcell.report.figure import COLOURS, LINES
from fedcell.rng import SETUP
from fedcell.scenarios import Config, build_problem
from fedcell.types import Arrived, Floats, Problem
from fedcell.world.build import places
from fedcell.world.edge import Edge

ROOMS = (1, 2, 4, 8, 16)
WAYS = {
    "eager": {},
    "thrifty": {"margin": 1.0, "horizon": 5.0},
    "passing": {"prefetch": False, "horizon": 5.0},
}
CHOOSY = ("predicted", "genie")  # rules that are watched in every way
KEPT = ("hit_ratio", "video_backhaul_bit")  # of every server; requests are the same for all
COMMON = ("requests", "request_bit")
PLAIN = "top_popular"
AFTER = 0.75  # share of the rounds that are training
DRAWS = 200  # joint states of a ceiling
SMOOTH = 32  # rounds that a point of a curve is a mean over


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
        if way == "eager" or rule in CHOOSY
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


def curve(row: Row, server: str, at: Sequence[int], width: int, of: str = "hits") -> Floats:
    """Hit ratio, or the spared share of the backhaul, over the `width` rounds up to each of some rounds."""
    if of == "hits":
        whole = column(row, "requests")
        part = whole * column(row, f"{server}hit_ratio")
    else:
        whole = column(row, "request_bit")
        part = whole - column(row, f"{server}video_backhaul_bit")
    total, some = (np.concatenate([[0.0], np.cumsum(values)]) for values in (whole, part))
    ends, begins = np.array(at), np.maximum(np.array(at) - width, 0)
    return np.asarray((some[ends] - some[begins]) / np.maximum(total[ends] - total[begins], 1))


Side = tuple[str, Measure]  # a case, and a number of it


def more(rows: Sequence[Row], high: Side, low: Side, label: str, slack: float = 0.0) -> Part:
    """One number is larger than another, or less by no more than `slack`, seed by seed, also of another case."""
    return inside(label, np.array(list(gaps(rows, high, low).values())), low=-slack)


def gaps(rows: Sequence[Row], high: Side, low: Side) -> dict[int, float]:
    """One number less another, by seed, on the seeds that both have."""
    left, right = by_seed(rows, *high), by_seed(rows, *low)
    return {seed: left[seed] - right[seed] for seed in sorted(left.keys() & right.keys())}


def mean_by_room(rows: Sequence[Row], case: str, of: Callable[[int], Measure]) -> list[float]:
    """The mean of a number over seeds, for every storage size."""
    return [float(np.mean(list(by_seed(rows, case, of(room)).values()))) for room in ROOMS]


def told(rows: Sequence[Row], *sides: Side) -> str:
    """The means of some numbers over seeds, side by side."""
    return ", ".join(f"{np.mean(list(by_seed(rows, *side).values())):.3f}" for side in sides)


# ---------------------------------------------------------------- figures


def draw(
    panels: Sequence[Axes], rows: Sequence[Row], case: str, rule: str, label: str, number: int, room: int, way: str
) -> None:
    """A curve in each of four panels: hits and spared backhaul over rounds with `room` files, then over storage sizes.

    Hits are those of eager servers; `way` is how predictions and the genie are filled when spared backhaul is shown.
    """
    own = [row for row in rows if row["case"] == case]
    if not own:
        return
    look = {"color": COLOURS[number % len(COLOURS)], "linestyle": LINES[number % len(LINES)], "label": label}
    at, ways = own[0]["rounds"], {"hits": (hits, "eager"), "spared": (spared, way if rule in CHOOSY else "eager")}
    for (of, (measure, filled)), over_rounds, over_rooms in zip(ways.items(), panels[:2], panels[2:], strict=True):
        curves = [curve(row, name(rule, room, filled), at, SMOOTH, of) for row in own]
        means = mean_by_room(rows, case, lambda one, m=measure, w=filled: m(name(rule, one, w)))
        over_rounds.plot(at, np.mean(curves, axis=0), **look)
        over_rooms.plot(ROOMS, means, marker=".", **look)


def dress_all(panels: Sequence[Axes], room: int, world: str) -> None:
    """Names of the axes of the four panels of `draw`."""
    over_rounds, spared_over_rounds, over_rooms, spared_over_rooms = panels
    dress(over_rounds, "round", "hit ratio", f"{room} files, {world}")
    dress(spared_over_rounds, "round", "backhaul spared", f"{room} files, {world}, fetching counted")
    dress(over_rooms, "files at an edge server", "hit ratio", "after training")
    dress(spared_over_rooms, "files at an edge server", "backhaul spared", "after training, fetching counted")
