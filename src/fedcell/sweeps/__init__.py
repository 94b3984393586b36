"""Grids of runs: methods x scenarios x seeds x settings, side by side, resumable, in one folder.

Names are loaded on first use: the actors of a Ray cluster import `host` from here, and no PyTorch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .drive import carry_out, going_on, plan, sweep
    from .grid import SweepPlan
    from .task import RunEnd, SweepRun

_HOME = {  # public name -> where it lives
    "RunEnd": "task",
    "SweepPlan": "grid",
    "SweepRun": "task",
    "carry_out": "drive",
    "going_on": "drive",
    "plan": "drive",
    "sweep": "drive",
}

__all__ = ["RunEnd", "SweepPlan", "SweepRun", "carry_out", "going_on", "plan", "sweep"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
