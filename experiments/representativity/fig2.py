"""Figure 3.2: how far estimated gradients of a device are from its present one.

E-PG is the gradient received last, E-MBG that of smaller batches. How often the device is scheduled is not said: all
devices are in every round (received one round ago; MNIST alone), or 10 are by representativity. With the published
momentum of 0.9 on the devices, and without, as it would be with the momentum on the server.
"""

from functools import partial
from itertools import pairwise

from matplotlib.figure import Figure
from representativity_setting import PLAIN, STORE, TITLES, case, config, name

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import Measure, Part, finding, inside, missing, told_all
from fedcell.experiment.measures import column
from fedcell.experiment.over_seeds import gap
from fedcell.experiment.plots import curve, dress, panels

BATCHES = (4, 8, 16)
SCHEDULES = {"everyone": {"policy": "random", "n_selected": 100}, "N=10": {"n_selected": 10}}
SHOWN = {"mnist": ("everyone", "N=10"), "cifar": ("N=10",)}
ROUNDS = 60
COLUMNS = {"E-PG": "estimate_previous"} | {f"E-MBG {batch}": f"estimate_batch{batch}" for batch in BATCHES}
ROUGH = tuple(COLUMNS)[1:]


def key(data: str, schedule: str, plain: bool = False) -> str:
    """The name of a case; `plain` runs have no momentum."""
    return name(data, 2, f"estimates {schedule}{PLAIN * plain}")


def cases(quick: bool) -> list[Case]:
    out = []
    for data, schedules in SHOWN.items():
        settings = config(data, 2, quick, **({"eval_every": 1} if quick else {"eval_every": 1, "rounds": ROUNDS}))
        for schedule in schedules:
            named = [key(data, schedule, plain) for plain in (False, True)]
            out += [case(one, settings, diagnose="estimates", **SCHEDULES[schedule]) for one in named]
    return out


# ---------------------------------------------------------------- claims


def swing(row: Row, label: str) -> float:
    """Mean change of an error from round to round."""
    values = [value for value in row[COLUMNS[label]] if value is not None]
    return sum(abs(after - before) for before, after in pairwise(values)) / max(len(values) - 1, 1)


def level(label: str) -> Measure:
    """Mean error over the rounds."""
    return column(COLUMNS[label])


def lower(rows: list[Row], one: str, label: str, other: str, of: str = "level") -> Part:
    """An error, or its swing, is lower than another of the same runs."""
    low, high = (level(each) if of == "level" else partial(swing, label=each) for each in (label, other))
    which = one.partition("estimates ")[2]
    return inside(f"{which}: {label} < {other}", gap(rows, one, one, high, low), low=0.0)


def told(rows: list[Row], keys: list[str], of: str = "level") -> str:
    parts = []
    for one in keys:
        measures = {label: level(label) if of == "level" else partial(swing, label=label) for label in COLUMNS}
        numbers = ", ".join(told_all(rows, {label: one}, measure, 2) for label, measure in measures.items())
        parts.append(f"{one.partition('estimates ')[2]}: {numbers}")
    return "; ".join(parts)


def check(rows: list[Row]) -> list[Finding]:
    return [finding for data in SHOWN for plain in (False, True) for finding in _of(rows, data, plain)]


def _of(rows: list[Row], data: str, plain: bool) -> list[Finding]:
    named = [key(data, schedule, plain) for schedule in SHOWN[data]]
    there, end = [one for one in named if not missing(rows, [one])], PLAIN * plain
    lowest = [lower(rows, one, "E-PG", other) for one in there for other in ROUGH]
    falls = [lower(rows, one, more, fewer) for one in there for fewer, more in pairwise(ROUGH)]
    swings = [lower(rows, one, "E-PG", other, "swing") for one in there for other in ROUGH]
    return [
        finding(f"{data} lowest{end}", lowest, told(rows, there), "mean error below that of a mini-batch"),
        finding(f"{data} batch{end}", falls, told(rows, there), "mean error falls from 4 to 8 to 16 samples"),
        finding(f"{data} swing{end}", swings, told(rows, there, "swing"), "changes less from round to round"),
    ]


def plot(rows: list[Row]) -> Figure:
    every = [(data, s, plain) for data in SHOWN for s in SHOWN[data] for plain in (False, True)]
    shown = [one for one in every if not missing(rows, [key(*one)])]
    figure, axes = panels(len(shown))
    for ax, (data, schedule, plain) in zip(axes, shown, strict=False):
        for index, (label, one) in enumerate(COLUMNS.items()):
            curve(ax, rows, key(data, schedule, plain), index, label, one)
        title = f"{TITLES[data]}, {schedule}{',' * plain}{PLAIN * plain}"
        dress(ax, "round", "distance from the present gradient", title)
    return figure


def _claims(data: str, plain: bool) -> list[Claim]:
    where, end = TITLES[data] + (", no momentum" if plain else ""), PLAIN * plain
    return [
        Claim(
            f"{data} lowest{end}",
            f"{where}: the gradient received last is nearer to the true one than that of a mini-batch",
            "curves; no numbers",
        ),
        Claim(f"{data} batch{end}", f"{where}: the error of a mini-batch falls with its size", "curves, 4, 8 and 16"),
        Claim(f"{data} swing{end}", f"{where}: the error of a mini-batch fluctuates strongly", "curves; no numbers"),
    ]


EXPERIMENT = Experiment(
    title="Figure 3.2: error of estimated gradients",
    claims=[claim for data in SHOWN for plain in (False, True) for claim in _claims(data, plain)],
    cases=cases,
    plot=plot,
    check=check,
    store=STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
