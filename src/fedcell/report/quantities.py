"""What is compared: the totals of a run, and what it took to reach a target of its leading metric."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..metrics import CLASSIFICATION, Metric, leading
from ..record import Record
from ..record.served import served
from .costs import COSTS, measured
from .table import BITS, JOULES, TIMES, Units

PERCENT: Units = ((0.01, "%"),)
PLAIN: Units = ((1.0, ""),)
NAN = float("nan")
REACH = {
    "round": ("rounds", "rounds"),
    "time": ("s", "time"),
    "energy": ("joule", "energy"),
    "uplink": ("bit", "uplink"),
}


class Quantity(NamedTuple):
    """One number of a run."""

    key: str  # in JSON and CSV
    title: str  # of a column
    unit: str  # of the numbers in JSON and CSV; empty for shares and counts
    units: Units  # for people
    target: float | None = None  # the score to be reached; None: a total of the run


class Value(NamedTuple):
    """A number of one run. `value` is NaN if it does not exist; it is `least` or more if that is known."""

    value: float
    least: float


TOTALS = (
    Quantity("loss_final", "loss", "", PLAIN),
    Quantity("simulated_s", "time", "s", TIMES),
    Quantity("energy_joule", "energy", "J", JOULES),
    Quantity("uplink_bit", "uplink", "bit", BITS),
    Quantity("delivered_share", "delivered", "", PERCENT),
)


BROUGHT = (  # by edge servers
    Quantity("hit_ratio", "hits", "", PERCENT),
    Quantity("saved_share", "saved", "", PERCENT),
    Quantity("video_backhaul_bit", "backhaul", "bit", BITS),
    Quantity("fetch_bit", "fetched", "bit", BITS),
    Quantity("delivery_s", "delivery", "s", TIMES),
)


def scores_of(metric: Metric) -> tuple[Quantity, Quantity]:
    """The best and the final value of the metric that leads; its name is left out if it is the accuracy."""
    units = PERCENT if metric.share else PLAIN
    named = "" if metric == leading(CLASSIFICATION) else f" {metric.title}"
    best, final = (Quantity(f"{metric.name}_{which}", which + named, "", units) for which in ("best", "final"))
    return best, final


def quantities(metric: Metric, targets: Sequence[float], brought: bool = False) -> tuple[Quantity, ...]:
    """Scores and totals, those of edge servers if a run has any, then four costs for every target."""
    reached = (
        Quantity(f"{REACH[cost.name][0]}_to_{target}", REACH[cost.name][1], cost.unit, cost.units, target)
        for target in targets
        for cost in COSTS
    )
    return (*scores_of(metric), *TOTALS, *BROUGHT * brought, *reached)


def measure(record: Record, targets: Sequence[float]) -> dict[str, Value]:
    """Every quantity of one run, by key.

    A run that diverged has neither final values nor totals: they are those of another number of rounds. A target is
    reached at the end of the first round whose evaluation shows it; a run that never gets there takes at least what it
    spent in all.
    """
    spent = {cost.name: cost.total(record) for cost in COSTS}
    metric = record.metric
    rounds, scores = measured(record, metric.name)
    loss = measured(record, "loss")[1]
    ended = record.status.state == "finished"
    last = {name: float(total[-1]) if len(total) else 0.0 for name, total in spent.items()}
    found = {
        f"{metric.name}_best": metric.best(scores.tolist()),
        f"{metric.name}_final": float(scores[-1]) if ended and len(scores) else NAN,
        "loss_final": float(loss[-1]) if ended and len(loss) else NAN,
        "simulated_s": last["time"] if ended else NAN,
        "energy_joule": last["energy"] if ended else NAN,
        "uplink_bit": last["uplink"] if ended else NAN,
        "delivered_share": _delivered(record),
        **{one.key: NAN for one in BROUGHT},
        **(served(record.columns) if ended else {}),
    }
    out = {key: Value(value, value) for key, value in found.items()}
    for target in targets:
        there = rounds[metric.reaches(scores, target)]
        for name, (key, _) in REACH.items():
            value = float(spent[name][there[0]]) if len(there) else NAN
            out[f"{key}_to_{target}"] = Value(value, value if len(there) else last[name])
    return out


def goal_text(metric: Metric, target: float) -> str:
    """A target for people.

    >>> goal_text(leading("classification"), 0.9), goal_text(leading("next-token"), 8.0)
    ('90 % accuracy', 'perplexity 8')
    """
    return f"{100 * target:g} % {metric.title}" if metric.share else f"{metric.title} {target:g}"


def _delivered(record: Record) -> float:
    selected = int(np.sum(record.columns["n_selected"]))
    return int(np.sum(record.columns["n_delivered"])) / selected if selected else NAN
