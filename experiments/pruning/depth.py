"""Beyond the source: how deep a network may be whose layers are cut, on MNIST.

Dense networks of 64 units in every layer, He start, 10 devices a round by lot and no radio; all keep the same share of
the units of every layer. 0.43 is a little less than the 0.44 to 0.53 that the deadline of the source leaves of VGG-11
(column `keep_mean`, by scheduler), which has nine layers that are cut. Outputs of a thin network fade with its depth
(`theory.pruning.output_scale`); weights that make up for it are too large for the full network, which is the one that
is tested. Whether that is all that keeps it from learning is open.
"""

from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure
from pruning_setting import NO_RADIO, build_dense, case, curve

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import LEARNS, ahead, last_tenth, mean, missing, told, verdict
from fedcell.experiment.plots import dress, panels

WIDTH = 64
LAYERS = (3, 6, 9)
KEEPS = (1.0, 0.7, 0.43)
PUBLISHED, RATES = 0.05, (0.02, 0.01)  # the smaller ones for the deepest and thinnest alone
CHANCE = np.log(10)  # loss of equal odds for ten classes


def name(layers: int, keep: float, rate: float = PUBLISHED) -> str:
    return f"mnist/{layers} layers keep={keep:g}" + ("" if rate == PUBLISHED else f" lr={rate:g}")


def cases(quick: bool) -> list[Case]:
    played = [(layers, keep, PUBLISHED) for layers in LAYERS for keep in KEEPS]
    played += [(LAYERS[-1], KEEPS[-1], rate) for rate in RATES]
    return [_case(*one, quick) for one in (played[:2] if quick else played)]


def _case(layers: int, keep: float, rate: float, quick: bool) -> Case:
    changes = {**NO_RADIO, "rounds": 150, "train.lr": rate, "model.name": "mlp", "model.hidden": (WIDTH,) * layers}
    settings = {"scheduler": "random", "deadline_s": None, "n_selected": 10, "keep": keep}
    return case(name(layers, keep, rate), quick, changes, **settings)._replace(build=build_dense)


def loss(row: Row) -> float:
    """Mean test loss in the last tenth of the rounds."""
    return last_tenth(row, np.array(row["loss"]))


def check(rows: list[Row]) -> list[Finding]:
    thin, slow = KEEPS[-1], [name(LAYERS[-1], KEEPS[-1], rate) for rate in RATES]
    if missing(rows, [name(layers, keep) for layers in LAYERS for keep in KEEPS] + slow):
        return []
    falls = [ahead(rows, name(a, thin), name(b, thin)) for a, b in pairwise(LAYERS)]
    whole = [mean(rows, name(layers, KEEPS[0])) >= LEARNS for layers in LAYERS]
    deep = name(LAYERS[-1], thin)
    large = [mean(rows, deep, loss) > CHANCE, mean(rows, deep) < LEARNS]
    told_rates = ", ".join(f"{rate:g}: {told(rows, key)}" for rate, key in zip(RATES, slow, strict=True))
    learns = [mean(rows, key) >= LEARNS for key in slow]
    return [
        Finding(
            "depth", _table(rows), verdict([*falls, *whole]), "falls from each depth to the next, and whole ones learn"
        ),
        Finding(
            "loss",
            f"loss {told(rows, deep, loss, 1)}, accuracy {told(rows, deep)}",
            verdict(large),
            f"above that of equal odds, {CHANCE:.1f}, and no accuracy of {LEARNS:g}",
        ),
        Finding("rate", told_rates, verdict(learns), f"learns, {LEARNS:g}, at {sum(learns)} of {len(learns)} rates"),
    ]


def _table(rows: list[Row]) -> str:
    return "; ".join(
        f"keep {keep:g}: " + ", ".join(f"{layers} layers {told(rows, name(layers, keep))}" for layers in LAYERS)
        for keep in KEEPS
    )


def plot(rows: list[Row]) -> Figure:
    figure, (*axes, last) = panels(len(LAYERS) + 1)
    for number, (ax, layers) in enumerate(zip(axes, LAYERS, strict=True)):
        for index, keep in enumerate(KEEPS):
            curve(ax, rows, name(layers, keep), index, f"keep {keep:g}")
        dress(ax, "round", "test accuracy", f"MNIST, {layers} layers of {WIDTH}")
        curve(last, rows, name(layers, KEEPS[-1]), number, f"{layers} layers", y="loss")
    dress(last, "round", "test loss", f"MNIST, keep {KEEPS[-1]:g}")
    last.set_yscale("log")
    return figure


EXPERIMENT = Experiment(
    title="Cut layers in deep networks",
    claims=(
        Claim("depth", "with 43 % of the units accuracy falls with the layers; whole networks learn", "no runs"),
        Claim("loss", "nine layers, 43 %: the full network ends worse than equal odds", "no runs"),
        Claim("rate", "nine layers, 43 %: a smaller rate helps", "no runs"),
    ),
    cases=cases,
    plot=plot,
    check=check,
)

if __name__ == "__main__":
    main(EXPERIMENT)
