"""What rounds cost and who takes part: for any scenario, method and grid of settings, without training if possible.

Rounds are those of a run on the same seed (see `untrained`), so that the plan cannot disagree with the simulation as
long as decisions do not look at what devices learn. Those of other methods are played with training.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np

from .. import methods as library
from .. import options
from ..errors import BadInput
from ..record.totals import LATER
from ..scenarios import Config, build_problem
from ..sweeps.grid import expand
from ..sweeps.task import SweepRun
from ..types import Method, Outcome
from ..world.motion import MOVING
from ..world.settings import WorldConfig
from . import reach
from .drawing import DrawnRounds, assumed, draw, guessed, who_can

MOST_ROUNDS = 100  # that are drawn of those of the scenario, unless a number is given
LEARNT = "what its rounds cost depends on what devices learn, so they were played with training"


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


class TrainingProgress(NamedTuple):
    """How far a plan is with the rounds that it trains, over all methods, seeds and settings."""

    label: str  # the method at hand
    done: int
    total: int  # as expected: settings that follow are thought to train as much as those before


def plan(
    methods: str | Sequence[str] = (),
    scenario: str = "cell",
    settings: Mapping[str, Any] | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    *,
    seeds: Sequence[int] | None = None,
    rounds: int | None = None,
    samples: int = 0,
    train: bool | None = None,
    watch: Callable[[TrainingProgress], None] = lambda training: None,
) -> list[CellPlan]:
    """Plan methods in a scenario for every combination of a grid; nothing is written.

    Args:
        methods: texts `NAME[:key=value,...]` or paths of method files; none: those that the scenario compares.
        scenario: the preset to start from.
        settings: keys with one value, such as `{"world.n_devices": 50}`.
        grid: keys with several, such as `{"world.bandwidth_hz": [1e6, 5e6]}`: all combinations.
        seeds: each is a world of its own; None: the scenario's.
        rounds: of the run that is planned, all of which are drawn on every seed; None: the scenario's, of which the
            first 100 are drawn.
        samples: that every device holds, so that there may be more devices than the data has samples; 0: the split.
        train: whether to play the rounds with training; None: only for methods whose costs depend on what devices
            learn. False: never, so that the costs of those methods are a guess.
        watch: called before the first round that is trained, and after each.

    Raises BadInput for methods and settings that do not fit, as a run would.
    """
    fixed = dict(options.mapping(settings, "settings", "{'world.n_devices': 50}"))
    if "rounds" in fixed:
        raise BadInput(f"rounds = {fixed['rounds']} is no setting of a plan: use rounds=..., or --rounds")
    values = options.mapping(grid, "grid", "{'world.bandwidth_hz': [1e6, 5e6]}")
    asked = [methods] if isinstance(methods, str) else list(methods)
    tasks, _ = expand(asked, [scenario], seeds, fixed if rounds is None else {**fixed, "rounds": rounds}, values)
    worlds: dict[str, dict[str, list[SweepRun]]] = {}  # by settings without the seed, then by method
    for task in tasks:
        config = {key: value for key, value in task.config.items() if key != "seed"}
        worlds.setdefault(repr(config), {}).setdefault(task.label, []).append(task)
    counted = _TrainedRounds(len(worlds), watch)
    in_world = partial(_in_world, keys=list(values), samples=samples, whole=rounds is not None, train=train)
    return [found for labels in worlds.values() for found in in_world([*labels.values()], counted=counted)]


@dataclass
class _TrainedRounds:
    """Counts the rounds that are trained in all worlds, and tells a watcher."""

    n_worlds: int
    watch: Callable[[TrainingProgress], None]
    begun: int = 0  # worlds
    known: int = 0  # rounds to train in those
    done: int = 0

    def begin(self, rounds: int) -> None:
        """Begin another world, in which `rounds` rounds will be trained."""
        self.begun, self.known = self.begun + 1, self.known + rounds

    def tell(self, label: str, played: int = 0) -> None:
        self.done += played
        self.watch(TrainingProgress(label, self.done, round(self.known * self.n_worlds / self.begun)))


def _in_world(
    asked: Sequence[Sequence[SweepRun]],
    keys: Sequence[str],
    samples: int,
    whole: bool,
    train: bool | None,
    counted: _TrainedRounds,
) -> Iterator[CellPlan]:
    """The plans of all methods in one world, which is built once for every seed; `whole`: draw all rounds of a run."""
    problems = [build_problem(_config(task), samples_each=samples) for task in asked[0]]
    methods = [_method(tasks[0]) for tasks in asked]
    guesses = [() if train else guessed(problems[0], method) for method in methods]
    trained = [bool(guess) if train is None else train for guess in guesses]
    rounds = problems[0].n_rounds if whole else min(problems[0].n_rounds, MOST_ROUNDS)
    counted.begin(sum(trained) * len(problems) * rounds)
    same = None if _by_the_clock(problems[0].world.settings) else [who_can(problem, rounds) for problem in problems]
    for tasks, method, guess, trains in zip(asked, methods, guesses, trained, strict=True):
        label = tasks[0].label
        if trains:
            counted.tell(label)
        after_each = partial(counted.tell, label, 1) if trains else _nothing
        drawn = [draw(problem, method, trains, rounds, after_each) for problem in problems]
        yield summary(
            label,
            _values(tasks[0], keys),
            str(tasks[0].config["scenario"]),
            tuple(int(task.config["seed"]) for task in tasks),
            drawn,
            same or [who_can(problem, rounds, one.begun_s) for problem, one in zip(problems, drawn, strict=True)],
            trains,
            ((LEARNT,) if guess and trains else guess) + assumed(problems[0]),
        )


def _nothing() -> None:
    """Do nothing after a round that is not trained."""


def _by_the_clock(settings: WorldConfig) -> bool:
    """Whether what devices can do depends on when a round begins, and so on how long those before it took."""
    return settings.geometry in MOVING or settings.fading == "jakes" or bool(settings.traces)


def _values(task: SweepRun, keys: Sequence[str]) -> dict[str, Any]:
    """The values of the settings `keys` in a run, its method's included; a setting that it lacks is left out."""
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
    """Sum up the rounds of several seeds as a plan; rounds of all seeds count alike."""
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
    """Rounds until more than a share of the batteries are empty; those that outlast the plan keep their mean pace."""
    with np.errstate(divide="ignore", invalid="ignore"):
        later = len(one.rows) * (1 + one.battery_joule / one.spent_joule)
    ends = np.where(np.isfinite(one.emptied), one.emptied, np.where(one.spent_joule > 0, later, inf))
    ends = np.sort(np.where(np.isfinite(one.battery_joule), ends, inf))
    end = float(ends[min(int(share * len(ends)), len(ends) - 1)])
    return end if isfinite(end) else inf
