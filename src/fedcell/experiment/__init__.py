"""Reproduced figures and tables.

`runs` are cases over seeds, `frame` judges and draws them, `catalogue` finds the experiments of a clone, and `ledger`
puts every claim of every paper into one list, with what was measured.
"""

from .frame import VERDICTS, Claim, Experiment, Finding, judge, main
from .runs import Case, Row, run_case, run_cases

__all__ = [
    "VERDICTS",
    "Case",
    "Claim",
    "Experiment",
    "Finding",
    "Row",
    "judge",
    "main",
    "run_case",
    "run_cases",
]
