"""Reproduced figures and tables.

`runs` are cases over seeds, `stores` keep them, `packing` makes the file that travels with the repository; `measures`
are numbers of a run, `judging` compares them over seeds, `verdicts` makes the verdict of a claim of its comparisons;
`frame` judges and draws, `catalogue` finds the experiments of a clone, and `ledger` puts every claim of every paper
into one list, with what was measured; `beside` puts a paper's table and the measured numbers side by side.
"""

from .beside import SideBySide, beside, percent
from .frame import Experiment, judge, main
from .runs import Case, run_case, run_cases
from .stores import Row
from .verdicts import VERDICTS, Claim, Finding, finding

__all__ = [
    "VERDICTS",
    "Case",
    "Claim",
    "Experiment",
    "Finding",
    "Row",
    "SideBySide",
    "beside",
    "finding",
    "judge",
    "main",
    "percent",
    "run_case",
    "run_cases",
]
