"""What computing and sending cost in seconds, joules and bits, and what arrives."""

from .contract import as_decision, as_sent, check_decision
from .forecast import most_steps, times
from .uplink import mark_invalid, standing_by, transmit

__all__ = [
    "as_decision",
    "as_sent",
    "check_decision",
    "mark_invalid",
    "most_steps",
    "standing_by",
    "times",
    "transmit",
]
