"""Averages that a few wrong updates cannot move, around any method that averages updates.

A rule looks at the updates heard and returns them changed: a centre in the place of every row, so that any weights that
sum to one give the centre; shorter rows; or fewer rows. Rules need the updates of a round in memory together. Not a
method itself: it has no `build`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from .... import radio
from ....errors import BadInput
from ....options import Checked, option
from ....types import Bools, Method, Problem, Round
from .clipped import clipped
from .geometric import geometric_median
from .krum import kept_by_krum
from .median import median
from .trimmed import trimmed_mean

RULES = ("median", "trimmed", "krum", "clip", "geometric")


@dataclass(frozen=True)
class RobustConfig(Checked):
    """Settings of robust aggregation."""

    rule: str = option(
        "median",
        "median and trimmed mean of every entry, Krum and multi-Krum, lengths clipped, or the geometric median",
        choices=RULES,
    )
    trim: float = option(
        0.2, "share of the updates left out at each end of every entry", least=0, most=0.499, needs="rule=trimmed"
    )
    n_wrong: int = option(1, "updates that may be wrong", least=0, needs="rule=krum")
    n_kept: int = option(
        0, "updates that are averaged; 1: Krum, 0: all but the wrong ones (multi-Krum)", least=0, needs="rule=krum"
    )
    clip: float = option(
        1.0, "longest update, in multiples of the median length of its round", above=0, most=1e6, needs="rule=clip"
    )


def robust(method: Method, config: RobustConfig, name: str = "this method") -> Method:
    """The method with updates cleaned before its `aggregate`; raises BadInput if it averages something else."""
    if not method.sends_updates:
        raise BadInput(
            f"robust aggregation does not go with {name}: it compares updates of a shared model and devices of {name} "
            f"send {method.sends}, so use {name} without it, or a method that sends updates"
        )
    return method._replace(
        aggregate=partial(aggregate, method.aggregate, config), clean=partial(cleaned, config), needs_rows=True
    )


def aggregate(
    plain: Callable[..., tuple[Tensor, Any]],
    config: RobustConfig,
    problem: Problem,
    params: Tensor,
    state: Any,
    played: Round,
) -> tuple[Tensor, Any]:
    """The method's step with the updates that the rule makes of those heard."""
    device, rows = played.received()
    if not len(device):
        return plain(problem, params, state, played)
    found, kept = cleaned(config, rows)
    delta = played.updates.delta.clone()
    delta[played.uplink.delivered[played.updates.device]] = found
    uplink = radio.mark_invalid(played.uplink, device[~kept])
    return plain(problem, params, state, played._replace(updates=played.updates._replace(rows=delta), uplink=uplink))


def cleaned(config: RobustConfig, rows: Tensor) -> tuple[Tensor, Bools]:
    """Rows `[n_rows, n_params]` as a rule leaves them, and which of them are kept."""
    everyone = np.ones(len(rows), dtype=np.bool_)
    if config.rule == "krum":
        return rows, kept_by_krum(rows, config.n_wrong, config.n_kept)
    if config.rule == "clip":
        return clipped(rows, config.clip), everyone
    if config.rule == "trimmed":
        centre = trimmed_mean(rows, config.trim)
    else:
        centre = median(rows) if config.rule == "median" else geometric_median(rows)
    return centre.expand_as(rows), everyone
