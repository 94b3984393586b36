"""What prediction is for: hits and backhaul of edge servers in RawHFL's network, over storage sizes and upsilon.

The paper stops at accuracy and says that such metrics "are generally directly proportional" to it (footnote 2). Here
users' models name their next files, and the edge servers hold what is named most. A round is an edge round of 150 s;
200 of them. Requests that stay in their genre (upsilon) can be foretold, and those that leave it are popular. Files are
equally large. Every verdict is on servers after training; ceilings come from the exact chain of requests.
"""

from collections.abc import Sequence

import edge_setting as setting
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import linregress, spearmanr

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import Part, by_seed, inside, level, missing, values_of
from fedcell.experiment.plots import dress, panels
from fedcell.options import override
from fedcell.report.figure import COLOURS
from fedcell.report.paired import half_width
from fedcell.scenarios import get

SEEDS = (31, 32, 33, 34, 35)
ROUNDS, EVERY = 200, 8
STAYS = {"0.3": "0.3", "0.7": "0.7", "mixed": "0.1..0.8"}
FIXED = ("0.3", "0.7")  # of all users alike
READING = {"inner": "sequential"}  # as in the tables of RawHFL
ENTRIES = {
    "RawHFL": ("rawhfl", {"allocation": "max", "z": 4, **READING}),
    "H-FedAvg-UB": ("h_fedavg", {"mode": "ub", **READING}),
    "H-FedAvg-M2": ("h_fedavg", {"mode": "m2", **READING}),
}
OURS = "RawHFL"
JUDGED = (2, 4, 8)  # files: one holds too little to tell rules apart, sixteen nearly all that is asked for
NEAR = 0.02  # hit ratios that are alike
THROUGH = 0.1  # of the mean: how far from 0 a line of hits over accuracy may begin to be called proportional
DRAWN = 4  # files of the panels over rounds and accuracy
SHOWN = [(entry, "predicted") for entry in ENTRIES]
SHOWN += [("placements", rule) for rule in ("genie", "popular", "lru", "lfu")]
QUICK = {"rounds": 8, "eval_every": 4, "model.hidden": (16,), "train.steps": 2}

CLAIMS = (
    Claim(
        "proportional",
        "hit ratio is directly proportional to prediction accuracy",
        "footnote 2: such metrics are generally directly proportional to the prediction accuracy",
    ),
    Claim(
        "order", "at equal storage the genie hits more than predictions, and these more than popularity", "not printed"
    ),
    Claim("ceiling", "no placement between two rounds hits more than the exact chain allows", "not printed", "check"),
    Claim("spared", "with fetching counted, predictions spare the backhaul more than popularity does", "not printed"),
    Claim("thrift", "fetching what pays within five rounds spares more than fetching all of it", "not printed"),
    Claim("stays", "the more requests stay in their genre, the more predictions gain over popularity", "not printed"),
    Claim("constrained", "RawHFL hits as often as H-FedAvg without constraints, and more often than M2", "not printed"),
)


def key(stay: str, entry: str) -> str:
    return f"upsilon={stay} {entry}"


def cases(quick: bool) -> list[Case]:
    out = []
    for stay, law in STAYS.items():
        changes = {"rounds": ROUNDS, "eval_every": EVERY, "video.stay": law, **(QUICK if quick else {})}
        config, seeds = override(get("rawhfl").config, changes), SEEDS[:1] if quick else SEEDS
        trained = override(config, {"train.tf32": True})  # counts on a GPU alone
        out.append(setting.ceiling_case(key(stay, "ceiling"), config, seeds))
        out.append(Case(key(stay, "placements"), config, setting.PLAIN, {}, setting.build_plain, seeds=seeds))
        for entry, (method, own) in ENTRIES.items():
            if stay == "mixed" or entry == OURS:
                out.append(Case(key(stay, entry), trained, method, own, setting.build_predicted, seeds=seeds))
    return out


# ---------------------------------------------------------------- judging


def check(rows: list[Row]) -> list[Finding]:
    found = [_proportional(rows)]
    if not missing(rows, [key("mixed", OURS), key("mixed", "placements")]):
        found += [_order(rows), _spared(rows), _thrift(rows)]
    if not missing(rows, [key(stay, entry) for stay in STAYS for entry in (OURS, "placements")]):
        found.append(_stays(rows))
    if not missing(rows, [key(stay, entry) for stay in STAYS for entry in (OURS, "ceiling")]):
        found.append(_ceiling(rows))
    if not missing(rows, [key("mixed", entry) for entry in ENTRIES]):
        found.append(_constrained(rows))
    return found


def hits(stay: str, entry: str, rule: str, room: int) -> setting.Side:
    return key(stay, entry), setting.hits(setting.name(rule, room))


def ceiling(stay: str, room: int) -> setting.Side:
    return key(stay, "ceiling"), lambda row: float(row[f"ceiling {room}"])


def points(rows: Sequence[Row], seed: int, room: int) -> tuple[list[float], list[float]]:
    """(accuracy, hit ratio) at every evaluation of every learned case of a seed."""
    x: list[float] = []
    y: list[float] = []
    for row in rows:
        if row["seed"] == seed and row["case"] in [key("mixed", entry) for entry in ENTRIES]:
            x += row["accuracy"]
            y += setting.curve(row, setting.name("predicted", room), row["rounds"], EVERY).tolist()
    return x, y


def _proportional(rows: list[Row]) -> Finding:
    """A line of hits over accuracy that rises and begins at zero, on the seeds that have every method."""
    learned = [set(by_seed(rows, key("mixed", entry))) for entry in ENTRIES]
    seeds = sorted(set.intersection(*learned))
    parts: list[Part] = []
    words = []
    for room in JUDGED:
        ranks, starts, slopes = [], [], []
        for seed in seeds:
            x, y = points(rows, seed, room)
            line = linregress(x, y)
            ranks.append(float(spearmanr(x, y).statistic))
            starts.append(float(line.intercept / np.mean(y)))
            slopes.append(float(line.slope))
        parts.append(inside(f"{room} files: rises", np.array(ranks), low=0.0))
        parts.append(inside(f"{room} files: from zero", np.array(starts), -THROUGH, THROUGH))
        if seeds:
            words.append(
                f"{room} files: rank correlation {np.mean(ranks):.2f}, slope {np.mean(slopes):.2f}, hits at accuracy 0 "
                f"{np.mean(starts):.2f} of the mean"
            )
    rule = f"over evaluations and methods; a line that begins within {THROUGH} of the mean from 0"
    return finding("proportional", parts, "; ".join(words), rule)


def _order(rows: list[Row]) -> Finding:
    parts, words = [], []
    for room in JUDGED:
        genie, popular = (hits("mixed", "placements", rule, room) for rule in ("genie", "popular"))
        ours = hits("mixed", OURS, "predicted", room)
        parts += [
            setting.more(rows, genie, ours, f"{room} files: genie > predicted"),
            setting.more(rows, ours, popular, f"{room} files: predicted > popular"),
        ]
        words.append(f"{room} files: {setting.told(rows, genie, ours, popular)}")
    return finding("order", parts, "genie, predicted, popular: " + "; ".join(words), "hit ratios after training")


def spared(entry: str, rule: str, room: int, way: str = "eager") -> setting.Side:
    return key("mixed", entry), setting.spared(setting.name(rule, room, way))


def _spared(rows: list[Row]) -> Finding:
    parts, words = [], []
    for room in JUDGED:
        ours, popular = spared(OURS, "predicted", room, "thrifty"), spared("placements", "popular", room)
        genie = spared("placements", "genie", room, "thrifty")
        parts.append(setting.more(rows, ours, popular, f"{room} files: predicted > popular"))
        words.append(f"{room} files: {setting.told(rows, genie, ours, popular)}")
    ours = "genie, predicted (both thrifty), popular: " + "; ".join(words)
    return finding("spared", parts, ours, "share of the bits asked for")


def _thrift(rows: list[Row]) -> Finding:
    parts = [
        setting.more(rows, spared(OURS, "predicted", room, "thrifty"), spared(OURS, "predicted", room), f"{room} files")
        for room in JUDGED
    ]
    return finding("thrift", parts, "", "share of the bits asked for, thrifty less eager")


def _stays(rows: list[Row]) -> Finding:
    parts = []
    for room in JUDGED:
        less, more = (
            setting.gaps(rows, hits(stay, OURS, "predicted", room), hits(stay, "placements", "popular", room))
            for stay in FIXED
        )
        wider = [more[seed] - less[seed] for seed in sorted(less.keys() & more.keys())]
        parts.append(inside(f"{room} files", np.array(wider), low=0.0))
    return finding("stays", parts, "", "lead over popularity at upsilon 0.7 less that at 0.3")


def _ceiling(rows: list[Row]) -> Finding:
    parts, words = [], []
    for stay in STAYS:
        for room in JUDGED:
            ours, best = hits(stay, OURS, "predicted", room), ceiling(stay, room)
            parts.append(setting.more(rows, best, ours, f"upsilon {stay}, {room} files", NEAR))
            words.append(f"{stay}, {room} files: {setting.told(rows, ours, best)}")
    rule = f"not above by more than {NEAR}, which is the noise of the requests"
    return finding("ceiling", parts, "predicted, ceiling: " + "; ".join(words), rule)


def _constrained(rows: list[Row]) -> Finding:
    parts = []
    for room in JUDGED:
        measure = setting.hits(setting.name("predicted", room))
        ours, ub, m2 = (key("mixed", entry) for entry in ENTRIES)
        parts.append(level(rows, ours, ub, NEAR, measure, None, f"{room} files: RawHFL ~ H-FedAvg-UB"))
        parts.append(setting.more(rows, (ours, measure), (m2, measure), f"{room} files: RawHFL > H-FedAvg-M2"))
    return finding("constrained", parts, "", f"alike within {NEAR}")


# ---------------------------------------------------------------- figure


def plot(rows: list[Row]) -> Figure:
    figure, axes = panels(6)
    four, (over_stays, accuracy) = axes[:4], axes[4:]
    for number, (entry, rule) in enumerate(SHOWN):
        label = entry if rule == "predicted" else rule
        setting.draw(four, rows, key("mixed", entry), rule, label, number, DRAWN, "thrifty")
        own = [row for row in rows if row["case"] == key("mixed", entry) and rule == "predicted"]
        for nth, row in enumerate(own):
            x, y = points([row], row["seed"], DRAWN)
            accuracy.plot(x, y, ".", color=COLOURS[number % len(COLOURS)], label=None if nth else label)
    _draw_ceilings(four[2], rows)
    _draw_stays(over_stays, rows)
    setting.dress_all(four, DRAWN, "upsilon in [0.1, 0.8]")
    dress(over_stays, "upsilon of all users", "hit ratio", f"{DRAWN} files, after training")
    dress(accuracy, "test accuracy", "hit ratio", f"{DRAWN} files, every evaluation")
    return figure


def _draw_stays(ax: Axes, rows: list[Row]) -> None:
    """Hits by stay probability, with 95 % intervals over seeds."""
    sides = {OURS: [hits(stay, OURS, "predicted", DRAWN) for stay in FIXED]}
    sides |= {r: [hits(stay, "placements", r, DRAWN) for stay in FIXED] for r in ("genie", "popular", "lfu")}
    sides["ceiling"] = [ceiling(stay, DRAWN) for stay in FIXED]
    for number, (label, by_stay) in enumerate(sides.items()):
        values = [values_of(rows, *side) for side in by_stay]
        if all(len(one) for one in values):
            bars = [half_width(one, 0.95) for one in values]
            look = {"color": COLOURS[number % len(COLOURS)], "marker": ".", "capsize": 3, "label": label}
            ax.errorbar([float(stay) for stay in FIXED], [one.mean() for one in values], yerr=bars, **look)


def _draw_ceilings(ax: Axes, rows: list[Row]) -> None:
    best = [row for row in rows if row["case"] == key("mixed", "ceiling")]
    for what, line in (("ceiling", ":"), ("static", "--")):
        if best:
            values = [np.mean([row[f"{what} {room}"] for row in best]) for room in setting.ROOMS]
            ax.plot(setting.ROOMS, values, color="#888888", linestyle=line, label=f"{what} of the chain")


EXPERIMENT = Experiment("Edge servers in RawHFL's network", CLAIMS, cases, plot, check)

if __name__ == "__main__":
    main(EXPERIMENT)
