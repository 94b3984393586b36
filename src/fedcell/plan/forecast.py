"""What a target will cost: rounds from the learning curve of a pilot run, seconds and joules from the plan.

The plan plays the rounds that follow without training, on the pilot's own seed, so that what each of them costs is
known; how many it takes is what the curve leaves open.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from math import inf
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .. import rng
from ..errors import BadInput
from ..record import read
from ..record.folder import specs
from ..record.prepare import rebuild, reconfigure
from ..record.totals import joules
from ..scenarios import build_problem
from ..types import Floats, Row
from ..until import LIMITS, Goal, falls, reached
from .curves import LEAST, crossing
from .drawing import assumed, guessed
from .untrained import play

REACH = 20  # the horizon: so many times the rounds of the pilot, if its settings have no more


class Expected(NamedTuple):
    """A quantity until the target: the median of the drawn curves and its interval; inf beyond the horizon."""

    median: float
    low: float
    high: float


class Forecast(NamedTuple):
    """What the target of a pilot run will cost."""

    folder: Path
    label: str
    goal: Goal
    confidence: float
    pilot_rounds: int
    horizon: int  # rounds that were looked at
    chance: float  # to reach the target within them
    costs: Mapping[str, Expected]  # rounds, seconds, joules and bits
    notes: tuple[str, ...] = ()


def forecast(folder: str | Path, goal: Goal, *, confidence: float = 0.9, horizon: int | None = None) -> Forecast:
    """Forecast what it would take a recorded run to reach a target if it were continued.

    Args:
        folder: of one run, with some evaluations.
        goal: a metric and its target.
        confidence: of the intervals.
        horizon: most rounds to look at; None: 20 times those of the pilot, or its settings' own if those are more.

    Raises BadInput for runs that cannot be continued or whose curve is too short.
    """
    if not 0 < confidence < 1:
        raise BadInput(f"confidence {confidence:g} is not between 0 and 1: give a share such as 0.9")
    if horizon is not None and horizon < 1:
        raise BadInput(f"a horizon of {horizon} rounds is empty: give 1 or more, or leave it out")
    record = read(folder)
    values = record.columns.get(goal.name, np.empty(0))
    seen = np.flatnonzero(np.isfinite(values))
    if goal.name in LIMITS or not len(seen):
        raise BadInput(f"{folder} has no metric {goal.name!r}: name one that its rows hold, such as accuracy")
    spent = _spent(record.columns)
    there = [at for at in seen if reached(goal, float(values[at]))]
    rounds = len(record.columns["round"])
    if there:
        known = {name: Expected(*[float(total[there[0]])] * 3) for name, total in spent.items()}
        return Forecast(
            Path(folder), record.label, goal, confidence, rounds, rounds, 1.0, known, ("the pilot reached it itself",)
        )
    if len(seen) < LEAST:
        raise BadInput(f"{folder} has {len(seen)} evaluations: a forecast needs {LEAST} or more, so run it longer")
    falling = falls(goal.name)
    if not falling and not (values[seen].min() >= 0 and max(goal.value, values[seen].max()) <= 1):
        raise BadInput(
            f"{goal} of {folder} cannot be forecast, since {goal.name} rises and is no share (it was "
            f"{values[seen].min():g} to {values[seen].max():g}): give a target of another metric, such as loss"
        )
    every = int(record.config["eval_every"])
    end = max(REACH * rounds, int(record.config["rounds"])) if horizon is None else horizon
    evaluated = np.arange(rounds // every + 1, end // every + 1) * every
    if not len(evaluated):
        raise BadInput(f"a horizon of {end} rounds ends before the next evaluation after {rounds}: look further")
    draws = rng.stream(int(record.config["seed"]), rounds, "forecast")
    found = crossing(seen + 1, values[seen], goal.value, falling, evaluated, draws)
    quantiles = _quantiles(found.rounds, confidence)
    planned, notes = _planned(Path(folder), rounds, quantiles, spent)
    return Forecast(
        folder=Path(folder),
        label=record.label,
        goal=goal,
        confidence=confidence,
        pilot_rounds=rounds,
        horizon=end,
        chance=float(np.isfinite(found.rounds).mean()),
        costs={"rounds": quantiles, **planned},
        notes=notes,
    )


def _quantiles(rounds: Floats, confidence: float) -> Expected:
    ordered = np.sort(rounds)  # with inf at the end
    low, middle, high = (ordered[min(int(share * len(ordered)), len(ordered) - 1)] for share in _shares(confidence))
    return Expected(float(middle), float(low), float(high))


def _shares(confidence: float) -> tuple[float, float, float]:
    return (1 - confidence) / 2, 0.5, (1 + confidence) / 2


def _spent(columns: Mapping[str, Floats]) -> dict[str, Floats]:
    """Running totals of a record."""
    return {
        "rounds": columns["round"] + 1.0,
        "seconds": columns["clock_s"],
        "joules": joules(columns),
        "bits": np.cumsum(columns["uplink_bit"]),
    }


def _planned(
    folder: Path, rounds: int, quantiles: Expected, spent: Mapping[str, Floats]
) -> tuple[dict[str, Expected], tuple[str, ...]]:
    """Costs after as many rounds as the quantiles say: those of the pilot, then those of the plan."""
    last = max((value for value in quantiles if value < inf), default=0.0)
    if not last:
        return {name: Expected(inf, inf, inf) for name in LIMITS}, ()
    ((_, spec),) = specs(folder)
    if spec.own:
        raise BadInput(f"{folder} has an own {' and '.join(spec.own)}: forecasts are of runs that fedcell can rebuild")
    config = reconfigure(spec)
    config = replace(config, rounds=max(int(last), config.rounds), until="")  # some methods look at how many there are
    problem, method = build_problem(config), rebuild(spec, {})
    notes = guessed(problem, method) + assumed(problem)
    later = [row for row, _ in islice(play(problem, method), rounds, max(int(last), rounds))]
    total = {name: np.concatenate([part, part[-1] + np.cumsum(_each(later, name))]) for name, part in spent.items()}
    found = {}
    for name in LIMITS:
        found[name] = Expected(*(float(total[name][int(n) - 1]) if n < inf else inf for n in quantiles))
    return found, notes


def _each(rows: list[Row], name: str) -> Floats:
    """What rounds cost, one by one."""
    if name == "seconds":
        return np.array([row.round_s for row in rows])
    if name == "joules":
        return np.array([row.joule for row in rows])
    return np.array([row.uplink_bit if name == "bits" else 1.0 for row in rows])
