"""What AMP-FL reaches with VGG-11 in the cell, and what batch norm, old gradients and a third shard are worth.

All of it is pruned to the deadline, which leaves 44 to 53 % of the units of nine layers. Without a norm layer the
outputs of such a thin network fade (`methods.pruning.theory.output_scale`); that network, and the rule without old
gradients, run for a part of the rounds. So do 2 and 3 shards, where the long runs are missing. Levels are read around a
round, over the five evaluations that end there.
"""

from matplotlib.figure import Figure
from pruning_schedulers import STORE, base
from pruning_setting import TITLES, case, curve

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import Measure, above, ahead, finding, told_all
from fedcell.experiment.measures import window
from fedcell.experiment.plots import dress, panels

KEYS = {
    "2 shards": "vgg/static Proposed",
    "3 shards": "vgg/AMP-FL s=3",
    "without old gradients": "vgg/Proposed-wGC",
    "without norm": "vgg/Proposed no norm",
}
CUT = {"2 shards, short": "vgg/static Proposed 400", "3 shards, short": "vgg/AMP-FL s=3 400"}  # the first rounds alone
EARLY, SHORT, LAST = 720, 400, 1500


def around(number: int, every: int = 20) -> Measure:
    """Mean accuracy over the five evaluations up to a round."""
    return window(number - 4 * every, number)


def cases(quick: bool) -> list[Case]:
    if quick:
        return []
    return [
        base("vgg"),
        case(KEYS["3 shards"], quick, {"data.shards_per_device": 3}),
        case(KEYS["without old gradients"], quick, {"rounds": EARLY}, cache="off"),
        case(KEYS["without norm"], quick, {"rounds": SHORT, "model.norm": "none"}),
        case(CUT["2 shards, short"], quick, {"rounds": SHORT}),
        case(CUT["3 shards, short"], quick, {"rounds": SHORT, "data.shards_per_device": 3}),
    ]


def check(rows: list[Row]) -> list[Finding]:
    two, three, plain, thin = KEYS.values()
    told = {number: told_all(rows, KEYS, around(number)) for number in (SHORT, EARLY)}
    end = told_all(rows, {name: KEYS[name] for name in ("2 shards", "3 shards")})
    short, wide = CUT.values()
    soon = told_all(rows, {**CUT, "without old gradients": plain}, around(SHORT))
    return [
        finding("cache soon", ahead(rows, short, plain, around(SHORT)), soon, "ahead with old gradients"),
        finding("shards soon", ahead(rows, wide, short, around(SHORT)), soon, "3 shards ahead"),
        finding("level 2", above(rows, two, 0.5, around(EARLY)), told[EARLY]),
        finding("level 3", above(rows, three, 0.58, around(EARLY)), told[EARLY]),
        finding("cache", ahead(rows, two, plain, around(EARLY), by=0.1), told[EARLY], "ahead by more than 10 points"),
        finding("norm", ahead(rows, two, thin, around(SHORT)), told[SHORT], "ahead with batch norm"),
        finding("printed", above(rows, two, 0.7), f"after {LAST} rounds {end}", "the interval lies above"),
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
