"""Beyond the source: AMP-FL with VGG-11 at smaller rates, and at two rates for all of the published rounds.

At the published rate, 0.05, nothing is learned in the `VGG_ROUNDS` that the other files have for VGG-11. Whether that
is the rate or the number of rounds is asked here, with the proposed scheduler where devices stay.
"""

from matplotlib.figure import Figure
from pruning_schedulers import STORE
from pruning_setting import TITLES, VGG_ROUNDS, case, curve

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import LEARNS, mean, missing, told_all, verdict
from fedcell.experiment.plots import dress, panels

PUBLISHED, PUBLISHED_ROUNDS = 0.05, 1500
ROUNDS = {PUBLISHED: PUBLISHED_ROUNDS, 0.02: VGG_ROUNDS, 0.01: PUBLISHED_ROUNDS, 0.005: VGG_ROUNDS}  # by rate


def name(rate: float) -> str:
    return f"vgg/AMP-FL lr={rate:g}"


def cases(quick: bool) -> list[Case]:
    if quick:
        return []
    return [case(name(rate), quick, {"train.lr": rate, "rounds": rounds}) for rate, rounds in ROUNDS.items()]


def check(rows: list[Row]) -> list[Finding]:
    keys = {f"{rate:g}": name(rate) for rate in ROUNDS}
    if missing(rows, list(keys.values())):
        return []
    learns = {rate: mean(rows, name(rate)) >= LEARNS for rate in ROUNDS}
    smaller = [learns[rate] for rate in ROUNDS if rate < PUBLISHED]
    told = told_all(rows, keys)
    return [
        Finding("long", told, verdict([learns[PUBLISHED]]), f"an accuracy of {LEARNS:g} in {PUBLISHED_ROUNDS} rounds"),
        Finding("rate", told, verdict(smaller), f"{LEARNS:g} at {sum(smaller)} of {len(smaller)} smaller rates"),
    ]


def plot(rows: list[Row]) -> Figure:
    figure, (accuracy, loss) = panels(2)
    for index, rate in enumerate(ROUNDS):
        curve(accuracy, rows, name(rate), index, f"rate {rate:g}")
        curve(loss, rows, name(rate), index, f"rate {rate:g}", y="loss")
    dress(accuracy, "round", "test accuracy", f"{TITLES['vgg']}, AMP-FL")
    dress(loss, "round", "test loss", f"{TITLES['vgg']}, AMP-FL")
    loss.set_yscale("log")
    return figure


EXPERIMENT = Experiment(
    title="AMP-FL with VGG-11: rates and rounds",
    claims=(
        Claim("long", "AMP-FL learns at the published rate in the published number of rounds", "no runs"),
        Claim("rate", "AMP-FL learns at a smaller rate", "no runs"),
    ),
    cases=cases,
    plot=plot,
    check=check,
    store=STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
