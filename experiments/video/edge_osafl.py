"""Edge servers in OSAFL's world in small (scenario `video`): one cell of 30 users who ask for many files in a round.

Between two placements a user makes some ten requests, and a model foretells the first of them. How much is left of
prediction then, for OSAFL and the baselines of its paper?
"""

import edge_setting as setting
import numpy as np
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import missing
from fedcell.experiment.plots import dress, panels
from fedcell.options import override
from fedcell.report.figure import COLOURS, LINES
from fedcell.scenarios import get

SEEDS = (1, 2, 3, 4, 5)
METHODS = ("osafl", "m_fedavg", "m_fedprox", "m_fednova", "m_afa_cd", "m_feddisco")
JUDGED = (4, 8, 16)
QUICK = {"rounds": 4, "model.hidden": (8,)}

SHOWN = [(method, "predicted") for method in METHODS]
SHOWN += [("placements", rule) for rule in ("genie", "popular", "lru", "lfu")]

CLAIMS = (
    Claim("order", "with OSAFL's model: hits of the genie > of predictions > of popularity", "not printed"),
    Claim("spared", "with fetching counted, OSAFL's predictions spare more backhaul than popularity", "not printed"),
    Claim("methods", "the more accurate OSAFL also hits more often than each baseline", "not printed"),
)


def cases(quick: bool) -> list[Case]:
    preset = get("video")
    config, seeds = override(preset.config, QUICK if quick else {}), SEEDS[:1] if quick else SEEDS
    placements = Case("placements", config, setting.PLAIN, {}, setting.build_plain, seeds=seeds)
    return [
        placements,
        *(Case(m, config, m, dict(preset.methods.get(m, {})), setting.build_predicted, seeds=seeds) for m in METHODS),
    ]


def hits(case: str, rule: str, room: int) -> setting.Side:
    return case, setting.hits(setting.name(rule, room))


def spared(case: str, rule: str, room: int, way: str = "eager") -> setting.Side:
    return case, setting.spared(setting.name(rule, room, way))


def check(rows: list[Row]) -> list[Finding]:
    if missing(rows, ["placements", "osafl"]):
        return []
    order, net, words, net_words = [], [], [], []
    for room in JUDGED:
        genie, popular = (hits("placements", rule, room) for rule in ("genie", "popular"))
        ours = hits("osafl", "predicted", room)
        order += [
            setting.more(rows, genie, ours, f"{room} files: genie > predicted"),
            setting.more(rows, ours, popular, f"{room} files: predicted > popular"),
        ]
        words.append(f"{room} files: {setting.told(rows, genie, ours, popular)}")
        mine, theirs = spared("osafl", "predicted", room, "passing"), spared("placements", "popular", room)
        net.append(setting.more(rows, mine, theirs, f"{room} files"))
        net_words.append(f"{room} files: {setting.told(rows, mine, theirs)}")
    found = [
        finding("order", order, "genie, predicted, popular: " + "; ".join(words), "hit ratios after training"),
        finding(
            "spared", net, "predicted without fetching, popular: " + "; ".join(net_words), "share of the bits asked for"
        ),
    ]
    if not missing(rows, METHODS):
        parts = [
            setting.more(rows, hits("osafl", "predicted", 8), hits(other, "predicted", 8), f"OSAFL > {other}")
            for other in METHODS[1:]
        ]
        found.append(finding("methods", parts, "", "hit ratios with 8 files after training"))
    return found


def plot(rows: list[Row]) -> Figure:
    figure, (left, right) = panels(2)
    for index, (case, rule) in enumerate(SHOWN):
        if any(row["case"] == case for row in rows):
            look = {"color": COLOURS[index % len(COLOURS)], "linestyle": LINES[index % len(LINES)], "marker": "."}
            label = case if rule == "predicted" else rule
            of = {"hits": setting.hits, "spared": setting.spared}
            for ax, measure in ((left, of["hits"]), (right, of["spared"])):
                every = setting.mean_by_room(rows, case, lambda one, m=measure, rule=rule: m(setting.name(rule, one)))
                ax.plot(setting.ROOMS, np.array(every), label=label, **look)
    dress(left, "files at the edge server", "hit ratio", "after training")
    dress(right, "files at the edge server", "backhaul spared", "after training, fetching counted")
    return figure


EXPERIMENT = Experiment("Edge servers in OSAFL's world in small", CLAIMS, cases, plot, check)

if __name__ == "__main__":
    main(EXPERIMENT)
