"""FL-GR Figure 5.5: accuracy and staleness over the energy budget and the deadline, after 150 s of training.

Deviation: the CNN on CIFAR-10, where the source has VGG-11 on CIFAR-100; the swept values are ours, chosen so that each
energy budget lets one more of the four CPU clocks compute.
"""

from matplotlib.figure import Figure
from recycling_setting import staleness
from recycling_sweeps import MEASURES, cases, claims, drawn, judged, sweep

from fedcell.experiment import Experiment, Finding, Row, main
from fedcell.experiment.judging import final
from fedcell.experiment.plots import panels

TRAINING_S = 150.0
ENERGY = sweep("E", (0.4, 0.6, 0.8, 1.1), lambda joule: {"world__energy_per_round_joule": joule}, usual=1.1)
DEADLINE = sweep(
    "T",
    (0.2, 0.25, 0.3, 0.4),
    lambda seconds: {"world__deadline_s": seconds, "rounds": round(TRAINING_S / seconds)},
    usual=0.3,
)


def check(rows: list[Row]) -> list[Finding]:
    return [
        *judged(rows, "energy accuracy", ENERGY, final, rises=True),
        *judged(rows, "energy staleness", ENERGY, staleness, rises=False),
        *judged(rows, "deadline accuracy", DEADLINE, final, rises=True),
        *judged(rows, "deadline staleness", DEADLINE, staleness, rises=False),
    ]


def plot(rows: list[Row]) -> Figure:
    figure, axes = panels(4)
    drawn(axes[:2], rows, ENERGY, "energy budget of a round (J)", MEASURES)
    drawn(axes[2:], rows, DEADLINE, "deadline of a round (s)", MEASURES)
    return figure


EXPERIMENT = Experiment(
    title="FL-GR Figure 5.5: energy and delay budgets",
    claims=claims(
        {
            "energy accuracy": "accuracy rises with the energy budget",
            "energy staleness": "staleness falls with the energy budget",
            "deadline accuracy": "accuracy after 150 s rises with the deadline",
            "deadline staleness": "staleness falls with the deadline",
        }
    ),
    cases=lambda quick: cases((ENERGY, DEADLINE), quick),
    plot=plot,
    check=check,
    store="schedulers",
)

if __name__ == "__main__":
    main(EXPERIMENT)
