"""FL-GR Table 5-C: rounds to a target accuracy of the learning rules, 5 or 10 of 100 devices heard in every round.

A target is reached in the round from which on the accuracy stays above it. The first evaluated round with that
accuracy, which favours the noisiest rule, is shown and judged beside it.
"""

import numpy as np
from matplotlib.figure import Figure
from recycling_rules import HEARD, STORE, cases, keys_of
from recycling_setting import TITLES, base_of

from fedcell.experiment import Claim, Experiment, Finding, Row, SideBySide, beside, main
from fedcell.experiment.judging import Measure, finding, first_hit, missing, sooner, stays, told, told_all, values_of
from fedcell.experiment.plots import dress, panels, printed_point

PRINTED = {  # data set -> S -> target, rounds of FL-GR, rounds of the best baseline
    "mnist": {5: (0.85, 48, 80), 10: (0.90, 50, 233)},
    "cifar": {5: (0.50, 128, 318), 10: (0.55, 147, 376)},
}
BEST = {"mnist": "MC", "cifar": "W/GR"}
DATA = ("mnist", "cifar", "mnist0", "cifar0")


def check(rows: list[Row]) -> list[Finding]:
    return [finding for data in DATA for finding in _of(rows, data)]


def _of(rows: list[Row], data: str) -> list[Finding]:
    """The two rows of a data set."""
    fewest, first, saved, best, ours, hits = [], [], [], [], [], []
    for heard, (target, own, other) in PRINTED[base_of(data)].items():
        keys = keys_of(data, heard)
        mine, others = keys["FL-GR"], {rule: key for rule, key in keys.items() if rule != "FL-GR"}
        for rule, key in others.items():
            label = f"{rule} S={heard}"
            fewest.append(sooner(rows, mine, key, stays(target), name=label))
            first.append(sooner(rows, mine, key, first_hit(target), name=label))
        ours.append(f"S={heard} stays above {target:.0%} from {told_all(rows, keys, stays(target), 0)}")
        hits.append(f"S={heard} first at {target:.0%} in {told_all(rows, keys, first_hit(target), 0)}")
        if data in PRINTED:
            fastest = min(others, key=lambda rule: _rounds(rows, others[rule], stays(target)))
            share = 1 - own / other
            saved.append(
                sooner(rows, mine, others[fastest], stays(target), printed_share=share, name=f"{fastest} S={heard}")
            )
            best += [
                sooner(rows, others[BEST[data]], key, stays(target), name=f"{rule} S={heard}")
                for rule, key in others.items()
                if rule != BEST[data]
            ]
    text = "; ".join([*ours, *hits])
    found = [
        finding(f"{data} fewest", fewest, text, "stays above from an earlier round than"),
        finding(f"{data} first", first, text, "first gets there in an earlier round than"),
    ]
    if data in PRINTED:
        found += [
            finding(f"{data} saved", saved, why="half to twice the printed share, against the best baseline here"),
            finding(f"{data} baseline", best, text, f"{BEST[data]} stays above from an earlier round than"),
        ]
    return found


def _rounds(rows: list[Row], key: str, when: Measure) -> float:
    """Mean rounds to a target; a run that never gets there counts one more than it has."""
    ends = values_of(rows, key, lambda row: float(row["rounds"][-1] + 1))
    return float(np.minimum(values_of(rows, key, when), ends).mean()) if len(ends) else np.inf


def table(rows: list[Row]) -> SideBySide:
    """Rounds from which a rule stays above the target; the paper prints those of FL-GR and of the best baseline."""
    columns: dict[str, dict[str, tuple[str, str]]] = {}
    for data, printed in PRINTED.items():
        for heard, (target, own, other) in printed.items():
            for rule, key in keys_of(data, heard).items():
                paper = {"FL-GR": own, BEST[data]: other}.get(rule, "")
                here = told(rows, key, stays(target), 0)
                cell = f"{TITLES[data]}, {heard} devices, to {target:.0%}"
                columns.setdefault(rule, {})[cell] = (str(paper), here)
    return beside("rounds", columns)


def plot(rows: list[Row]) -> Figure:
    shown = [data for data in DATA if not missing(rows, [keys_of(data, HEARD[0])["FL-GR"]])] or DATA[:1]
    figure, axes = panels(len(shown))
    for ax, data in zip(axes, shown, strict=False):
        targets = {heard: PRINTED[base_of(data)][heard][0] for heard in HEARD}
        for place, (heard, target) in enumerate(targets.items()):
            for index, (rule, key) in enumerate(keys_of(data, heard).items()):
                x, label = place + 0.2 * index, rule if place == 0 else None
                if not missing(rows, [key]):
                    ax.bar(x, _rounds(rows, key, stays(target)), 0.18, color=f"C{index}", label=label)
                    ax.plot(x, _rounds(rows, key, first_hit(target)), "k_")
                if rule in ("FL-GR", BEST[base_of(data)]):
                    own, other = PRINTED[base_of(data)][heard][1:]
                    printed_point(ax, x, own if rule == "FL-GR" else other)
        ax.set_xticks([0.3, 1.3], [f"S={heard} to {target:.0%}" for heard, target in targets.items()])
        dress(ax, "", "rounds to stay above (bar), to get there (line)", TITLES[data])
    return figure


def _claims(data: str) -> list[Claim]:
    printed = PRINTED[base_of(data)]
    numbers = "; ".join(
        f"S={heard} to {target:.0%}: {own} against {other} ({BEST[base_of(data)]})"
        for heard, (target, own, other) in printed.items()
    )
    shares = ", ".join(f"{1 - own / other:.1%}" for _, own, other in printed.values())
    out = [
        Claim(f"{data} fewest", f"{TITLES[data]}: FL-GR needs the fewest rounds to stay above the target", numbers),
        Claim(f"{data} first", f"{TITLES[data]}: FL-GR needs the fewest rounds to get there once", numbers),
    ]
    if data in PRINTED:
        out += [
            Claim(f"{data} saved", f"{TITLES[data]}: rounds saved against the best baseline", shares),
            Claim(f"{data} baseline", f"{TITLES[data]}: the best baseline is {BEST[data]}", numbers),
        ]
    return out


EXPERIMENT = Experiment(
    title="FL-GR Table 5-C: rounds to a target accuracy",
    claims=[claim for data in DATA for claim in _claims(data)],
    cases=lambda quick: [one for one in cases(quick) if not one.key.startswith("vgg")],
    plot=plot,
    check=check,
    store=STORE,
    table=table,
)

if __name__ == "__main__":
    main(EXPERIMENT)
