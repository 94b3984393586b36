"""Edge servers in OSAFL's world in small (scenario `video`): one cell of 30 users who ask for many files in a round.

Between two placements a user makes some ten requests, and a model foretells the first of them. How much is left of
prediction then, for OSAFL and the baselines of its paper? Ceilings are those of the exact chain, with and without
knowing what users asked for last: whatever a placement makes of predictions lies between them.
"""

import edge_setting as setting
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import missing
from fedcell.experiment.plots import panels
from fedcell.options import override
from fedcell.scenarios import get

SEEDS = (1, 2, 3, 4, 5)
METHODS = ("osafl", "m_fedavg", "m_fedprox", "m_fednova", "m_afa_cd", "m_feddisco")
JUDGED = (4, 8, 16)
DRAWN = 8  # files of the panels over rounds
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
    return [
        setting.ceiling_case("ceiling", config, seeds),
        Case("placements", config, setting.PLAIN, {}, setting.build_plain, seeds=seeds),
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
        best = [("ceiling", lambda row, what=what, room=room: row[f"{what} {room}"]) for what in ("ceiling", "static")]
        limits = "" if missing(rows, ["ceiling"]) else f" (ceilings {setting.told(rows, *best)})"
        words.append(f"{room} files: {setting.told(rows, genie, ours, popular)}{limits}")
        mine, theirs = spared("osafl", "predicted", room, "thrifty"), spared("placements", "popular", room)
        net.append(setting.more(rows, mine, theirs, f"{room} files"))
        net_words.append(f"{room} files: {setting.told(rows, mine, theirs)}")
    found = [
        finding("order", order, "genie, predicted, popular: " + "; ".join(words), "hit ratios after training"),
        finding("spared", net, "predicted (thrifty), popular: " + "; ".join(net_words), "share of the bits asked for"),
    ]
    if not missing(rows, METHODS):
        parts = [
            setting.more(rows, hits("osafl", "predicted", 8), hits(other, "predicted", 8), f"OSAFL > {other}")
            for other in METHODS[1:]
        ]
        found.append(finding("methods", parts, "", "hit ratios with 8 files after training"))
    return found


def plot(rows: list[Row]) -> Figure:
    figure, axes = panels(4)
    for number, (case, rule) in enumerate(SHOWN):
        setting.draw(axes, rows, case, rule, case if rule == "predicted" else rule, number, DRAWN, "eager")
    setting.dress_all(axes, DRAWN, "30 users")
    return figure


EXPERIMENT = Experiment("Edge servers in OSAFL's world in small", CLAIMS, cases, plot, check)

if __name__ == "__main__":
    main(EXPERIMENT)
