"""Runs in which no device was ever heard, and what to change."""

from collections import Counter

from ..record import Record
from ..types import Outcome

CAUSES = {  # word and fix of every way in which an update is lost
    Outcome.LATE: ("late", "raise world.deadline_s or world.bandwidth_hz, or lower train.steps"),
    Outcome.ENERGY: ("out of energy", "raise world.energy_per_round_joule or world.battery_joule"),
    Outcome.OUTAGE: ("lost by the channel", "lower world.outage_threshold_db or world.radius_m"),
    Outcome.INVALID: ("not finite", "lower train.lr"),
}


def unheard(record: Record) -> str:
    """Why no update arrived in any round, with the fix of the main cause; empty where one did or none was asked for."""
    found = Counter("".join(record.columns["outcome"]))
    asked = found.total() - found[Outcome.IDLE.letter]
    if not asked or found[Outcome.DELIVERED.letter]:
        return ""
    lost = sorted(CAUSES, key=lambda one: -found[one.letter])
    words = ", ".join(f"{found[one.letter]} of {asked} {CAUSES[one][0]}" for one in lost if found[one.letter])
    return f"no update arrived in any round ({words}): {CAUSES[lost[0]][1]}"
