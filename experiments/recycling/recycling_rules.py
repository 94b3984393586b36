"""The runs of Figure 5.2 and Table 5-C: every learning rule where exactly S random devices are heard in a round."""

from typing import Any

from recycling_setting import NO_RADIO, PLAIN, TITLES, base_of, case, config

from fedcell.experiment import Case, Row
from fedcell.experiment.judging import by_seed, final, missing
from fedcell.options import override

HEARD = (5, 10)  # S
STORE = "rules"
DATA = TITLES | PLAIN
PULLS = (0.001, 0.01, 0.1, 1.0)  # of FedProx, one seed each; the best counts
RULES: dict[str, dict[str, Any]] = {
    "FL-GR": {"rule": "recycle"},
    "W/GR": {"rule": "received"},
    "MC": {"rule": "models"},
}
PROX = {f"FedProx {pull:g}": {"rule": "received", "prox": pull} for pull in PULLS}


def name(data: str, rule: str, heard: int) -> str:
    return f"{data}/{rule} S={heard}"


def cases(quick: bool) -> list[Case]:
    return [run for data in DATA for run in cases_of(data, quick)]


def cases_of(data: str, quick: bool) -> list[Case]:
    """All rules on a data set; VGG-11 on one seed and without FedProx, only some of it in the reduced grid."""
    if quick and data not in ("mnist", "cifar"):
        return []
    changed = override(config(data, quick), {**NO_RADIO, **({"eval_every": 2} if base_of(data) == "cifar" else {})})
    rules = {rule: RULES[rule] for rule in ("FL-GR", "W/GR")} if quick and data == "cifar" else RULES
    out = [
        case(
            name(data, rule, heard), changed, 1 if data == "vgg" else None, scheduler="random", n_selected=heard, **own
        )
        for rule, own in rules.items()
        for heard in HEARD
    ]
    if data in ("mnist", "cifar") and not quick:
        out += [
            case(name(data, rule, heard), changed, 1, scheduler="random", n_selected=heard, **own)
            for rule, own in PROX.items()
            for heard in HEARD
        ]
    return out


def ran(rows: list[Row], data: str) -> bool:
    """Whether the three main rules were run on a data set."""
    return not missing(rows, [name(data, rule, heard) for rule in RULES for heard in HEARD])


def drawn(rows: list[Row]) -> dict[str, str]:
    """The data sets with runs and their titles; one empty panel if there are none."""
    there = {data: title for data, title in DATA.items() if any(row["case"].startswith(f"{data}/") for row in rows)}
    return there or {"mnist": TITLES["mnist"]}


def baselines(rows: list[Row], data: str, heard: int) -> dict[str, str]:
    """The cases FL-GR is held against: W/GR, MC, and FedProx with the pull that ended best."""
    out = {rule: name(data, rule, heard) for rule in ("W/GR", "MC")}
    there = {row["case"] for row in rows}
    prox = [name(data, rule, heard) for rule in PROX if name(data, rule, heard) in there]
    if prox:
        out["FedProx"] = max(prox, key=lambda key: sum(by_seed(rows, key, final).values()) / len(by_seed(rows, key)))
    return out
