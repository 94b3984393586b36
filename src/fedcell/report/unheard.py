"""Runs in which no device was ever heard, and what to change."""

from collections import Counter

import numpy as np

from ..record import Record
from ..types import Outcome

CAUSES = {  # word and fix of every way in which an update is lost
    Outcome.LATE: ("late", "raise world.deadline_s or world.bandwidth_hz, or lower train.steps"),
    Outcome.ENERGY: ("out of energy", "raise world.energy_per_round_joule or world.battery_joule"),
    Outcome.OUTAGE: ("lost by the channel", "lower world.outage_threshold_db or world.radius_m"),
    Outcome.INVALID: ("not finite", "lower train.lr"),
}


UNPLANNED = (
    "no device was planned in any round, because none can meet the deadline and the energy budget or is available: "
    "raise world.deadline_s, world.bandwidth_hz or world.energy_per_round_joule, or lower train.steps"
)


def unheard(record: Record) -> str:
    """Why no update arrived in any round, with the fix of the main cause; empty if one did, or if none is needed."""
    found = Counter({one.letter: sum(text.count(one.letter) for text in record.columns["outcome"]) for one in Outcome})
    asked = found.total() - found[Outcome.IDLE.letter]
    if not asked and _stood_still(record):
        return UNPLANNED
    if not asked or found[Outcome.DELIVERED.letter]:
        return ""
    lost = sorted(CAUSES, key=lambda one: -found[one.letter])
    words = ", ".join(f"{found[one.letter]} of {asked} {CAUSES[one][0]}" for one in lost if found[one.letter])
    return f"no update arrived in any round ({words}): {CAUSES[lost[0]][1]}"


def _stood_still(record: Record) -> bool:
    """Whether scores were measured more than once and never changed; a server that trains by itself changes them."""
    scores = [record.columns[name] for name in ("accuracy", "loss") if name in record.columns]
    known = [part[np.isfinite(part)] for part in scores]
    return any(len(part) > 1 for part in known) and all(len(np.unique(part)) < 2 for part in known)
