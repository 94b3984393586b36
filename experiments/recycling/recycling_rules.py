"""The runs of Figure 5.2 and Table 5-C: every learning rule where exactly S random devices are heard in a round.

FedProx has the pull 0.01; the source gives none. Without momentum, as (5.3) is written, and with VGG-11 FL-GR is held
against W/GR alone.
"""

from typing import Any

from recycling_setting import TITLES, case

from fedcell.experiment import Case, Row

HEARD = (5, 10)  # S
STORE = "rules"
DATA = ("mnist", "cifar", "vgg", "mnist0", "cifar0")
RULES: dict[str, dict[str, Any]] = {
    "FL-GR": {"rule": "recycle"},
    "W/GR": {"rule": "received"},
    "MC": {"rule": "models"},
    "FedProx": {"rule": "received", "prox": 0.01},
}


def name(data: str, rule: str, heard: int) -> str:
    return f"{data}/{rule} S={heard}"


def rules(data: str) -> tuple[str, ...]:
    """The learning rules that are run on a data set."""
    return tuple(RULES) if data in ("mnist", "cifar") else ("FL-GR", "W/GR")


def cases(quick: bool) -> list[Case]:
    return [run for data in DATA for run in cases_of(data, quick)]


def cases_of(data: str, quick: bool) -> list[Case]:
    """All rules on a data set; the reduced grid has two of them, with the published momentum and without VGG-11."""
    if quick and data not in ("mnist", "cifar"):
        return []
    return [
        case(name(data, rule, heard), quick, scheduler="random", n_selected=heard, **RULES[rule])
        for rule in rules(data)[: 2 if quick else None]
        for heard in HEARD
    ]


def keys_of(data: str, heard: int) -> dict[str, str]:
    """The case of every rule, FL-GR first."""
    return {rule: name(data, rule, heard) for rule in rules(data)}


def drawn(rows: list[Row]) -> dict[str, str]:
    """The data sets with runs and their titles; one empty panel if there are none."""
    there = {data: TITLES[data] for data in DATA if any(row["case"].startswith(f"{data}/") for row in rows)}
    return there or {"mnist": TITLES["mnist"]}
