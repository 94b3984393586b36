"""When a run has done enough: a metric that it reaches, or a limit of seconds, joules or bits.

Conditions are written `accuracy=0.9` and joined by commas; a run stops after the first round that meets one of them.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from math import isfinite
from typing import Any, NamedTuple

from .errors import BadInput, did_you_mean
from .metrics import BY_NAME
from .options import written
from .types import Row

LIMITS = {"seconds": "s", "joules": "J", "bits": "bit"}  # what a run may spend in all, and the unit of it
NEAR = {"second": "seconds", "time": "seconds", "joule": "joules", "energy": "joules", "bit": "bits", "acc": "accuracy"}
WORDS = ("accuracy", "perplexity", *LIMITS)  # long enough that a name close to one of them is a typo
FALLING = ("loss", "perplexity", "rmse", "mae", "mse", "error")  # words in names of a method's own metrics


class Goal(NamedTuple):
    """One condition: a metric at least this good, or this much spent."""

    name: str
    value: float

    def __str__(self) -> str:
        return f"{self.name}={written(self.value)}"


def falls(metric: str) -> bool:
    """Whether a smaller value of a metric is better.

    >>> falls("accuracy"), falls("loss"), falls("device_loss")
    (False, True, True)
    """
    known = BY_NAME.get(metric)
    return not known.rises if known else any(word in metric.lower().split("_") for word in FALLING)


def reached(goal: Goal, value: float) -> bool:
    """Whether a value of the goal's metric, or an amount that was spent, is enough."""
    return value <= goal.value if goal.name not in LIMITS and falls(goal.name) else value >= goal.value


def read_goals(text: str) -> tuple[Goal, ...]:
    """Read the conditions in a text; raises BadInput for anything that is not a condition.

    >>> read_goals("accuracy=0.9, joules=1e3")
    (Goal(name='accuracy', value=0.9), Goal(name='joules', value=1000.0))
    """
    parts = [part.strip() for part in text.split(",") if part.strip() and text.strip() != "none"]
    goals = [_goal(part) for part in parts]
    for goal in goals:
        if sum(other.name == goal.name for other in goals) > 1:
            raise BadInput(f"until names {goal.name} twice: give it once")
    return tuple(goals)


def written_goals(until: str | Mapping[str, Any] | Iterable[str] | None) -> str:
    """Write conditions, given as a text, texts or a dict, in the form that settings and records have.

    >>> written_goals({"accuracy": 0.9, "seconds": 60}), written_goals(["loss=0.5", "bits=1e9"]), written_goals(None)
    ('accuracy=0.9,seconds=60', 'loss=0.5,bits=1000000000', '')
    """
    if until is None:
        return ""
    if isinstance(until, Mapping):
        until = [f"{name}={value}" for name, value in until.items()]
    parts = [until] if isinstance(until, str) else list(until) if isinstance(until, Iterable) else [until]
    if not all(isinstance(part, str) for part in parts):
        raise BadInput(f"until is {until!r}: write it as 'accuracy=0.9' or {{'accuracy': 0.9}}")
    return ",".join(map(str, read_goals(",".join(parts))))


def _goal(text: str) -> Goal:
    name, equals, value = (part.strip() for part in text.partition("="))
    if meant := NEAR.get(name) or _slip(name):
        raise BadInput(f"until {text!r}: {name!r} is no metric or limit: did you mean {meant!r}?")
    try:
        number = float(value.removesuffix("%"))
    except ValueError:
        number = float("nan")
    if not name or not equals or not isfinite(number):
        raise BadInput(f"until {text!r} is no condition: write a metric or limit and a number, such as accuracy=0.9")
    if name in BY_NAME and BY_NAME[name].share and number > 1:
        raise BadInput(f"until {text!r} is above 1, which no share is: write {name}={written(number / 100)}")
    if value.endswith("%"):
        raise BadInput(f"until {text!r} has a unit: write a plain number, such as accuracy=0.9")
    if name in LIMITS and not number > 0:
        raise BadInput(f"until {text!r} is met before the first round: give a number above 0")
    return Goal(name, number)


def _slip(name: str) -> str:
    """What a mistyped name was meant to be; empty for names that a method may have given to a metric of its own.

    >>> _slip("acuracy"), _slip("accuracy"), _slip("own_accuracy"), _slip("mse")
    ('accuracy', '', '', '')
    """
    near = get_close_matches(name.lower(), WORDS, n=1, cutoff=0.85)
    return near[0] if near and name not in WORDS and "_" not in name else ""


class Until:
    """Look at the rows of a run in order and tell when a condition is met.

    Args:
        goals: the conditions; none: never.
        eval_every: rounds between two evaluations; the first one must have the metrics of all goals.
    """

    def __init__(self, goals: Iterable[Goal], eval_every: int = 1) -> None:
        self.goals, self.eval_every = tuple(goals), eval_every
        self.spent = dict.fromkeys(LIMITS, 0.0)

    def after(self, row: Row) -> str:
        """The condition that a round met, in one sentence; empty if the run must continue."""
        if not self.goals:
            return ""
        self.spent["seconds"] = row.clock_s
        self.spent["joules"] += row.joule
        self.spent["bits"] += row.uplink_bit
        for goal in self.goals:
            value = self.spent[goal.name] if goal.name in LIMITS else self._metric(goal, row)
            if value is not None and reached(goal, value):
                return f"reached {goal} after {row.round + 1} rounds ({goal.name} {value:.6g})"
        return ""

    def after_all(self, rows: Iterable[Row]) -> str:
        """The sentence of `after` for the first of many rows that meets a condition; empty if none does."""
        if not self.goals:
            return ""
        return next(filter(None, map(self.after, rows)), "")

    def _metric(self, goal: Goal, row: Row) -> float | None:
        """The metric of a goal if it was measured in this round."""
        if goal.name in row.metrics:
            return row.metrics[goal.name]
        if row.round + 1 == self.eval_every:
            known = [*row.metrics, *LIMITS]
            hint = did_you_mean(goal.name, known) or f": choose one of {', '.join(known)}"
            raise BadInput(f"until {goal}: this run measures no {goal.name!r}{hint}")
        return None
