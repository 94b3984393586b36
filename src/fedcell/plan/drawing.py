"""The rounds of one method on one seed, with or without training, and who could take part in them."""

from collections.abc import Callable, Sequence
from itertools import islice
from math import inf
from typing import Any, NamedTuple

import numpy as np

from .. import world
from ..simulate import simulate
from ..types import Floats, Method, Problem, Row, Snapshot
from . import reach
from .looking import looks_at_updates
from .untrained import play, unjudged

LOOKS = (
    "its decisions or bits depend on what devices learn, which a plan makes up: a guess, whose seconds and joules were "
    "up to 27 % off in tests, and up to 83 % for representativity:policy=both"
)
LENGTHS = (
    "over the air, powers follow the lengths of updates, which a plan makes up: joules are a guess, seconds are not"
)
GUESSES = (LOOKS, LENGTHS)  # what training makes exact
LINK = (
    "with world.link=nr, decisions count on the mean number of attempts, and closed forms assume that the link loses "
    "as much to Shannon's bound at any power or share of the band as at full power; rounds are played as attempts fall"
)


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


def guessed(problem: Problem, method: Method) -> tuple[str, ...]:
    """The `GUESSES` that apply to a method's rounds without training; empty: they equal those of a run."""
    if problem.world.settings.access == "air":
        return (LENGTHS,)
    return (LOOKS,) if looks_at_updates(problem, method) else ()


def assumed(problem: Problem) -> tuple[str, ...]:
    """Notes on what methods have to assume in the world of a problem, with training or without."""
    return (LINK,) if problem.world.settings.link == "nr" else ()


def draw(
    problem: Problem,
    method: Method,
    train: bool = False,
    rounds: int | None = None,
    played: Callable[[], None] = lambda: None,
) -> DrawnRounds:
    """Play the first `rounds` rounds of a problem, or all, with training only if `train`; call `played` after each."""
    full = problem.world.devices.battery_joule
    emptied, rows, after = np.full(len(full), inf), [], None
    every = simulate(problem, unjudged(method)) if train else play(problem, method)
    for row, after in islice(every, rounds):
        rows.append(row)
        emptied[(after.world.battery_joule <= 0) & ~np.isfinite(emptied)] = row.round + 1
        played()
    assert isinstance(after, Snapshot)
    left = after.world.battery_joule
    fate = np.array([np.frombuffer(row.outcome.encode(), dtype=np.uint8) for row in rows])
    spent = np.where(np.isfinite(full), full - np.where(np.isfinite(left), left, 0.0), 0.0)
    for gained in (problem.world.devices.harvest_watt, problem.world.devices.charge_watt):
        spent = spent if gained is None else np.where(gained > 0, 0.0, spent)  # charged: no pace that lasts
    return DrawnRounds(rows, fate, left, spent, emptied)


def who_can(problem: Problem, rounds: int | None = None, begun_s: Sequence[float] = ()) -> reach.Reach:
    """Who could deliver one local step in the rounds of a problem, with full batteries.

    Args:
        problem: with the world.
        rounds: the first so many; None: all.
        begun_s: the clock at which each round begins; empty: it does not matter.
    """
    rounds = rounds or problem.n_rounds
    state = world.start(problem.world, problem.seed)
    total = np.zeros((5, problem.world.n_devices))
    for round in range(rounds):
        state = state._replace(clock_s=begun_s[round]) if begun_s else state
        observation, state = world.observe(problem.world, state, problem.seed, round)
        total += reach.look(problem.world, observation, problem.train.batch_size)
    return reach.Reach(*(total / rounds))
