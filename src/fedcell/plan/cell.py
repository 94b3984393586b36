"""What rounds cost and who takes part, without training: for any scenario, method and grid of settings.

Rounds are those of a run on the same seed (see `untrained`), so that the plan cannot disagree with the simulation as
long as decisions do not look at what devices learn. Those of other methods can be played with training.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np

from .. import methods as library
from .. import options, world
from ..errors import BadInput
from ..record.totals import LATER
from ..scenarios import Config, build_problem
from ..simulate import simulate
from ..sweeps.grid import expand
from ..sweeps.task import SweepRun
from ..types import Floats, Method, Outcome, Problem, Row, Snapshot
from ..world.motion import MOVING
from ..world.settings import WorldConfig
from . import reach
from .untrained import looks_at_updates, play, unjudged

ROUNDS = 100  # drawn if nobody says how many
LOOKS = (
    "its decisions or bits depend on what devices learn, which a plan makes up: a guess, whose seconds and joules were "
    "up to 27 % off in tests, and up to 83 % for representativity:policy=both"
)
LINK = (
    "with world.link=nr, decisions count on the mean number of attempts, and closed forms assume that the link loses "
    "as much to Shannon's bound at any power or share of the band as at full power; rounds are played as attempts fall"
)
LENGTHS = (
    "over the air, powers follow the lengths of updates, which a plan makes up: joules are a guess, seconds are not"
)
GUESSES = (LOOKS, LENGTHS)  # what training makes exact


class Spread(NamedTuple):
    """A quantity of a round over all rounds drawn."""

    mean: float
    deviation: float
    low: float  # 5 % of the rounds have less
    high: float  # 5 % have more


class CellPlan(NamedTuple):
    """What to expect of one method with one set of settings."""

    label: str
    varied: Mapping[str, Any]  # settings of the grid, by dotted key
    scenario: str
    seeds: tuple[int, ...]
    rounds: int  # drawn on every seed
    n_devices: int
    able: float  # devices that could deliver one local step alone, mean over seeds
    unable: Mapping[str, float]  # the others, by `reach.REASONS`
    heard: float  # devices that this method heard at least once, mean over seeds
    unheard: Mapping[str, float]  # the others: by the fate that they met most, or `never asked`
    round_s: Spread
    round_joule: Spread  # of all kinds
    round_bit: Spread  # of uploads
    selected: float  # devices per round
    delivered_share: float  # of the uploads asked for
    first_empty_round: float  # when the first battery ends; inf: batteries do not
    half_empty_round: float  # when half of the batteries are empty
    trained: bool = False  # whether the rounds were played with training
    notes: tuple[str, ...] = ()
    downlink_bit: float = 0.0  # sent by base stations in a round, mean
    receive_joule: float = 0.0  # the part of `round_joule` for listening, mean
    idle_joule: float = 0.0  # the part for standing by


class DrawnRounds(NamedTuple):
    """The rounds of one method on one seed."""

    rows: Sequence[Row]
    fate: np.ndarray[Any, np.dtype[np.uint8]]  # [n_rounds, n_devices], letters of the outcomes
    battery_joule: Floats  # [n_devices], what is left
    spent_joule: Floats  # [n_devices], of a battery that nothing charges
    emptied: Floats  # [n_devices], rounds after which the battery was empty; inf: it was not

    @property
    def begun_s(self) -> list[float]:
        """The clock when each round began."""
        return [0.0, *(row.clock_s for row in self.rows[:-1])]


def plan(
    methods: str | Sequence[str] = (),
    scenario: str = "cell",
    settings: Mapping[str, Any] | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    *,
    seeds: Sequence[int] | None = None,
    rounds: int = ROUNDS,
    samples: int = 0,
    train: bool = False,
) -> list[CellPlan]:
    """Plan methods in a scenario for every combination of a grid; nothing is written, or trained unless asked for.

    Args:
        methods: texts `NAME[:key=value,...]` or paths of method files; none: those that the scenario compares.
        scenario: the preset to start from.
        settings: keys with one value, such as `{"world.n_devices": 50}`.
        grid: keys with several, such as `{"world.bandwidth_hz": [1e6, 5e6]}`: all combinations.
        seeds: each is a world of its own; None: the scenario's.
        rounds: rounds that are drawn on every seed.
        samples: that every device holds, so that there may be more devices than the data has samples; 0: the split.
        train: play the rounds with training, for methods whose costs depend on what devices learn.

    Raises BadInput for methods and settings that do not fit, as a run would.
    """
    fixed = dict(options.mapping(settings, "settings", "{'world.n_devices': 50}"))
    if "rounds" in fixed:
        raise BadInput(f"rounds = {fixed['rounds']} is no setting of a plan: use rounds=..., or --rounds")
    values = options.mapping(grid, "grid", "{'world.bandwidth_hz': [1e6, 5e6]}")
    asked = [methods] if isinstance(methods, str) else list(methods)
    tasks, _ = expand(asked, [scenario], seeds, {**fixed, "rounds": rounds}, values)
    worlds: dict[str, dict[str, list[SweepRun]]] = {}  # by settings without the seed, then by method
    for task in tasks:
        config = {key: value for key, value in task.config.items() if key != "seed"}
        worlds.setdefault(repr(config), {}).setdefault(task.label, []).append(task)
    in_world = partial(_in_world, keys=list(values), samples=samples, train=train)
    return [found for labels in worlds.values() for found in in_world([*labels.values()])]


def _in_world(
    asked: Sequence[Sequence[SweepRun]], keys: Sequence[str], samples: int, train: bool
) -> Iterator[CellPlan]:
    """The plans of all methods in one world, which is built once for every seed."""
    problems = [build_problem(_config(task), samples_each=samples) for task in asked[0]]
    same = None if _by_the_clock(problems[0].world.settings) else [who_can(problem) for problem in problems]
    for tasks in asked:
        yield _planned(tasks, keys, problems, same, train)


def _by_the_clock(settings: WorldConfig) -> bool:
    """Whether what devices can do depends on when a round begins, and so on how long those before it took."""
    return settings.geometry in MOVING or settings.fading == "jakes" or bool(settings.traces)


def _planned(
    tasks: Sequence[SweepRun],
    keys: Sequence[str],
    problems: Sequence[Problem],
    same: list[reach.Reach] | None,
    train: bool,
) -> CellPlan:
    """The plan of one method over its seeds; `same`: who can take part, whatever the method."""
    method = _method(tasks[0])
    drawn = [draw(problem, method, train) for problem in problems]
    reaches = same or [who_can(problem, one.begun_s) for problem, one in zip(problems, drawn, strict=True)]
    return summary(
        tasks[0].label,
        _values(tasks[0], keys),
        str(tasks[0].config["scenario"]),
        tuple(int(task.config["seed"]) for task in tasks),
        drawn,
        reaches,
        train,
        caveats(problems[0], method, train),
    )


def caveats(problem: Problem, method: Method, trained: bool = False) -> tuple[str, ...]:
    """What a plan, and the method that it plans, assume."""
    link = (LINK,) if problem.world.settings.link == "nr" else ()
    if trained:
        return link
    if problem.world.settings.access == "air":
        return (LENGTHS,)
    return (LOOKS, *link) if looks_at_updates(problem, method) else link


def _values(task: SweepRun, keys: Sequence[str]) -> dict[str, Any]:
    """What some settings are in a run, those of its method included; one that it does not have is left out."""
    config, own = options.flat(task.config), {key: value for key, _, value in options.keys(_own_config(task))}
    found = {}
    for key in keys:
        section, _, rest = key.partition(".")
        if key in config:
            found[key] = config[key]
        elif rest in own and library.owns(task.source, section, rest):
            found[key] = own[rest]
    return found


def _config(task: SweepRun) -> Config:
    config: Config = options.from_dict(Config(), task.config)
    return config


def _own_config(task: SweepRun) -> Any:
    """The settings of the method of a run."""
    return options.from_dict(library.load(task.source).Config(), task.settings)


def _method(task: SweepRun) -> Method:
    method: Method = library.load(task.source).build(_own_config(task))
    return method._replace(name=library.word(task.source))


def draw(problem: Problem, method: Method, train: bool = False) -> DrawnRounds:
    """Play all rounds of a problem, without training if nobody asks for it."""
    full = problem.world.devices.battery_joule
    emptied, rows, after = np.full(len(full), inf), [], None
    for row, after in simulate(problem, unjudged(method)) if train else play(problem, method):
        rows.append(row)
        emptied[(after.world.battery_joule <= 0) & ~np.isfinite(emptied)] = row.round + 1
    assert isinstance(after, Snapshot)
    left = after.world.battery_joule
    fate = np.array([np.frombuffer(row.outcome.encode(), dtype=np.uint8) for row in rows])
    spent = np.where(np.isfinite(full), full - np.where(np.isfinite(left), left, 0.0), 0.0)
    for gained in (problem.world.devices.harvest_watt, problem.world.devices.charge_watt):
        spent = spent if gained is None else np.where(gained > 0, 0.0, spent)  # has no pace that lasts
    return DrawnRounds(rows, fate, left, spent, emptied)


def who_can(problem: Problem, begun_s: Sequence[float] = ()) -> reach.Reach:
    """Who could deliver one local step in the rounds of a problem, with full batteries.

    Args:
        problem: with the world.
        begun_s: the clock at which each round begins; empty: it does not matter.
    """
    state = world.start(problem.world, problem.seed)
    total = np.zeros((5, problem.world.n_devices))
    for round in range(problem.n_rounds):
        state = state._replace(clock_s=begun_s[round]) if begun_s else state
        observation, state = world.observe(problem.world, state, problem.seed, round)
        total += reach.look(problem.world, observation, problem.train.batch_size)
    return reach.Reach(*(total / problem.n_rounds))


# ---------------------------------------------------------------- from rounds to numbers


def summary(
    label: str,
    varied: Mapping[str, Any],
    scenario: str,
    seeds: tuple[int, ...],
    drawn: Sequence[DrawnRounds],
    reaches: Sequence[reach.Reach],
    trained: bool,
    notes: Sequence[str],
) -> CellPlan:
    """The plan that rounds on several seeds make; rounds of all seeds count alike."""
    rows = [row for one in drawn for row in one.rows]
    asked = sum(row.n_selected for row in rows)
    heard, unheard = _means([_heard(one) for one in drawn])
    able, unable = _means([{"able": int(one.able.sum()), **one.why_not()} for one in reaches])
    return CellPlan(
        label=label,
        varied=varied,
        scenario=scenario,
        seeds=seeds,
        rounds=len(drawn[0].rows),
        n_devices=drawn[0].fate.shape[1],
        able=able,
        unable=unable,
        heard=heard,
        unheard=unheard,
        round_s=spread([row.round_s for row in rows]),
        round_joule=spread([row.joule for row in rows]),
        round_bit=spread([row.uplink_bit for row in rows]),
        selected=asked / len(rows),
        delivered_share=sum(row.n_delivered for row in rows) / asked if asked else float("nan"),
        first_empty_round=float(np.mean([_empty_round(one, 0.0) for one in drawn])),
        half_empty_round=float(np.mean([_empty_round(one, 0.5) for one in drawn])),
        trained=trained,
        notes=tuple(notes),
        **{name: float(np.mean([row.metrics.get(name, 0.0) for row in rows])) for name in LATER},
    )


def spread(values: Sequence[float]) -> Spread:
    """Mean, standard deviation and the middle 90 %.

    >>> spread([1.0, 2.0, 3.0])
    Spread(mean=2.0, deviation=0.816496580927726, low=1.1, high=2.9)
    """
    found = np.asarray(values)
    return Spread(float(found.mean()), float(found.std()), *map(float, np.quantile(found, (0.05, 0.95))))


FATES = {Outcome.LATE: "late", Outcome.ENERGY: "out of energy", Outcome.OUTAGE: "outage", Outcome.INVALID: "not finite"}


def _heard(one: DrawnRounds) -> dict[str, int]:
    """Devices that were heard at least once, and the others by the fate that they met most."""
    heard = (one.fate == ord(Outcome.DELIVERED.letter)).any(axis=0)
    counts = np.array([(one.fate == ord(fate.letter)).sum(axis=0) for fate in FATES])
    most, met = counts.argmax(axis=0), counts.max(axis=0) > 0
    found = {"heard": int(heard.sum())}
    found |= {name: int((~heard & met & (most == n)).sum()) for n, name in enumerate(FATES.values())}
    return found | {"never asked": int((~heard & ~met).sum())}


def _means(counts: Sequence[Mapping[str, int]]) -> tuple[float, dict[str, float]]:
    """Means over seeds: the first entry, and all others that are not 0."""
    first, *rest = counts[0]
    found = {name: float(np.mean([one[name] for one in counts])) for name in rest}
    return float(np.mean([one[first] for one in counts])), {name: value for name, value in found.items() if value}


def _empty_round(one: DrawnRounds, share: float) -> float:
    """Rounds after which more than a share of the batteries are empty, those that last longer at their mean pace."""
    with np.errstate(divide="ignore", invalid="ignore"):
        later = len(one.rows) * (1 + one.battery_joule / one.spent_joule)
    ends = np.where(np.isfinite(one.emptied), one.emptied, np.where(one.spent_joule > 0, later, inf))
    ends = np.sort(np.where(np.isfinite(one.battery_joule), ends, inf))
    end = float(ends[min(int(share * len(ends)), len(ends) - 1)])
    return end if isfinite(end) else inf
