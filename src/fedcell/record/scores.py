"""The leading metric of runs in tables: the heads of its columns, its cells, and how to read them."""

from collections.abc import Sequence
from math import isfinite

from ..metrics import Metric, leading
from .index import RunInfo

ACCURACY = leading("classification")


def shared(runs: Sequence[RunInfo]) -> Metric | None:
    """The metric that leads all runs; None if they learn different things."""
    found = list(dict.fromkeys(one.metric for one in runs))
    return found[0] if len(found) == 1 else None if found else ACCURACY


def heads(runs: Sequence[RunInfo]) -> list[str]:
    """The heads of two columns, best and final, with the name of the metric unless it is accuracy or differs."""
    metric = shared(runs)
    named = "" if metric in (None, ACCURACY) else f" {metric.title}"
    return [f"{which}{named}" for which in ("best", "final")]


def score_cells(one: RunInfo, named: bool) -> list[str]:
    """The cells of `heads` for a run; with the name of its metric if that differs between runs."""
    values = (one.totals.best, one.totals.final)
    return [one.metric.shown(value) + f" {one.metric.title}" * (named and isfinite(value)) for value in values]


def score_meaning(runs: Sequence[RunInfo]) -> str:
    """How to read the two columns, as a sentence."""
    metric = shared(runs)
    if metric is None:
        return "best, final: of the test metric that is named, shares in %."
    guesses = {metric.shown(one.chance) for one in runs if one.chance is not None and metric != ACCURACY}
    guess = f"; a constant answer has {guesses.pop()}" if len(guesses) == 1 else ""
    return f"best, final: test {metric.title}{' in %' * metric.share}{metric.direction}{guess}."
