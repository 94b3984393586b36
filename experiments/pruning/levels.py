"""What AMP-FL reaches with VGG-11 in the cell, and what batch norm, old gradients and a third shard are worth.

All of it is pruned to the deadline, which leaves 44 to 53 % of the units of nine layers. Without a norm layer the
outputs of such a thin network fade (`methods.pruning.theory.output_scale`). The long runs are those of Figures 6.5 and
6.7; all others are shorter, and equal the first rounds of longer ones but for rounding, which grows over hundreds of
rounds if the kernels differ. Levels are read around a round, over the five evaluations that end there.
"""

from matplotlib.figure import Figure
from pruning_schedulers import SCHEDULERS, STORE, base
from pruning_setting import TITLES, case, curve

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import Measure, above, ahead, finding, told_all
from fedcell.experiment.measures import window
from fedcell.experiment.plots import dress, panels

SHORT, WITHOUT, EARLY, LAST = 400, 560, 720, 1500
KEYS = {
    "2 shards": "vgg/static Proposed",
    "3 shards": "vgg/AMP-FL s=3",
    "by lot": f"vgg/static Random {EARLY}",
    "by lot, 3 shards": f"vgg/Random s=3 {EARLY}",
    "by lot, without old gradients": f"vgg/Random-wGC {WITHOUT}",
    "without old gradients": "vgg/Proposed-wGC",
    "without norm": "vgg/Proposed no norm",
}
CUT = {"2 shards, short": f"vgg/static Proposed {SHORT}", "3 shards, short": f"vgg/AMP-FL s=3 {SHORT}"}


def around(number: int, every: int = 20) -> Measure:
    """Mean accuracy over the five evaluations up to a round."""
    return window(number - 4 * every, number)


def cases(quick: bool) -> list[Case]:
    if quick:
        return []
    thrice = {"data.shards_per_device": 3}
    return [
        base("vgg"),
        case(KEYS["3 shards"], quick, thrice),
        case(KEYS["by lot"], quick, {"rounds": EARLY}, scheduler=SCHEDULERS["Random"]),
        case(KEYS["by lot, 3 shards"], quick, {"rounds": EARLY, **thrice}, scheduler=SCHEDULERS["Random"]),
        case(
            KEYS["by lot, without old gradients"],
            quick,
            {"rounds": WITHOUT},
            scheduler=SCHEDULERS["Random"],
            cache="off",
        ),
        case(KEYS["without old gradients"], quick, {"rounds": EARLY}, cache="off"),
        case(KEYS["without norm"], quick, {"rounds": SHORT, "model.norm": "none"}),
        case(CUT["2 shards, short"], quick, {"rounds": SHORT}),
        case(CUT["3 shards, short"], quick, {"rounds": SHORT, **thrice}),
    ]


def _long_enough(number: int) -> dict[str, str]:
    """The cases that run for so many rounds."""
    shorter = {"by lot, without old gradients": WITHOUT, "without norm": SHORT}
    return {name: key for name, key in KEYS.items() if shorter.get(name, LAST) >= number}


def check(rows: list[Row]) -> list[Finding]:
    two, three, lot, lot_three, lot_plain, plain, thin = KEYS.values()
    told = {number: told_all(rows, _long_enough(number), around(number)) for number in (SHORT, WITHOUT, EARLY)}
    short, wide = CUT.values()
    soon = told_all(rows, {**CUT, "without old gradients": plain}, around(SHORT))
    return [
        finding("cache soon", ahead(rows, short, plain, around(SHORT)), soon, "ahead with old gradients"),
        finding("shards soon", ahead(rows, wide, short, around(SHORT)), soon, "3 shards ahead"),
        finding("level 2", above(rows, two, 0.5, around(EARLY)), told[EARLY]),
        finding("level lot", above(rows, lot, 0.5, around(EARLY)), told[EARLY]),
        finding("level lot 3", above(rows, lot_three, 0.58, around(EARLY)), told[EARLY]),
        finding(
            "cache lot", ahead(rows, lot, lot_plain, around(WITHOUT), by=0.1), told[WITHOUT], "by more than 10 points"
        ),
        finding("level 3", above(rows, three, 0.58, around(EARLY)), told[EARLY]),
        finding("cache", ahead(rows, two, plain, around(EARLY), by=0.1), told[EARLY], "ahead by more than 10 points"),
        finding("norm", ahead(rows, two, thin, around(SHORT)), told[SHORT], "ahead with batch norm"),
        finding("printed", above(rows, two, 0.7), told_all(rows, {"2 shards": two}), "the interval lies above"),
    ]


def plot(rows: list[Row]) -> Figure:
    figure, (ax,) = panels(1)
    for index, (name, key) in enumerate({**KEYS, **CUT}.items()):
        curve(ax, rows, key, index, name)
    dress(ax, "round", "test accuracy", TITLES["vgg"])
    return figure


EXPERIMENT = Experiment(
    title="AMP-FL with VGG-11: levels",
    claims=(
        Claim("cache soon", f"2 shards: old gradients help within {SHORT} rounds", "curves"),
        Claim("shards soon", f"3 shards are ahead of 2 within {SHORT} rounds", "curves"),
        Claim("level 2", f"2 shards: above 50 % after {EARLY} rounds", "curves"),
        Claim("level lot", f"2 shards, devices drawn by lot: above 50 % after {EARLY} rounds", "curves"),
        Claim("level lot 3", f"3 shards, devices drawn by lot: above 58 % after {EARLY} rounds", "curves"),
        Claim(
            "cache lot", f"drawn by lot: old gradients are worth more than 10 points after {WITHOUT} rounds", "curves"
        ),
        Claim("level 3", f"3 shards: above 58 % after {EARLY} rounds", "curves"),
        Claim("cache", f"2 shards: old gradients are worth more than 10 points after {EARLY} rounds", "curves"),
        Claim("norm", f"2 shards: batch norm lets VGG-11 learn in {SHORT} rounds", "no runs"),
        Claim("printed", f"2 shards: above 70 % after {LAST} rounds", "above 70 %"),
    ),
    cases=cases,
    plot=plot,
    check=check,
    store=STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
