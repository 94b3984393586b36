"""FL-GR Figure 5.6: accuracy over the outage threshold and over the number of resource blocks, CIFAR-10.

The swept values are ours: below 20 dB hardly an upload is lost in this cell.
"""

from matplotlib.figure import Figure
from recycling_sweeps import cases, claims, drawn, judged, sweep

from fedcell.experiment import Experiment, Finding, Row, main
from fedcell.experiment.judging import final
from fedcell.experiment.plots import panels

THRESHOLD = sweep("gamma", (0, 20, 25, 30, 35), lambda db: {"world__outage_threshold_db": db}, usual=0)
BLOCKS = sweep("R", (2, 5, 10, 20), lambda blocks: {"world__n_blocks": blocks}, usual=10)


def check(rows: list[Row]) -> list[Finding]:
    return [
        *judged(rows, "threshold", THRESHOLD, final, rises=False),
        *judged(rows, "blocks", BLOCKS, final, rises=True),
    ]


def plot(rows: list[Row]) -> Figure:
    figure, axes = panels(2)
    drawn(axes[:1], rows, THRESHOLD, "outage threshold (dB)", {"test accuracy": final})
    drawn(axes[1:], rows, BLOCKS, "resource blocks", {"test accuracy": final})
    return figure


EXPERIMENT = Experiment(
    title="FL-GR Figure 5.6: outage threshold and resource blocks",
    claims=claims(
        {
            "threshold": "accuracy falls with the outage threshold",
            "blocks": "accuracy rises with the number of resource blocks",
        }
    ),
    cases=lambda quick: cases((THRESHOLD, BLOCKS), quick),
    plot=plot,
    check=check,
    store="schedulers",
)

if __name__ == "__main__":
    main(EXPERIMENT)
