"""FL-GR Figure 5.6: accuracy over the outage threshold and over the number of resource blocks, CIFAR-10.

The swept values are ours: below 20 dB hardly an upload is lost in this cell.
"""

from matplotlib.figure import Figure
from recycling_schedulers import STORE
from recycling_sweeps import Sweep, distinct, drawn, judged, sweep

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import final
from fedcell.experiment.plots import panels


def threshold(quick: bool = False) -> Sweep:
    return sweep("gamma", (0, 25, 30, 35), lambda db: {"world__outage_threshold_db": db}, 0, quick)


def blocks(quick: bool = False) -> Sweep:
    return sweep("R", (5, 10, 20), lambda number: {"world__n_blocks": number}, 10, quick)


def cases(quick: bool) -> list[Case]:
    return distinct((threshold(quick), blocks(quick)), quick)


def check(rows: list[Row]) -> list[Finding]:
    return [judged(rows, "threshold", threshold(), rises=False), judged(rows, "blocks", blocks())]


def plot(rows: list[Row]) -> Figure:
    figure, axes = panels(2)
    drawn(axes[:1], rows, threshold(), "outage threshold (dB)", {"test accuracy": final})
    drawn(axes[1:], rows, blocks(), "resource blocks", {"test accuracy": final})
    return figure


EXPERIMENT = Experiment(
    title="FL-GR Figure 5.6: outage threshold and resource blocks",
    claims=(
        Claim("threshold", "accuracy falls with the outage threshold", "curves"),
        Claim("blocks", "accuracy rises with the number of resource blocks", "curves"),
    ),
    cases=cases,
    plot=plot,
    check=check,
    store=STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
