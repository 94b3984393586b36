"""FL-GR Table 5-C: rounds to a target accuracy of the learning rules, 5 or 10 of 100 devices heard in every round."""

import numpy as np
from matplotlib.figure import Figure
from recycling_rules import DATA, HEARD, STORE, baselines, cases, drawn, name, ran
from recycling_setting import base_of, rounds_to, where

from fedcell.experiment import Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import ahead, by_seed, told, verdict
from fedcell.experiment.plots import dress, panels

PRINTED = {  # data set -> S -> target, rounds of FL-GR, rounds of the best baseline
    "mnist": {5: (0.85, 48, 80), 10: (0.90, 50, 233)},
    "cifar": {5: (0.50, 128, 318), 10: (0.55, 147, 376)},
    "vgg": {5: (0.65, 457, 640), 10: (0.70, 509, 760)},
}
BEST = {"mnist": "MC", "cifar": "W/GR", "vgg": "W/GR"}
SLACK = 0.1  # saved share that may be missing


def check(rows: list[Row]) -> list[Finding]:
    return [finding for data in DATA if ran(rows, data) for finding in _of(rows, data)]


def _of(rows: list[Row], data: str) -> list[Finding]:
    """The two rows of a data set."""
    fewest, saved, best, ours = [], [], [], []
    for heard, (target, own, other) in PRINTED[base_of(data)].items():
        needed, keys = rounds_to(target), baselines(rows, data, heard)
        fewest += [ahead(rows, key, name(data, "FL-GR", heard), needed) for key in keys.values()]
        mean = {rule: _mean(rows, key, target) for rule, key in keys.items()}
        first = min(mean, key=lambda rule: mean[rule])
        share = 1 - _mean(rows, name(data, "FL-GR", heard), target) / mean[first]
        saved.append((share, 1 - own / other))
        best.append(first == BEST[base_of(data)] and mean[first] <= rows_of(rows, data))
        all_ = {"FL-GR": name(data, "FL-GR", heard), **keys}
        ours.append(
            f"S={heard} to {target:.0%}: "
            + ", ".join(f"{rule} {told(rows, key, needed, 0)}" for rule, key in all_.items())
        )
    text = "; ".join(ours) + f" (a run that never gets there counts one more than its {rows_of(rows, data)} rounds)"
    return [
        Finding(f"{data} fewest", text, verdict(fewest), f"fewer than a baseline {sum(fewest)} of {len(fewest)} times"),
        Finding(
            f"{data} saved",
            ", ".join(f"{share:.0%}" for share, _ in saved),
            verdict([share >= printed - SLACK for share, printed in saved]),
            f"saved share against the best baseline at least the printed less {SLACK}",
        ),
        Finding(
            f"{data} baseline",
            text,
            verdict(best),
            f"the best baseline is {BEST[base_of(data)]}, and gets there, at {sum(best)} of 2 S",
        ),
    ]


def _mean(rows: list[Row], key: str, target: float) -> float:
    return float(np.mean(list(by_seed(rows, key, rounds_to(target)).values())))


def rows_of(rows: list[Row], data: str) -> int:
    return int(next(row["rounds"][-1] for row in rows if row["case"].startswith(f"{data}/")))


def plot(rows: list[Row]) -> Figure:
    shown = drawn(rows)
    figure, axes = panels(len(shown))
    for ax, (data, title) in zip(axes, shown.items(), strict=False):
        if ran(rows, data):
            for place, heard in enumerate(HEARD):
                target = PRINTED[base_of(data)][heard][0]
                keys = {"FL-GR": name(data, "FL-GR", heard), **baselines(rows, data, heard)}
                for index, (rule, key) in enumerate(keys.items()):
                    label = rule if place == 0 else None
                    ax.bar(place + 0.2 * index, _mean(rows, key, target), 0.18, color=f"C{index}", label=label)
            ax.set_xticks([0.3, 1.3], [f"S={heard} to {PRINTED[base_of(data)][heard][0]:.0%}" for heard in HEARD])
        dress(ax, "", "rounds to the target", title)
    return figure


def _claims(data: str) -> list[Claim]:
    numbers = "; ".join(
        f"S={heard} to {target:.0%}: {own} against {other} ({BEST[base_of(data)]})"
        for heard, (target, own, other) in PRINTED[base_of(data)].items()
    )
    shares = ", ".join(f"{1 - own / other:.1%}" for _, own, other in PRINTED[base_of(data)].values())
    return [
        Claim(f"{data} fewest", f"{where(data)}: FL-GR needs the fewest rounds", numbers),
        Claim(f"{data} saved", f"{where(data)}: rounds saved against the best baseline", shares),
        Claim(f"{data} baseline", f"{where(data)}: the best baseline is {BEST[base_of(data)]}", numbers),
    ]


EXPERIMENT = Experiment(
    title="FL-GR Table 5-C: rounds to a target accuracy",
    claims=[claim for data in DATA for claim in _claims(data)],
    cases=cases,
    plot=plot,
    check=check,
    store=STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
