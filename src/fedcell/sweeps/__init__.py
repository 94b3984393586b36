"""Grids of runs: methods x scenarios x seeds x settings, side by side, resumable, in one folder."""

from .drive import carry_out, going_on, plan, sweep
from .grid import Plan
from .task import Outcome, Task

__all__ = ["Outcome", "Plan", "Task", "carry_out", "going_on", "plan", "sweep"]
