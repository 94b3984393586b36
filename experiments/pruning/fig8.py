"""AMP-FL Figure 6.8: accuracy and mean age over the number of resource blocks; (a) MNIST after 50 s, (b) VGG-11."""

from itertools import pairwise

from matplotlib.figure import Figure
from pruning_schedulers import STORE, base
from pruning_setting import TITLES, age, case, points

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import below, finding, rising, told_all
from fedcell.experiment.plots import dress, panels

BLOCKS = {"mnist": (5, 10, 20), "vgg": (5, 10)}


def names(data: str) -> dict[str, str]:
    """Case of every number of blocks; ten of them are the setting of the other figures."""
    return {f"R={n}": base(data).key if n == 10 else f"{data}/R={n}" for n in BLOCKS[data]}


def cases(quick: bool) -> list[Case]:
    found = []
    for data in ("mnist",) if quick else BLOCKS:
        for n in BLOCKS[data][: 2 if quick else None]:
            found.append(base(data, quick) if n == 10 else case(f"{data}/R={n}", quick, {"world.n_blocks": n}))
    return found


def check(rows: list[Row]) -> list[Finding]:
    found = []
    for data in BLOCKS:
        keys = names(data)
        series = list(keys.values())
        falls = [below(rows, more, less, age) for less, more in pairwise(series)]
        found += [
            finding(f"accuracy {data}", rising(rows, series), told_all(rows, keys), "rises with every step of R"),
            finding(f"age {data}", falls, told_all(rows, keys, age, 1), "falls with every step of R"),
        ]
    return found


def plot(rows: list[Row]) -> Figure:
    figure, axes = panels(4)
    for number, (data, blocks) in enumerate(BLOCKS.items()):
        series = list(names(data).values())
        points(axes[2 * number], rows, blocks, series, 0, "")
        points(axes[2 * number + 1], rows, blocks, series, 1, "", age)
        dress(axes[2 * number], "resource blocks", "final accuracy", TITLES[data])
        dress(axes[2 * number + 1], "resource blocks", "mean age of a unit (rounds)", TITLES[data])
    return figure


EXPERIMENT = Experiment(
    title="AMP-FL Figure 6.8: accuracy and age over the number of resource blocks",
    claims=tuple(
        Claim(f"{what} {data}", f"{TITLES[data]}: {text}", "curves")
        for data in BLOCKS
        for what, text in (("accuracy", "accuracy rises with the blocks"), ("age", "age falls with the blocks"))
    ),
    cases=cases,
    plot=plot,
    check=check,
    store=STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
