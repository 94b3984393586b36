"""FL-GR Figure 5.5: accuracy and staleness over the energy budget and the deadline, after 150 s of training.

Deviation: the CNN on CIFAR-10, where the source has VGG-11 on CIFAR-100; the swept values are ours. Each energy budget
lets one more of the four CPU clocks compute. Deadlines up to 0.26 s bind; beyond, up to the slack 0.3 s, devices come
to take turns, and that range is judged apart.
"""

from matplotlib.figure import Figure
from recycling_schedulers import STORE
from recycling_setting import case, staleness
from recycling_sweeps import MEASURES, SLACK, Sweep, distinct, drawn, judged, sweep

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.plots import panels

TRAINING_S = 150.0
ENERGIES, DEADLINES, LAST_THAT_BINDS = (0.4, 0.6, 0.8, 1.1), (0.22, 0.24, 0.25, 0.26, 0.28), 0.26


def energy(quick: bool = False) -> Sweep:
    return sweep("E", ENERGIES, lambda joule: {"world__energy_per_round_joule": joule}, 1.1, quick)


def deadline(quick: bool = False) -> Sweep:
    def changes(seconds: float) -> dict[str, float]:
        return {"world__deadline_s": seconds, "rounds": round(TRAINING_S / seconds)}

    return {**sweep("T", DEADLINES, changes, 0.25, quick), 0.3: case(SLACK, quick)}


def cases(quick: bool) -> list[Case]:
    return distinct((energy(quick), deadline(quick)), quick)


def check(rows: list[Row]) -> list[Finding]:
    bound = {value: one for value, one in deadline().items() if value <= LAST_THAT_BINDS}
    loose = {value: one for value, one in deadline().items() if value >= LAST_THAT_BINDS}
    return [
        judged(rows, "energy accuracy", energy()),
        judged(rows, "energy staleness", energy(), staleness, rises=False),
        judged(rows, "deadline accuracy", bound),
        judged(rows, "deadline staleness", deadline(), staleness, rises=False),
        judged(rows, "slack accuracy", loose),
    ]


def plot(rows: list[Row]) -> Figure:
    figure, axes = panels(4)
    drawn(axes[:2], rows, energy(), "energy budget of a round (J)", MEASURES)
    drawn(axes[2:], rows, deadline(), "deadline of a round (s)", MEASURES)
    return figure


EXPERIMENT = Experiment(
    title="FL-GR Figure 5.5: energy and delay budgets",
    claims=(
        Claim("energy accuracy", "accuracy rises with the energy budget", "curves"),
        Claim("energy staleness", "staleness falls with the energy budget", "curves"),
        Claim("deadline accuracy", "accuracy after 150 s rises with a deadline that binds", "curves"),
        Claim("deadline staleness", "staleness falls with the deadline", "curves"),
        Claim("slack accuracy", "accuracy after 150 s rises with a deadline that does not bind", "curves"),
    ),
    cases=cases,
    plot=plot,
    check=check,
    store=STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
